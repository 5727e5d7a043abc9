"""What followers and the controller tell a leader, and what that does to its partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.replica.in_sync import Decided, Proposal
    from penstock.replica.partition import Partition


def fetched(
    partition: Partition, node_id: int, broker_epoch: int, offset: int, start: int, now: int
) -> Proposal | ErrorCode | None:
    """A follower has all below `offset`, and its log begins at `start`.

    The answer is an in-sync set to propose, or why the fetch does not count, or nothing.
    """
    in_sync = partition.in_sync
    if in_sync is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    error = in_sync.fetched(node_id, broker_epoch, offset, start, partition.log.end, now)
    if error:
        return error
    proposal = in_sync.propose_joining(node_id, partition.high_watermark)
    partition.count_in_sync(now)
    return proposal


def kept_up(partition: Partition, node_id: int, at: int) -> None:
    """A follower that had everything at a time, and has to be looked at again now."""
    if partition.in_sync is not None:
        partition.in_sync.kept_up(node_id, at)


def review(partition: Partition, now: int) -> Proposal | None:
    """Time has passed, or brokers came and went: an in-sync set to propose, or nothing.

    Who could join now may have been quiet for long, and its last fetch tells nothing of whether it
    is still there. So it is looked at again when it asks the next time, which is soon.
    """
    in_sync = partition.in_sync
    if in_sync is None or partition.offline:
        return None
    partition.count_in_sync(now)
    partition.tell_start()  # which retention moves without a word
    for node_id in in_sync.candidates(partition.high_watermark):
        partition.audience.wake(node_id)
    return in_sync.propose_leaving(partition.log.end, now)


def answered(
    partition: Partition, proposal: Proposal, answer: Decided | ErrorCode, now: int
) -> bool:
    """What the controller made of a proposal; True if it should be sent again."""
    in_sync = partition.in_sync
    if in_sync is None:
        return False
    again = in_sync.answered(proposal, answer)
    partition.take_in_sync()
    partition.count_in_sync(now)
    return again


def is_proposed(partition: Partition, proposal: Proposal) -> bool:
    """Whether the node still leads and waits for an answer to just this proposal."""
    in_sync = partition.in_sync
    return partition.leading and in_sync is not None and in_sync.proposed is proposal


def in_sync_followers(partition: Partition) -> list[tuple[int, int, int]]:
    """Those in sync besides the leader: node, and where its log begins and ends."""
    in_sync = partition.in_sync
    return [] if in_sync is None else in_sync.members()


def low_watermark(partition: Partition) -> int:
    """The lowest beginning among the live replicas; -1 while a follower's is not known."""
    in_sync, start = partition.in_sync, partition.log.start
    return start if in_sync is None else in_sync.start_of_all(start)

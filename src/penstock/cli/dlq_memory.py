"""Which letters of a topic were sent back: offsets of a group that exists for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.cli.dlq_letter import Letter
from penstock.cli.failure import Failure, say
from penstock.cli.wire_cluster import GROUP, Cluster, Refusal, check
from penstock.model.errors import ErrorCode
from penstock.pipeline.redrive_progress import Progress as Redriven
from penstock.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

KEPT_MS = 3650 * 24 * 60 * 60 * 1000

_FETCH_VERSION_MAX = 7  # the last that asks for one group; every broker knows it
_COMMIT_VERSION_MAX = 4  # the last that says how long an offset is to be kept


class Mark(NamedTuple):
    """What is committed in one partition."""

    offset: int
    metadata: str | None


def group_of(topic: str) -> str:
    """The group that remembers which letters of a topic were sent back."""
    return f"penstock.dlq.{topic}:redrive"


def was_sent(letter: Letter, sent: Mapping[int, Redriven]) -> bool:
    """Whether a letter was sent back before."""
    way = sent.get(letter.partition)
    return way is not None and (letter.offset < way.start or way.was_sent(letter.offset))


def redriven(cluster: Cluster, topic: str, *, settled: bool = True) -> dict[int, Redriven]:
    """What was sent back of each partition, by transactions that are all `settled`.

    Those who only look need not wait for one that may have been killed.
    """
    try:
        marks = _marks(cluster, topic, group_of(topic), settled=settled)
        return {number: Redriven.of(*mark) for number, mark in marks.items()}
    except ValueError:
        raise Failure(
            f"what was sent back of {topic} is not known: somebody else has committed to group "
            f"{group_of(topic)}",
            "`penstock group describe` shows what; delete the group to begin anew, which sends "
            "all letters again",
        ) from None


def redriven_if_allowed(cluster: Cluster, topic: str) -> dict[int, Redriven] | None:
    """The same for those who only look: None, and a word about it, where they may not know."""
    try:
        return redriven(cluster, topic, settled=False)
    except Refusal as refusal:
        if refusal.code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        say(f"which letters were sent is not shown: {refusal.problem}")
        return None


def _marks(cluster: Cluster, topic: str, group: str, *, settled: bool) -> dict[int, Mark]:
    # By name: of all that a group has, what its first transaction is about to commit is left out.
    partitions = [place.partition for place in cluster.leaders([topic])]
    asked = OffsetFetchRequestTopic(name=topic, partition_indexes=partitions)
    request = OffsetFetchRequest(group_id=group, topics=[asked], require_stable=settled)

    def once() -> dict[int, Mark]:
        node = cluster.node(cluster.coordinator(GROUP, group).id)
        told = node.ask(request, OffsetFetchResponse, _FETCH_VERSION_MAX)
        what = f"what was sent back of {topic} is not known"
        check(told.error_code, what)
        found = {}
        for one in told.topics:
            for part in one.partitions:
                check(part.error_code, what)
                if part.committed_offset >= 0:
                    found[part.partition_index] = Mark(part.committed_offset, part.metadata)
        return found

    return cluster.patiently(once)


def keep(cluster: Cluster, topic: str, group: str) -> None:
    """Have what was sent back remembered for as long as letters may lie.

    Offsets of a group without members are forgotten after a week, unless whoever commits them says
    otherwise, and transactions have no way to say it. So what is committed is committed once more.
    """
    marks = _marks(cluster, topic, group, settled=True)
    if not marks:
        return
    parts = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=mark.offset, committed_metadata=mark.metadata
        )
        for number, mark in marks.items()
    ]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=KEPT_MS,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=parts)],
    )

    def once() -> None:
        node = cluster.node(cluster.coordinator(GROUP, group).id)
        for told in node.ask(request, OffsetCommitResponse, _COMMIT_VERSION_MAX).topics:
            for one in told.partitions:
                check(one.error_code, f"what was sent back of {topic} may be forgotten in a week")

    cluster.patiently(once)

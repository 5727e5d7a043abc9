"""Clusters with one bug each, to show that the simulation would have found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from penstock.controller import elections, in_sync, leaders
from penstock.coordination.runtime import Runtime
from penstock.model.errors import ErrorCode
from penstock.raft.journal import Journal
from penstock.replica.fetching import CutTo, Following
from penstock.replica.in_sync import UNBOUNDED, InSync, Peers
from penstock.replica.partition import Partition
from penstock.storage.epochs import LeaderEpochs
from penstock.storage.producers import Producers


class Bug(NamedTuple):
    """One function that does something else than it should."""

    says: str
    owner: Any
    name: str
    make: Callable[[Any], Any]
    """The broken function, made from the right one."""

    def __str__(self) -> str:
        return self.says


@contextmanager
def planted(*bugs: Bug) -> Iterator[None]:
    """Within the block every node has these bugs."""
    patches = [mock.patch.object(bug.owner, bug.name, bug.make(_found(bug))) for bug in bugs]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def _found(bug: Bug) -> Any:
    found = getattr(bug.owner, bug.name)
    return found.fget if isinstance(found, property) else found


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _: lambda *args, **kwargs: value


def _counts_itself_alone(right: Any) -> Any:
    return lambda self, leader_end, now: UNBOUNDED


def _drops_laggards_alone(right: Any) -> Any:
    """Who lags no longer counts, before the controller has heard of it."""

    def end_of_all(self: InSync, leader_end: int, now: int) -> int:
        ends = [each.end for each in self.followers.values() if each.end == leader_end]
        return min(ends, default=UNBOUNDED)

    return end_of_all


def _answers_at_once(right: Any) -> Any:
    return lambda self, end_offset, future: future.set_result(ErrorCode.NONE)


def _any_epoch_will_do(right: Any) -> Any:
    def check_epoch(self: Partition, *_: Any) -> ErrorCode:
        return ErrorCode.NONE if self.leading else ErrorCode.NOT_LEADER_OR_FOLLOWER

    return check_epoch


def _cuts_at_its_watermark(right: Any) -> Any:
    """As followers did before leaders' epochs were known to them."""

    def ask(self: Following, held: Any) -> Any:
        if self.lag is None and held.end > held.high_watermark:
            self.lag = 0
            return CutTo(held.high_watermark)
        return right(self, held)

    return ask


def _commits_its_own_end(right: Any) -> Any:
    def take_marks(self: Partition, high_watermark: int, log_start: int) -> None:
        right(self, self.log.end, log_start)

    return take_marks


def _lets_in_who_lags(right: Any) -> Any:
    return lambda self, follower, high_watermark: self._peers.may_join(follower)


def _believes_any_life(right: Any) -> Any:
    def may_join(self: Peers, follower: Any) -> bool:
        broker = self.brokers.get(follower.node_id)
        return broker is not None and broker.active

    return may_join


def _forgets_producers(right: Any) -> Any:
    def lead(self: Partition, epoch: int, *args: Any, **kwargs: Any) -> None:
        if epoch > self.leader_epoch:
            self.log.producers.clear()
        right(self, epoch, *args, **kwargs)

    return lead


def _shows_everything(right: Any) -> Any:
    def read(
        self: Partition,
        offset: int,
        size_max: int,
        whole_first: bool,
        committed_only: bool,
        uncommitted_too: bool = False,
    ) -> Any:
        return right(self, offset, size_max, whole_first, False, True)

    return read


def _elects_anybody(right: Any) -> Any:
    def elect(old: Any, isr: Any, elr: Any, rules: Any) -> tuple[int, bool]:
        alive = [each for each in old.replicas if rules.acceptable(each)]
        return (alive[-1], True) if alive else right(old, isr, elr, rules)

    return elect


def _takes_any_proposal(right: Any) -> Any:
    def out_of_date(partition: Any, leader: int, wanted: Any) -> ErrorCode | None:
        return None if leader == partition.leader else right(partition, leader, wanted)

    return out_of_date


def _does_not_sync_its_vote(right: Any) -> Any:
    def save_election(self: Journal, state: Any) -> None:
        """Nothing is written: a start finds whatever was there before."""

    return save_election


def _replies_before_commit(right: Any) -> Any:
    def release(self: Any, seat: Any, out: Any) -> None:
        self._on_commit(seat, out, ErrorCode.NONE)

    return release


def _takes_no_sequence_amiss(right: Any) -> Any:
    return lambda self, *args: None


PLANTED: list[Bug] = [
    Bug("the watermark is the leader's end", InSync, "end_of_all", _counts_itself_alone),
    Bug("laggards do not count, unheard by all", InSync, "end_of_all", _drops_laggards_alone),
    Bug("acks=all is answered before the commit", Partition, "await_commit", _answers_at_once),
    Bug("leaders do not look at epochs", Partition, "check_epoch", _any_epoch_will_do),
    Bug("leaders do not see that logs parted", Partition, "divergence", _always(None)),
    Bug("leaders do not note their epochs", LeaderEpochs, "assign", _always(None)),
    Bug("followers cut at their watermark", Following, "ask", _cuts_at_its_watermark),
    Bug("followers commit all they have", Partition, "take_marks", _commits_its_own_end),
    Bug("who lags is let in", InSync, "_may_join", _lets_in_who_lags),
    Bug("a former life's fetch counts", Peers, "may_join", _believes_any_life),
    Bug("a new leader knows no producers", Partition, "lead", _forgets_producers),
    Bug("sequences are not looked at", Producers, "check", _takes_no_sequence_amiss),
    Bug("readers see what is not committed", Partition, "read", _shows_everything),
    Bug("whoever is alive may lead", elections, "_elect", _elects_anybody),
    Bug("an unclean stop is overlooked", leaders, "after_unclean_stop", _always([])),
    Bug("a fenced broker stays in sync", leaders, "after_leaving", _always([])),
    Bug("partition epochs are not looked at", in_sync, "_out_of_date", _takes_any_proposal),
    Bug("votes are not written down", Journal, "save_election", _does_not_sync_its_vote),
    Bug(
        "coordinators answer before the commit",
        Runtime,
        "_release_when_committed",
        _replies_before_commit,
    ),
]

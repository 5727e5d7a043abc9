"""Clusters with one bug each, to show that the simulation would have found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from penstock.controller import elections, leaders
from penstock.coordination.delivery import machine as deliveries
from penstock.coordination.delivery.effects import Held
from penstock.coordination.delivery.machine import Delivery
from penstock.coordination.delivery.states import State
from penstock.coordination.delivery.window import Run, Window
from penstock.coordination.group.streams import heartbeat, reconcile, timers
from penstock.coordination.group.streams.group import StreamsGroup
from penstock.model.errors import ErrorCode
from penstock.replica import delay_delivery, delay_parking
from penstock.replica.in_sync import UNBOUNDED, InSync
from penstock.replica.outcomes import Appended
from penstock.replica.partition import Partition
from penstock.server import delays
from penstock.server.dead_letters import DeadLetters
from penstock.storage import delay_snapshots
from penstock.storage.delay_index import DelayIndex
from penstock.storage.producers import Producers

from .cluster_story import DELAYS, SHARES, STREAMS


class Bug(NamedTuple):
    """One function that does something else than it should."""

    says: str
    owner: Any
    name: str
    make: Callable[[Any], Any]
    """The broken function, made from the right one."""
    guests: Sequence[str] = ()
    """In which worlds to look for it."""
    seed: int = 0
    """Where it was found last: the first place to look."""

    def __str__(self) -> str:
        return self.says


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Within the block every node has the bug."""
    broken = bug.make(getattr(bug.owner, bug.name))
    with mock.patch.object(bug.owner, bug.name, broken):
        yield


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


def _commits_its_own_end(right: Any) -> Any:
    def take_marks(self: Partition, high_watermark: int, log_start: int) -> None:
        right(self, self.log.end, log_start)

    return take_marks


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


def _swallows_markers(right: Any) -> Any:
    def append_marker(self: Partition, *args: Any, **kwargs: Any) -> Any:
        return Appended(self.log.end, self.log.end, -1, self.log.start)

    return append_marker


def _takes_any_write_for_done(right: Any) -> Any:
    """Whatever becomes of it."""

    def acknowledge(
        self: Delivery, member: str, said: Any, token: object, at: Any, out: Any
    ) -> None:
        right(self, member, said, token, at, out)
        for write in out.writes:
            self.on_written(write.ticket, ErrorCode.NONE, at, out)

    return acknowledge


def _gives_away_what_others_hold(right: Any) -> Any:
    return property(lambda run: run.state <= State.ACQUIRED and not run.ticket)


def _passes_what_is_not_done(right: Any) -> Any:
    def advance(self: Window) -> None:
        right(self)
        if len(self.runs) > 1 and self.runs[0].state is State.AVAILABLE:
            self.begin_at(self.runs[1].first)

    return advance


def _forgets_that_some_is_done(right: Any) -> Any:
    def load(held: Held, backoff: Any, at: Any) -> Any:
        done = [
            batch._replace(state=State.AVAILABLE if batch.state in (2, 4) else batch.state)
            for batch in held.batches
        ]
        return right(held._replace(batches=tuple(done)), backoff, at)

    return load


def _buries_nothing(right: Any) -> Any:
    async def bury(self: DeadLetters, *args: Any) -> bool:
        return True

    return bury


def _forgets_what_waits(right: Any) -> Any:
    def lead(self: Partition, epoch: int, *args: Any, **kwargs: Any) -> None:
        if not self.leading and self.log.delays is not None:
            self.log.delays.drop_below(self.log.end)
        right(self, epoch, *args, **kwargs)

    return lead


def _tells_nobody_what_it_delivered(right: Any) -> Any:
    """The leader itself remembers, and nobody else knows."""

    def deliver(partition: Partition, parked: Any, now: int) -> Any:
        there = delay_delivery.still_waiting(partition, parked)
        bodies = [each.body or b"" for each in there]
        result = partition.append_own(delay_delivery._batch(bodies, partition.log.config, now), now)
        if isinstance(result, Appended) and partition.log.delays is not None:
            for each in there:
                partition.log.delays.waiting.remove(each.row.due, each.row.id)
        return result

    return deliver


def _takes_deliveries_on_trust(right: Any) -> Any:
    """Although the batch that is to follow may never come."""

    def heed(self: DelayIndex, offset: int, batch: Any) -> None:
        right(self, offset, batch)
        if self._claims and self._claims[-1].said_at == offset and self._claims[-1].is_delivery:
            self._remove(self._claims.pop().rows)
            self.changed_at = offset

    return heed


def _delivers_what_was_aborted(right: Any) -> Any:
    def decide(self: DelayIndex, producer_id: int, offset: int, batch: Any) -> None:
        for row in self.undecided.get(producer_id, ()):
            self.waiting.put(row.due, row.id, row.place)
        right(self, producer_id, offset, batch)

    return decide


def _delivers_backwards(right: Any) -> Any:
    return lambda partition, parked, now: right(partition, parked[::-1], now)


def _is_in_a_hurry(right: Any) -> Any:
    def due_of(headers: Any, now: int, ahead_max: int) -> int | None:
        due = right(headers, now, ahead_max)
        return None if due is None else due - 200

    return due_of


def _says_it_once(right: Any) -> Any:
    """Whoever did not hear it does not hear it again."""

    def answer(shard: Any, group: Any, request: Any, before: Any, owned: Any, changed: Any) -> Any:
        return right(shard, group, request, before, None, changed)

    return answer


PLANTED: list[Bug] = [
    Bug("the watermark is the leader's end", InSync, "end_of_all", _counts_itself_alone),
    Bug("laggards do not count, unheard by all", InSync, "end_of_all", _drops_laggards_alone),
    Bug("acks=all is answered before the commit", Partition, "await_commit", _answers_at_once),
    Bug("leaders do not see that logs parted", Partition, "divergence", _always(None), seed=35),
    Bug(
        "followers commit all they have",
        Partition,
        "take_marks",
        _commits_its_own_end,
        (SHARES,),
        seed=17,
    ),
    Bug("a new leader knows no producers", Partition, "lead", _forgets_producers, seed=3),
    Bug("sequences are not looked at", Producers, "check", _always(None), seed=4),
    Bug("readers see what is not committed", Partition, "read", _shows_everything),
    Bug("whoever is alive may lead", elections, "_elect", _elects_anybody),
    Bug("an unclean stop is overlooked", leaders, "after_unclean_stop", _always([]), seed=5),
    Bug("markers reach nobody", Partition, "append_marker", _swallows_markers),
    Bug(
        "words count that are not kept",
        Delivery,
        "acknowledge",
        _takes_any_write_for_done,
        (SHARES,),
    ),
    Bug("two members hold one record", Run, "is_free", _gives_away_what_others_hold, (SHARES,)),
    Bug("a group's start moves too far", Window, "advance", _passes_what_is_not_done, (SHARES,)),
    Bug("what is done comes again", deliveries, "load", _forgets_that_some_is_done, (SHARES,)),
    Bug("letters are not written", DeadLetters, "bury", _buries_nothing, (SHARES,), seed=5),
    Bug("a new leader forgets what waits", Partition, "lead", _forgets_what_waits, (DELAYS,)),
    Bug(
        "deliveries are told to nobody",
        delays,
        "deliver",
        _tells_nobody_what_it_delivered,
        (DELAYS,),
    ),
    Bug(
        "deliveries count on trust",
        DelayIndex,
        "_heed",
        _takes_deliveries_on_trust,
        (DELAYS,),
        seed=47,
    ),
    Bug("what is aborted comes", DelayIndex, "_decide", _delivers_what_was_aborted, (DELAYS,)),
    Bug("a start forgets what waits", delay_snapshots, "_read_on", _always(None), (DELAYS,)),
    Bug("the last come first", delays, "deliver", _delivers_backwards, (DELAYS,)),
    Bug("delayed records come too early", delay_parking, "due_of", _is_in_a_hurry, (DELAYS,)),
    Bug("the dead keep their tasks", timers, "fence", _always(None), (STREAMS,)),
    Bug("two members run one task", StreamsGroup, "is_run", _always(False), (STREAMS,)),
    Bug("nobody waits for a release", reconcile, "has_any", _always(False), (STREAMS,), seed=23),
    Bug("lost answers stay lost", heartbeat, "answer", _says_it_once, (STREAMS,), seed=2),
]

"""The runtime under all coordinators: shards that decide, append, replay and answer.

A shard is a partition of the coordinator's topic. Whoever leads the partition loads the shard and
coordinates what hashes to it; whoever loses the lead forgets it. A request becomes a step of the
shard's machine. Deciding, appending and replaying happen without a pause, so steps are serial. A
reply leaves when all that its step could have seen is committed: no answer, not even a read, ever
tells of something that a new leader might not know. (The one exception, `prompt`, tells nothing.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.coordination.effects import Effects, Moment, Shard, Step
from penstock.coordination.keys import shard_of
from penstock.coordination.loading import Abandoned, ShardLoader
from penstock.coordination.patience import Patience
from penstock.coordination.tickets import OpenTicket
from penstock.coordination.timers import Timers
from penstock.coordination.writing import append_records
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.replica.partition import Refused

if TYPE_CHECKING:
    from penstock.platform.clock import Clock
    from penstock.platform.workers import Workers
    from penstock.protocol.message import Part
    from penstock.protocol.record_frames import CoordinatorFrames
    from penstock.replica.partition import Partition

log = logging.getLogger("penstock.coordination")

S = TypeVar("S", bound=Shard)

TICKETS_MAX = 200_000
"""Requests that may wait in all the shards of a coordinator."""

_new = tuple.__new__  # a named tuple's own constructor is Python

TIMER_RETRY_MS = 500
"""After which a timer comes again if its step came to nothing."""

COMMIT_MS_MAX = 5_000
"""How long a reply waits for its records to be committed, unless the node's keys say otherwise."""

_AS_COORDINATOR = {
    # What the log says, as clients of a coordinator understand it.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class _Seat(Generic[S]):
    """One led partition with its shard, from the first record loaded to the lead's loss."""

    __slots__ = ("active", "end", "epoch", "partition", "shard", "tickets")

    def __init__(self, partition: Partition, shard: S) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.shard = shard
        self.active = False
        self.end = 0
        """Everything below was replayed."""
        self.tickets: dict[OpenTicket, None] = {}
        """Who waits, in the order in which they came."""


class Runtime(Generic[S]):
    """The shards of one coordinator that this node leads."""

    def __init__(
        self,
        topic: str,
        frames: CoordinatorFrames,
        make_shard: Callable[[int], S],
        clock: Clock,
        workers: Workers,
        load_bytes: int = 5 * 1024 * 1024,
        on_errand: Callable[[int, Any], None] | None = None,
        commit_ms_max: int = COMMIT_MS_MAX,
    ) -> None:
        self.topic = topic
        self._frames = frames
        self._make_shard = make_shard
        self._clock = clock
        self._workers = workers
        self._load_bytes = load_bytes
        self._on_errand = on_errand
        self._seats: dict[int, _Seat[S]] = {}
        # One for all shards: what is due in fifty of them at once is dealt with in turns.
        self._timers = Timers(clock, self._on_timer)
        self._patience = Patience(clock, commit_ms_max, _give_up)
        self._loads: set[asyncio.Task[None]] = set()
        # One after the other: fifty that take turns hold the event loop for fifty slices a turn.
        self._loading = asyncio.Lock()
        self._image: Any = None
        self._waiting = 0
        self.partitions = 0
        """Of the topic; 0 while it does not exist."""

    # -- leading and losing -----------------------------------------------------------------------

    def lead(self, partition: Partition) -> None:
        """This node leads a partition of the topic: load its shard, unless it is loaded."""
        index = partition.index
        seat = self._seats.get(index)
        if seat is not None:
            if seat.epoch == partition.leader_epoch and seat.partition is partition:
                return
            self.lose(index)
        seat = self._seats[index] = _Seat(partition, self._make_shard(index))
        if partition.log.end == partition.log.start:
            self._activate(seat)  # nothing to load: the coordinator is there at once
            return
        task = asyncio.get_running_loop().create_task(self._load(seat))
        self._loads.add(task)
        task.add_done_callback(self._loads.discard)

    def lose(self, index: int) -> None:
        """This node no longer leads the partition: forget its shard."""
        seat = self._seats.pop(index, None)
        if seat is not None:
            self._vacate(seat, ErrorCode.NOT_COORDINATOR)

    def close(self) -> None:
        """The node stops: whoever waits is told to look for another coordinator."""
        for index in list(self._seats):
            self.lose(index)
        self._timers.cancel_all()
        self._patience.close()

    def _vacate(self, seat: _Seat[S], error: ErrorCode) -> None:
        seat.active = False
        self._timers.cancel_if(lambda key: isinstance(key, tuple) and key[0] is seat)
        for ticket in list(seat.tickets):
            ticket.refuse(error)

    async def _load(self, seat: _Seat[S]) -> None:
        async with self._loading:
            if self._seats.get(seat.partition.index) is seat:
                await self._load_now(seat)

    async def _load_now(self, seat: _Seat[S]) -> None:
        index, begun = seat.partition.index, self._clock.monotonic()

        def wanted() -> bool:
            return self._seats.get(index) is seat

        loader = ShardLoader(
            seat.partition.log, seat.shard, self._frames, self._workers, self._load_bytes, wanted
        )
        try:
            await loader.load()
        except Abandoned:
            return
        except Exception:
            if not wanted():
                return  # the log may be cut or closed under who no longer leads
            # The shard stays in its seat, loading for ever: clients are told to wait, nothing is
            # answered from half a state, and the other shards go on.
            log.exception("cannot load %s; what it coordinates is not available", seat.partition)
            return
        took = self._clock.monotonic() - begun
        log.info("loaded %s: %d records in %d ms", seat.partition, loader.records, took)
        self._activate(seat)

    def _activate(self, seat: _Seat[S]) -> None:
        seat.end = seat.partition.log.end
        seat.active = True
        self._step(seat, lambda shard, at, out, _: shard.on_loaded(at, out))
        if self._image is not None:
            self._tell(seat, self._image, None)

    # -- requests ---------------------------------------------------------------------------------

    def index_of(self, key: str) -> int:
        """The shard that a group's or a transaction's name belongs to; -1 without a topic."""
        return shard_of(key, self.partitions) if self.partitions else -1

    def call(self, key: str, step: Step, refuse: Callable[[ErrorCode], Part]) -> Any:
        """The response to a request about `key`: at once, or as a future if it has to wait."""
        return self.call_shard(self.index_of(key), step, refuse)

    def call_shard(self, index: int, step: Step, refuse: Callable[[ErrorCode], Part]) -> Any:
        """The same for a shard by its number."""
        seat = self._seats.get(index)
        if seat is None or not seat.active:
            return refuse(self._why_not(seat))
        if self._waiting >= TICKETS_MAX:
            return refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        ticket = OpenTicket(refuse)
        self._step(seat, step, ticket)
        if ticket.response is None and self._seats.get(index) is not seat:
            ticket.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # the step brought the shard down
        if ticket.response is not None:
            return ticket.response
        self._waiting += 1
        seat.tickets[ticket] = None
        return ticket.wait(lambda it: self._forget(seat, it))

    def _forget(self, seat: _Seat[S], ticket: OpenTicket) -> None:
        self._waiting -= 1
        seat.tickets.pop(ticket, None)

    def _why_not(self, seat: _Seat[S] | None) -> ErrorCode:
        if seat is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def settled_shard(self, key: str) -> S | None:
        """The shard that a name belongs to, if it is loaded and all that it knows is committed.

        What it says now may be told at once: for requests that need no step to be answered.
        """
        seat = self._seats.get(self.index_of(key))
        if seat is None or not seat.active or seat.partition.log.high_watermark < seat.end:
            return None
        return seat.shard

    def shard(self, index: int) -> S | None:
        """One that is loaded, by its number. When it is loaded again it is another object."""
        seat = self._seats.get(index)
        return seat.shard if seat is not None and seat.active else None

    def shards(self) -> list[tuple[int, S]]:
        """Those that are loaded, for answers that list what this node coordinates."""
        return [(index, seat.shard) for index, seat in self._seats.items() if seat.active]

    @property
    def loading(self) -> bool:
        """Whether some shard is not loaded yet: lists are not whole then."""
        return any(not seat.active for seat in self._seats.values())

    def on_image(self, image: Any, delta: Any) -> None:
        """The cluster's metadata changed: machines that heed it get a step."""
        self._image = image
        topic = image.topics.by_name.get(self.topic)
        self.partitions = 0 if topic is None else len(topic.partitions)
        for seat in list(self._seats.values()):
            if seat.active:
                self._tell(seat, image, delta)

    def _tell(self, seat: _Seat[S], image: Any, delta: Any) -> None:
        self._step(seat, lambda shard, at, out, _: shard.on_image(image, delta, at, out))

    def end_transaction(self, index: int, append: Callable[[], Any], ended: Any) -> Any:
        """Append a marker to a shard's partition, and let the shard know if it was taken.

        `ended` is (producer id, producer epoch, whether it commits).
        """
        seat = self._seats.get(index)
        if seat is None or not seat.active:
            return Refused(self._why_not(seat))
        result = append()
        if not isinstance(result, Refused):
            seat.shard.replay_end_txn(*ended)
            seat.end = seat.partition.log.end
        return result

    # -- steps ------------------------------------------------------------------------------------

    def _on_timer(self, owned: Hashable) -> None:
        assert isinstance(owned, tuple)
        seat, key = owned
        if not seat.active:
            return
        done = self._step(seat, lambda shard, at, out, _: shard.on_timer(key, at, out))
        if not done and seat.active and owned not in self._timers:
            # Nobody asks again but the clock: a dead member would keep its partitions for ever.
            self._timers.set(owned, Millis(self._clock.monotonic() + TIMER_RETRY_MS))

    def _set_timers(self, seat: _Seat[S], out: Effects) -> None:
        for key in out.cancelled:
            self._timers.cancel((seat, key))
        for key, due in out.timers.items():
            self._timers.set((seat, key), due)

    def _step(self, seat: _Seat[S], act: Step, ticket: OpenTicket | None = None) -> bool:
        """Decide, append, replay; then let the effects out, now or when they are committed.

        Answers whether that came off.
        """
        clock = self._clock
        at = _new(Moment, (clock.now(), clock.monotonic()))
        out = Effects()
        try:
            act(seat.shard, at, out, ticket)
        except Exception:
            # Our own fault, before anything was decided: this request fails, the shard goes on.
            log.exception("a step of %s failed", seat.partition)
            if ticket is not None:
                ticket.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return False
        if out.records:
            taken, refused = append_records(seat.partition, self._frames, out, at.wall)
            if not self._replay(seat, out, taken):
                return False
            if refused is not None:
                self._undo(seat, out, refused)
                return False
        if out.cancelled or out.timers:
            self._set_timers(seat, out)
        if out.prompt and not out.records:
            self._release(seat, out)
        elif out.replies or out.errands:
            self._release_when_committed(seat, out)
        return True

    def _replay(self, seat: _Seat[S], out: Effects, taken: int) -> bool:
        producer_id = -1 if out.producer is None else out.producer.id
        offset = seat.partition.log.end - taken
        try:
            for record in out.records[:taken]:
                record.replay(seat.shard, offset, producer_id)
                offset += 1
        except Exception:
            # The log says one thing and the machine another: only loading it anew helps.
            log.exception("%s cannot replay its own records and is loaded again", seat.partition)
            partition = seat.partition
            for ticket, _ in out.replies:
                _open(ticket).refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self.lose(partition.index)
            self.lead(partition)
            return False
        seat.end = offset
        return True

    def _undo(self, seat: _Seat[S], out: Effects, refused: Refused) -> None:
        error = _AS_COORDINATOR.get(refused.error, refused.error)
        log.warning("%s does not take records: %s", seat.partition, refused.error.name)
        for ticket, _ in out.replies:
            _open(ticket).refuse(error)
        if out.undo is not None:
            amends = Effects()
            out.undo(error, amends)
            self._set_timers(seat, amends)
            for ticket, response in amends.replies:
                _open(ticket).answer(response)

    def _release_when_committed(self, seat: _Seat[S], out: Effects) -> None:
        partition = seat.partition
        if partition.log.high_watermark >= seat.end:
            self._release(seat, out)
            return
        committed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        committed.add_done_callback(lambda done: self._on_commit(seat, out, done.result()))
        partition.await_commit(seat.end, committed)
        if out.replies:
            self._patience.wait(out)

    def _on_commit(self, seat: _Seat[S], out: Effects, error: ErrorCode) -> None:
        if not error:
            self._release(seat, out)
        else:
            _refuse(out, error)
            if out.errands and seat.active:
                # The records stand in the log of who leads it: they may be committed yet. A shard
                # that is lost is loaded by somebody, who finds in the log what is to be done.
                loop = asyncio.get_running_loop()
                loop.call_later(TIMER_RETRY_MS / 1000, self._look_again, seat, out)
        self._patience.forget_answered()

    def _look_again(self, seat: _Seat[S], out: Effects) -> None:
        if seat.active:
            self._release_when_committed(seat, out)

    def _release(self, seat: _Seat[S], out: Effects) -> None:
        for ticket, response in out.replies:
            _open(ticket).answer(response)
        out.replies.clear()
        # A shard that is loaded anew finds in its log what is to be done, and asks for it itself.
        if self._on_errand is not None and seat.active:
            for errand in out.errands:
                self._on_errand(seat.partition.index, errand)


def _refuse(out: Effects, error: ErrorCode) -> None:
    for ticket, _ in out.replies:
        _open(ticket).refuse(_AS_COORDINATOR.get(error, error))
    out.replies.clear()


def _give_up(out: Effects) -> None:
    _refuse(out, ErrorCode.REQUEST_TIMED_OUT)


def _open(ticket: Any) -> OpenTicket:
    assert isinstance(ticket, OpenTicket)
    return ticket

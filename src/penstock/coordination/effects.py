"""What a coordinator's machine hands out: records, replies, timers and errands.

A step of a machine looks at its state, at a request and at the time, and fills an `Effects`.
Nothing in it has happened when the step returns. The runtime then appends the records to the
shard's partition, all or none; replays them into the machine, which changes its durable state
there and nowhere else; and lets the replies and errands go when the records are committed.

State that no log keeps (who waits for a rebalance, when a session ends) a step may change itself.
If the log does not take the records, `undo` brings such state back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.message import Message, Part

if TYPE_CHECKING:
    from penstock.protocol.record_frames import CoordinatorFrames


class Moment(NamedTuple):
    """When a step happens, on both clocks."""

    wall: Millis
    """Since 1970, may jump: for what is written down and outlives the process."""
    mono: Millis
    """Only grows: for timeouts."""

    def is_soon_after(self, wall: int, span_ms: int) -> bool:
        """Whether less than `span_ms` has passed since something that was written down.

        A time that is yet to come was read from another clock, or from this one before it was set
        back: whoever waited for it would wait for as long as the clocks are apart.
        """
        return 0 <= self.wall - wall < span_ms


class ShardRecord(Protocol):
    """A record for the shard's partition; without a value it is a tombstone."""

    @property
    def key(self) -> Message: ...

    @property
    def value(self) -> Message | None: ...

    @property
    def version(self) -> int:
        """Of the value's layout; of no account without a value."""

    def encode(self, frames: CoordinatorFrames) -> tuple[bytes, bytes | None]:
        """The bytes of key and value."""

    def replay(self, shard: Any, offset: int, producer_id: int) -> None:
        """Have the shard replay the record, which stands at `offset`."""


class NewRecord(NamedTuple):
    """A record of any kind."""

    key: Message
    value: Message | None
    version: int

    def encode(self, frames: CoordinatorFrames) -> tuple[bytes, bytes | None]:
        key = frames.write_key(self.key)
        return key, None if self.value is None else frames.write_value(self.value, self.version)

    def replay(self, shard: Shard, offset: int, producer_id: int) -> None:
        shard.replay(offset, self.key, self.value, producer_id)


class Ticket(Protocol):
    """A request that waits for its reply. Machines keep it and name it, and never look inside."""


class Producer(NamedTuple):
    """On whose transaction's behalf records are appended."""

    id: int
    epoch: int


class Effects:
    """What one step asks for."""

    __slots__ = (
        "atomic",
        "cancelled",
        "errands",
        "producer",
        "prompt",
        "records",
        "replies",
        "timers",
        "undo",
    )

    def __init__(self) -> None:
        self.records: list[ShardRecord] = []
        self.atomic = True
        """Whether the records must stand in one batch: all of them or none."""
        self.producer: Producer | None = None
        """Set: the records count when this producer's transaction commits, and not if it aborts."""
        self.replies: list[tuple[Ticket, Any]] = []
        self.prompt = False
        """Whether the replies need not wait for the commit of what others wrote before: they tell
        nothing that a new leader could deny. With records of its own a step waits all the same."""
        self.timers: dict[Hashable, Millis] = {}
        self.cancelled: set[Hashable] = set()
        self.errands: list[Any] = []
        self.undo: Callable[[ErrorCode, Effects], None] | None = None

    def record(self, key: Message, value: Message | None, version: int = 0) -> None:
        """Append a record."""
        self.records.append(NewRecord(key, value, version))

    def reply(self, ticket: Ticket, response: Part) -> None:
        """Answer a request, this step's own or one that has waited, when all is committed."""
        self.replies.append((ticket, response))

    def timer(self, key: Hashable, at: Millis) -> None:
        """Call the machine's `on_timer(key)` at this monotonic time, and not at an earlier one."""
        self.cancelled.discard(key)
        self.timers[key] = at

    def cancel(self, key: Hashable) -> None:
        """Forget a timer."""
        self.timers.pop(key, None)
        self.cancelled.add(key)

    def errand(self, what: Any) -> None:
        """Have the driver do something in the world when the records are committed."""
        self.errands.append(what)

    def drop(self) -> None:
        """Ask for nothing after all: the step has found late that it must refuse."""
        self.__init__()  # type: ignore[misc]


class Shard(Protocol):
    """The machine of one partition. It lives from loading until the partition's lead is lost."""

    def replay(self, offset: int, key: Message, value: Message | None, producer_id: int) -> None:
        """Change durable state as the record at `offset` says, now or while loading.

        `producer_id` is not -1 if the record belongs to a transaction that is still open.
        """

    def replay_end_txn(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """A producer's transaction ended: its records count from now on, or never did."""

    def on_loaded(self, at: Moment, out: Effects) -> None:
        """All records are replayed: set timers, go on with what was begun."""

    def on_timer(self, key: Hashable, at: Moment, out: Effects) -> None:
        """A timer that the machine set has come due."""

    def on_image(self, image: Any, delta: Any, at: Moment, out: Effects) -> None:
        """The cluster's metadata changed; without a delta, anything may have."""


Step = Callable[[Any, Moment, Effects, Ticket], None]
"""A request as something to do to a shard: (shard, moment, effects, the request's own ticket)."""

"""A coordinator's desk: one shard, topics that the test makes, and a log that may refuse."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from penstock.coordination.delivery.effects import Held, State, StateBatch
from penstock.coordination.effects import Effects, Moment
from penstock.coordination.share import beginning, reading, updating
from penstock.coordination.share.settings import ShareSettings
from penstock.coordination.share.shard import ShareShard
from penstock.coordination.share.state import ShareKey, ShareState, Summary, Told
from penstock.coordination.share.updating import Writing
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.record_frames import SHARE

NOON = 1_700_000_000_000
ORDERS, BILLS = b"o" * 16, b"b" * 16
KEY = ShareKey("workers", ORDERS, 0)
OTHER = ShareKey("workers", BILLS, 1)

AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = (
    State.AVAILABLE,
    State.ACKNOWLEDGED,
    State.ARCHIVING,
    State.ARCHIVED,
)


def batch(
    first: int, last: int, state: State = AVAILABLE, count: int = 1, not_before: int = 0
) -> StateBatch:
    return StateBatch(first, last, state, count, Millis(not_before))


def image_of(*topic_ids: bytes) -> Any:
    """A cluster in which these topics have two partitions each."""
    topics = {topic_id: SimpleNamespace(partitions={0: None, 1: None}) for topic_id in topic_ids}
    return SimpleNamespace(topics=SimpleNamespace(by_id=topics))


class Desk:
    """Runs steps as the runtime does, and keeps what they wrote as a log would."""

    def __init__(
        self,
        settings: ShareSettings | None = None,
        log: list[tuple[int, bytes, bytes | None]] | None = None,
    ) -> None:
        self.now = 0
        self.shard = ShareShard(0, settings or ShareSettings())
        self.log: list[tuple[int, bytes, bytes | None]] = []
        self.end = 0
        self.kinds: list[str] = []
        self.errands: list[Any] = []
        self.timers: dict[Any, int] = {}
        self.full = False
        for offset, key, value in log or []:
            self._replay(offset, key, value)
        self.step(self.shard.on_loaded)
        self.tell(image_of(ORDERS, BILLS))

    def _replay(self, offset: int, key: bytes, value: bytes | None) -> None:
        name = SHARE.read_key(memoryview(key))
        content = None
        if value is not None:
            content = SHARE.read_value(name.API_KEY, memoryview(value))[0]
        self.shard.replay(offset, name, content, -1)
        self.log.append((offset, key, value))
        self.end = offset + 1
        self.kinds.append("tombstone" if content is None else type(content).__name__)

    # -- steps ------------------------------------------------------------------------------------

    def step(self, act: Callable[[Moment, Effects], Any]) -> Any:
        """Decide, write, replay; answers what was told."""
        out = Effects()
        told = act(Moment(Millis(NOON + self.now), Millis(self.now)), out)
        if out.records and self.full:
            amends = Effects()
            if out.undo is not None:
                out.undo(ErrorCode.COORDINATOR_NOT_AVAILABLE, amends)
            self.timers |= amends.timers
            return Told(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for record in out.records:
            self._replay(self.end, *record.encode(SHARE))
        self.errands += out.errands
        self.timers |= out.timers
        return told

    def tell(self, image: Any, delta: Any = None) -> None:
        self.step(lambda at, out: self.shard.on_image(image, delta, at, out))
        self.run(0)

    def run(self, by_ms: int) -> None:
        """Let time pass; timers fire in their order."""
        until = self.now + by_ms
        while self.timers:
            key = min(self.timers, key=lambda it: self.timers[it])
            due = self.timers[key]
            if due > until:
                break
            del self.timers[key]
            self.now = max(self.now, due)
            self.step(lambda at, out, key=key: self.shard.on_timer(key, at, out))  # type: ignore[misc]
        self.now = until

    # -- requests ---------------------------------------------------------------------------------

    def initialize(self, key: ShareKey = KEY, epoch: int = 0, start: int = 0) -> ErrorCode:
        told: Told = self.step(
            lambda at, out: beginning.initialize(self.shard, at, out, key, epoch, start)
        )
        return told.error

    def delete(self, key: ShareKey = KEY) -> ErrorCode:
        told: Told = self.step(lambda at, out: beginning.delete(self.shard, at, out, key))
        return told.error

    def read(self, leader: int = 0, key: ShareKey = KEY) -> Held | ErrorCode:
        told = self.step(lambda at, out: reading.read(self.shard, at, out, key, leader))
        return told if isinstance(told, Held) else told.error

    def summary(self, key: ShareKey = KEY) -> Summary | ErrorCode:
        told = self.step(lambda at, out: reading.summarize(self.shard, at, out, key))
        return told if isinstance(told, Summary) else told.error

    def write(
        self,
        *batches: StateBatch,
        start: int = -1,
        complete: int = 0,
        epoch: int = 0,
        leader: int = 0,
        key: ShareKey = KEY,
    ) -> ErrorCode:
        said = Writing(epoch, leader, start, complete, batches)
        told: Told = self.step(lambda at, out: updating.write(self.shard, at, out, key, said))
        return told.error

    # -- looking ----------------------------------------------------------------------------------

    def cut(self, offset: int) -> list[tuple[int, bytes, bytes | None]]:
        """The log as it is when it begins at an offset."""
        return [entry for entry in self.log if entry[0] >= offset]

    def state(self) -> dict[ShareKey, tuple[Any, ...]]:
        """All that the shard keeps, to compare."""
        return {
            key: tuple(getattr(state, name) for name in ShareState.__slots__)
            for key, state in self.shard.states.items()
        }

"""A share group's deliveries as they are to be: one entry per offset, slow and simple.

The model says what each input does to each offset by itself. How many records go out at once is the
machine's choice within bounds, so the model checks the choice and then follows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.coordination.delivery.effects import AckBatch, Acknowledge, Acquired, StateBatch
from penstock.coordination.delivery.settings import DeliverySettings
from penstock.coordination.delivery.states import State
from penstock.coordination.effects import Moment
from penstock.model.errors import ErrorCode

DONE = (State.ACKNOWLEDGED, State.ARCHIVED)
WORDS = {
    Acknowledge.GAP: State.ARCHIVED,
    Acknowledge.ACCEPT: State.ACKNOWLEDGED,
    Acknowledge.REJECT: State.ARCHIVED,
}


@dataclass
class Entry:
    """What is known about one offset."""

    state: State = State.AVAILABLE
    count: int = 0
    member: str = ""
    lock_end: int = 0
    not_before: int = 0
    """On the wall clock, for whoever leads next."""
    wait_end: int = 0
    """On the monotonic clock; 0 when somebody has looked and found the wait over."""
    ticket: int = 0
    """Of the write that has to be kept before what its member said counts."""


@dataclass
class Model:
    """One incarnation: what one leader knows."""

    settings: DeliverySettings
    start: int
    entries: dict[int, Entry] = field(default_factory=dict)
    given_up: set[int] = field(default_factory=set)
    """Delivered as often as the group allows."""

    @property
    def end(self) -> int:
        return max(self.entries, default=self.start - 1) + 1

    @property
    def open(self) -> int:
        return sum(1 for entry in self.entries.values() if not self._is_settled(entry))

    @staticmethod
    def _is_settled(entry: Entry) -> bool:
        return entry.state in DONE and not entry.ticket

    def is_free(self, offset: int) -> bool:
        """Whether somebody may get it: it is there, nobody has it, and it has waited enough."""
        entry = self.entries[offset]
        return entry.state is State.AVAILABLE and not entry.ticket and not entry.wait_end

    def read(self, read_from: int, end: int, lost: dict[int, State]) -> None:
        """Somebody read up to `end`: what is lost there nobody will get who does not have it."""
        for offset in range(max(read_from, self.start), end):
            entry = self.entries.setdefault(offset, Entry())
            if offset in lost and entry.state is State.AVAILABLE and not entry.ticket:
                entry.state = lost[offset]

    def acquire(self, member: str, got: Sequence[Acquired], at: Moment) -> None:
        """Follow what the machine handed out, if it may."""
        for first, last, count in got:
            for offset in range(first, last + 1):
                assert self.is_free(offset), f"{offset} is not free: {self.entries[offset]}"
                entry = self.entries[offset]
                assert count == entry.count + 1, f"{offset}: {count} after {entry.count}"
                lock_end = at.mono + self.settings.lock_ms
                self.entries[offset] = Entry(State.ACQUIRED, count, member, lock_end)
        self.advance()

    def acknowledge(self, member: str, said: Sequence[AckBatch]) -> ErrorCode | None:
        """Why nothing of it counts, if so."""
        if said and said[-1].last >= self.end:
            return ErrorCode.INVALID_REQUEST if self.entries else ErrorCode.INVALID_RECORD_STATE
        for first, last, _ in said:
            for offset in range(max(first, self.start), last + 1):
                entry = self.entries[offset]
                if entry.state is not State.ACQUIRED or entry.ticket or entry.member != member:
                    return ErrorCode.INVALID_RECORD_STATE
        return None

    def say(self, said: Sequence[AckBatch], ticket: int, at: Moment) -> None:
        """Words that were accepted, and wait for their write."""
        for first, last, words in said:
            for offset in range(max(first, self.start), last + 1):
                word = words[0] if len(words) == 1 else words[offset - first]
                entry = self.entries[offset]
                if word == Acknowledge.RENEW:
                    entry.lock_end = at.mono + self.settings.lock_ms
                    continue
                entry.ticket = ticket
                if word == Acknowledge.RELEASE:
                    self._give_back(offset, at, waits=True)
                elif word == Acknowledge.REJECT and self.settings.buries:
                    entry.state = State.ARCHIVING
                else:
                    entry.state = WORDS[Acknowledge(word)]

    def _give_back(self, offset: int, at: Moment, waits: bool) -> None:
        entry = self.entries[offset]
        if entry.count >= self.settings.count_max:
            entry.state = State.ARCHIVING if self.settings.buries else State.ARCHIVED
            self.given_up.add(offset)
        else:
            entry.state = State.AVAILABLE
            wait_ms = self.settings.backoff.initial_ms if waits else 0
            entry.not_before = at.wall + wait_ms if wait_ms else 0

    def _settle(self, entry: Entry, at: Moment) -> None:
        entry.member = ""
        if entry.state is State.AVAILABLE:
            left = min(max(0, entry.not_before - at.wall), self.settings.backoff.initial_ms)
            entry.wait_end = at.mono + left if left else 0

    def _take_back(self, offsets: Iterable[int], at: Moment, waits: bool) -> None:
        for offset in offsets:
            self._give_back(offset, at, waits)
            self._settle(self.entries[offset], at)
        self.advance()

    def _held(self) -> list[tuple[int, Entry]]:
        return [
            (offset, entry)
            for offset, entry in self.entries.items()
            if entry.state is State.ACQUIRED and not entry.ticket
        ]

    def release(self, member: str, at: Moment, clean: bool) -> None:
        mine = [offset for offset, entry in self._held() if entry.member == member]
        self._take_back(mine, at, waits=not clean)

    def pass_time(self, at: Moment) -> None:
        for entry in self.entries.values():
            if entry.wait_end <= at.mono and not entry.ticket:
                entry.wait_end = 0
        late = [offset for offset, entry in self._held() if entry.lock_end <= at.mono]
        self._take_back(late, at, waits=True)

    def written(self, ticket: int, is_kept: bool, at: Moment) -> None:
        late = []
        for offset, entry in self.entries.items():
            if entry.ticket != ticket or not ticket:
                continue
            entry.ticket = 0
            if is_kept:
                self._settle(entry, at)
            else:
                entry.state = State.ACQUIRED
                if entry.lock_end <= at.mono:
                    late.append(offset)
        self._take_back(late, at, waits=True)

    def buried(self, first: int, last: int) -> None:
        for offset in range(max(first, self.start), last + 1):
            if self.entries[offset].state is State.ARCHIVING:
                self.entries[offset].state = State.ARCHIVED
        self.advance()

    def begin_at(self, start: int) -> None:
        self.start = max(self.start, start)
        for offset in [offset for offset in self.entries if offset < self.start]:
            del self.entries[offset]
        self.advance()

    def advance(self) -> None:
        while self.start in self.entries and self._is_settled(self.entries[self.start]):
            del self.entries[self.start]
            self.start += 1

    @staticmethod
    def loaded(
        settings: DeliverySettings, start: int, batches: Iterable[StateBatch], at: Moment
    ) -> Model:
        """What the next leader makes of what was kept."""
        model = Model(settings, start)
        for first, last, state, count, not_before in batches:
            for offset in range(max(first, start), last + 1):
                entry = model.entries[offset] = Entry(state, count, not_before=not_before)
                model._settle(entry, at)
        for offset in range(start, model.end):
            model.entries.setdefault(offset, Entry())
        model.advance()
        return model

"""A share group's deliveries with a clock to turn and a coordinator that answers as it is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.coordination.delivery.effects import (
    AckBatch,
    Acknowledge,
    Acquired,
    DeadLetter,
    Held,
    Outcome,
    Span,
    StateBatch,
    Write,
)
from penstock.coordination.delivery.machine import Delivery
from penstock.coordination.delivery.settings import DeliverySettings
from penstock.coordination.effects import Moment
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis, Uuid

WALL = 1_700_000_000_000
ACCEPT, RELEASE, REJECT = Acknowledge.ACCEPT, Acknowledge.RELEASE, Acknowledge.REJECT
RENEW, GAP = Acknowledge.RENEW, Acknowledge.GAP


class NoChance:
    """Always the highest."""

    def between(self, low: int, high: int) -> int:
        assert low <= high
        return high

    def uuid(self) -> Uuid:
        raise AssertionError("nobody needs one here")

    def token_bytes(self, count: int) -> bytes:
        raise AssertionError("nobody needs any here")


class Desk:
    """One machine. What it asks for gathers here until somebody does it."""

    def __init__(
        self,
        settings: DeliverySettings | None = None,
        start: int = 0,
        batches: Sequence[StateBatch] = (),
    ) -> None:
        self.settings = settings or DeliverySettings()
        self.at = Moment(Millis(WALL), Millis(5_000))
        self.writes: list[Write] = []
        self.answers: list[tuple[object, ErrorCode]] = []
        self.dead: list[DeadLetter] = []
        self.failed = ErrorCode.NONE
        self.ready = False
        held = Held(0, start, tuple(batches))
        self.delivery = Delivery(held, self.settings, NoChance(), self.at)

    @contextmanager
    def _step(self) -> Iterator[Outcome]:
        out = Outcome()
        yield out
        self.writes += out.writes
        self.answers += out.answers
        self.dead += out.dead
        self.ready = out.ready
        self.failed = out.failed

    def fetch(
        self,
        member: str,
        *found: tuple[int, int],
        records_max: int = 500,
        batch_size: int = 500,
        strict: bool = False,
        read_from: int | None = None,
        skip: Sequence[tuple[int, int]] = (),
        expired: Sequence[tuple[int, int]] = (),
    ) -> list[Acquired]:
        """What a member gets of the batches that a reader found where it was told to read."""
        if read_from is None:
            read_from = self.delivery.next_offset(self.at)
            assert read_from is not None
        with self._step() as out:
            return self.delivery.acquire(
                member,
                read_from,
                [Span(*span) for span in found],
                records_max,
                batch_size,
                strict,
                self.at,
                out,
                [Span(*span) for span in skip],
                [Span(*span) for span in expired],
            )

    def say(self, member: str, first: int, last: int, *words: int, token: object = "said") -> None:
        self.say_all(member, AckBatch(first, last, words), token=token)

    def say_all(self, member: str, *said: AckBatch, token: object = "said") -> None:
        with self._step() as out:
            self.delivery.acknowledge(member, said, token, self.at, out)

    def write(self, error: ErrorCode = ErrorCode.NONE) -> Write:
        """Do the oldest write, or fail at it."""
        write = self.writes.pop(0)
        with self._step() as out:
            self.delivery.on_written(write.ticket, error, self.at, out)
        return write

    def accept(self, member: str, first: int, last: int) -> None:
        self.say(member, first, last, ACCEPT)
        self.write()

    def leave(self, member: str, clean: bool = True) -> None:
        with self._step() as out:
            self.delivery.release(member, self.at, out, clean)

    def wait(self, millis: int) -> None:
        self.at = Moment(Millis(self.at.wall + millis), Millis(self.at.mono + millis))
        with self._step() as out:
            self.delivery.on_due(self.at, out)

    def bury(self, succeeds: bool = True) -> DeadLetter:
        letter = self.dead.pop(0)
        with self._step() as out:
            self.delivery.on_buried(letter.first, letter.last, succeeds, self.at, out)
        return letter

    def log_start(self, start: int) -> None:
        with self._step() as out:
            self.delivery.on_log_start(start, self.at, out)

    @property
    def next(self) -> int | None:
        return self.delivery.next_offset(self.at)

    @property
    def states(self) -> list[tuple[int, int, str]]:
        return [(first, last, state) for first, last, state, _, _ in self.delivery.view()]

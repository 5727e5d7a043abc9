"""What goes into the machine of a share group's deliveries, and what comes out."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from penstock.coordination.delivery.states import State as State
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis


class Acknowledge(IntEnum):
    """What a member says about a record; the numbers are those of ShareAcknowledge."""

    GAP = 0
    """There is no record at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class StateBatch(NamedTuple):
    """Offsets of one state, as the share coordinator keeps them."""

    first: int
    last: int
    state: State
    count: int  # type: ignore[assignment]  # of deliveries; hides the method of tuples
    """How often they were delivered."""
    not_before: Millis = Millis(0)
    """The wall time at which they become available; 0 for at once."""


class Held(NamedTuple):
    """What the share coordinator knew when the partition's leader asked."""

    state_epoch: int
    start: int
    """Everything below is done with; -1 if the group has never read the partition."""
    batches: tuple[StateBatch, ...] = ()


class Span(NamedTuple):
    """Offsets of one batch that a reader found in the log, ends included."""

    first: int
    last: int


class Acquired(NamedTuple):
    """Offsets that a member got, and the how-manieth delivery this is."""

    first: int
    last: int
    count: int  # type: ignore[assignment]  # of deliveries; hides the method of tuples


class AckBatch(NamedTuple):
    """What a member says: one word for all offsets, or one for each."""

    first: int
    last: int
    words: tuple[int, ...]


class Reason(IntEnum):
    """Why a record is given up."""

    REJECTED = 1
    DELIVERIES = 2
    """It was delivered as often as the group allows."""
    EXPIRED = 3


class DeadLetter(NamedTuple):
    """Records that are to be copied to the dead-letter topic before they are archived."""

    first: int
    last: int
    count: int  # type: ignore[assignment]  # of deliveries; hides the method of tuples
    reason: Reason


class Write(NamedTuple):
    """What the share coordinator must keep before an acknowledgement counts.

    The driver brings it there, one write of a machine after the other, and says how it ended to
    `Delivery.on_written` with the same ticket.
    """

    ticket: int
    start: int
    batches: tuple[StateBatch, ...]
    complete: int
    """How many offsets at or above `start` are done with."""


class Outcome:
    """What one step of the machine asks for."""

    __slots__ = ("answers", "dead", "failed", "ready", "writes")

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.answers: list[tuple[object, ErrorCode]] = []
        """Acknowledgements that are settled now: the caller's own token, and what became of it."""
        self.dead: list[DeadLetter] = []
        self.ready = False
        """Whether there is something to acquire that was not there before: look again."""
        self.failed = ErrorCode.NONE
        """Set: the state belongs to another leader or is gone. Forget this machine; the next
        request makes a new one."""

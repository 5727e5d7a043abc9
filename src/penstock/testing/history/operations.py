"""What clients did: one class per kind of operation, each ok, failed or unknown.

*ok*: it took effect, and the client was told so. *failed*: it surely had no effect. *unknown*: it
may have had one, or may have one later; a time-out, a lost connection, a client that was killed.
When in doubt an operation is unknown: whoever calls it failed promises something.

Times are nanoseconds of one machine's clock. `began` is at or before the moment when the request
left, `ended` at or after the moment when its answer came, so that two operations whose times do
not overlap really happened in that order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, NamedTuple

NEVER = 1 << 63
"""After every moment: when an operation ended whose answer never came."""

UNSET = -1
"""An offset, an epoch or a generation that is not known."""

TEXT_MAX = 200


class Outcome(StrEnum):
    """What became of an operation, as far as its client knows."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True, kw_only=True, eq=False)
class Operation:
    """What all operations have. The recorder fills in who, when and which."""

    NAME: ClassVar[str] = ""

    client: str = ""
    number: int = UNSET
    """Counts a client's operations in the order in which it began them."""
    began: int = 0
    ended: int = NEVER
    outcome: Outcome = Outcome.UNKNOWN
    error: str = ""

    @property
    def is_ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def may_have_happened(self) -> bool:
        return self.outcome is not Outcome.FAILED


@dataclass(slots=True, kw_only=True, eq=False)
class OnPlace(Operation):
    """An operation on one partition."""

    topic: str
    partition: int
    place: Place = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.place = Place(self.topic, self.partition)


@dataclass(slots=True, kw_only=True, eq=False)
class Send(OnPlace):
    """One record sent. A client's own retries belong to the same send."""

    NAME: ClassVar[str] = "send"

    value: str
    """What the record is recognised by; give every record another one."""
    offset: int = UNSET
    transaction: str = ""
    """The label of the transaction that it belongs to; empty: none."""
    idempotent: bool = True
    """Whether the producer promises order and no duplicates."""


@dataclass(slots=True, kw_only=True, eq=False)
class Poll(OnPlace):
    """A reader went from `start` to `end`, and found these records on the way."""

    NAME: ClassVar[str] = "poll"

    start: int
    end: int
    records: list[tuple[int, str]] = field(default_factory=list)
    """Offset and value of each."""
    committed: bool = False
    """Whether the reader asked for committed transactions only."""
    at_end: bool = False
    """Whether the broker had nothing more for this reader."""


@dataclass(slots=True, kw_only=True, eq=False)
class Seek(OnPlace):
    """A reader goes on elsewhere: it was assigned the partition, or asked for an offset."""

    NAME: ClassVar[str] = "seek"

    offset: int = UNSET


@dataclass(slots=True, kw_only=True, eq=False)
class Marks(OnPlace):
    """How far a partition had come, as a broker said; it may have said only one of the two."""

    NAME: ClassVar[str] = "marks"

    high_watermark: int = UNSET
    last_stable: int = UNSET


@dataclass(slots=True, kw_only=True, eq=False)
class Init(Operation):
    """A producer took over a transactional id; all who had it before are zombies."""

    NAME: ClassVar[str] = "init"

    transactional_id: str
    epoch: int = UNSET


@dataclass(slots=True, kw_only=True, eq=False)
class End(Operation):
    """A producer asked for the end of its transaction."""

    NAME: ClassVar[str] = "end"

    transaction: str
    commit: bool


@dataclass(slots=True, kw_only=True, eq=False)
class Generation(Operation):
    """A member learnt which generation of its group it belongs to.

    A classic group has one generation for all members. With the new protocol each member has an
    epoch of its own (`per_member`), and only its own older epochs are fenced.
    """

    NAME: ClassVar[str] = "generation"

    group: str
    member: str
    generation: int
    per_member: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Commit(OnPlace):
    """A member committed its position in one partition."""

    NAME: ClassVar[str] = "commit"

    group: str
    offset: int
    member: str = ""
    generation: int = UNSET
    transaction: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Committed(OnPlace):
    """A group's position in one partition, as its coordinator told it; -1: none."""

    NAME: ClassVar[str] = "committed"

    group: str
    offset: int
    stable: bool = False
    """Whether the coordinator was asked to wait for transactions that are being ended."""


@dataclass(slots=True, kw_only=True, eq=False)
class Deliver(OnPlace):
    """A member of a share group was given a record."""

    NAME: ClassVar[str] = "deliver"

    group: str
    offset: int
    value: str
    deliveries: int = UNSET
    """The how-manieth delivery this was, as the broker said."""


@dataclass(slots=True, kw_only=True, eq=False)
class Settle(OnPlace):
    """A member of a share group said what became of a record that it had been given."""

    NAME: ClassVar[str] = "settle"

    group: str
    offset: int
    word: str
    """"accept", "release", "reject" or "renew"."""
    deliveries: int = UNSET
    """Of the delivery that it speaks of."""


KINDS: dict[str, type[Operation]] = {
    kind.NAME: kind
    for kind in (
        Send,
        Poll,
        Seek,
        Marks,
        Init,
        End,
        Generation,
        Commit,
        Committed,
        Deliver,
        Settle,
    )
}


def text_of(value: bytes | str) -> str:
    """A record's value as a history keeps it: as it is, or a digest if it is long or not text."""
    if isinstance(value, str):
        value = value.encode()
    if len(value) <= TEXT_MAX:
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass  # not text: known by its digest
    return f"sha256:{hashlib.sha256(value).hexdigest()[:32]} ({len(value)} bytes)"

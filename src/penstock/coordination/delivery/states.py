"""The states of a record that a share group reads, and all ways from one to another."""

from __future__ import annotations

from enum import Enum, IntEnum


class State(IntEnum):
    """Of a record; the numbers are those of the share coordinator's records."""

    AVAILABLE = 0
    """To be delivered, at once or when its back-off is over."""
    ACQUIRED = 1
    """A member has it, until it answers or its lock ends. Kept in memory only: whoever loads the
    state finds it available."""
    ACKNOWLEDGED = 2
    """Done with: a member accepted it."""
    ARCHIVING = 3
    """Given up and on its way to the dead-letter topic: never delivered again."""
    ARCHIVED = 4
    """Done with: given up, or never there."""


class Event(Enum):
    """What can happen to a record."""

    ACQUIRE = "a member fetches it"
    ACCEPT = "its member accepts it"
    RENEW = "its member asks for more time"
    RELEASE = "its member gives it back, leaves, or holds it for too long"
    GIVE_UP = "its member rejects it, or it was delivered as often as allowed"
    BURY = "it is given up, and the group has a dead-letter topic"
    BURIED = "the dead-letter topic has it"
    VANISH = "the log has no such record, or not for readers of the group"


NEXT: dict[tuple[State, Event], State] = {
    (State.AVAILABLE, Event.ACQUIRE): State.ACQUIRED,
    (State.ACQUIRED, Event.ACCEPT): State.ACKNOWLEDGED,
    (State.ACQUIRED, Event.RENEW): State.ACQUIRED,
    (State.ACQUIRED, Event.RELEASE): State.AVAILABLE,
    (State.ACQUIRED, Event.GIVE_UP): State.ARCHIVED,
    (State.ACQUIRED, Event.BURY): State.ARCHIVING,
    (State.ARCHIVING, Event.BURIED): State.ARCHIVED,
    # A record can outlive its time to live before anybody fetches it.
    (State.AVAILABLE, Event.BURY): State.ARCHIVING,
    (State.AVAILABLE, Event.VANISH): State.ARCHIVED,
    (State.ACQUIRED, Event.VANISH): State.ARCHIVED,
}
"""All that may happen. What a member says counts when the share coordinator has it; until then the
record is neither the member's nor anybody else's, and if the write fails, the member has it again.
"""

DONE = frozenset((State.ACKNOWLEDGED, State.ARCHIVED))
"""What the start of a group's window moves over."""

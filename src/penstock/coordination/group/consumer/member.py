"""A member of a consumer group: what it said, and what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.protocol.generated.group_records import ClassicMemberMetadata

JOINING = 0
LEFT = -1
AWAY = -2
"""Epochs with a meaning of their own. A static member that is away keeps its place for a while."""

Held = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch at which its holder got it."""

NOTHING: Held = {}
NO_TOPICS: frozenset[str] = frozenset()


class State(IntEnum):
    """How far a member has come towards its target; the numbers are those in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has been told to let partitions go, and has not said that it did."""
    UNRELEASED_PARTITIONS = 2
    """It has all but what others have not let go yet."""
    UNKNOWN = 127
    """Written by a newer version."""


class Member(NamedTuple):
    """One version of a member; a change makes another one."""

    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    state: State = State.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = NO_TOPICS
    regex: str | None = ""
    assignor: str | None = None
    assigned: Held = NOTHING
    revoking: Held = NOTHING
    """What it must let go; still its own until it says that it did."""
    classic: ClassicMemberMetadata | None = None
    """Set while it speaks the classic protocol in this group."""

    def moved_to(self, epoch: int, **changes: object) -> Member:
        """The member at an epoch, perhaps the same one again."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch, **changes)  # type: ignore[arg-type]

    def is_settled_at(self, epoch: int) -> bool:
        """Whether it holds all that the target of this epoch gives it, and nothing else."""
        return self.state is State.STABLE and self.epoch == epoch

    def epoch_of(self, topic_id: bytes, partition: int) -> int | None:
        """Since when it holds a partition, or None if it does not."""
        for held in (self.assigned, self.revoking):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

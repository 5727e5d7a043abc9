"""What every kind of group can be asked, whatever its protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.model.errors import ErrorCode
    from penstock.model.ids import Millis


class Group(Protocol):
    """A group of any kind."""

    group_id: str
    kind: str
    """As ListGroups names it: "classic", "consumer" or "share"."""

    @property
    def state_name(self) -> str:
        """As ListGroups and DescribeGroups spell it: "Stable", "Empty", ..."""

    @property
    def protocol_type(self) -> str:
        """ "consumer" for consumers; what its members said for other classic groups."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and none that are about to join."""

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        is_transactional: bool,
        version: int,
        at: Moment,
        out: Effects,
    ) -> ErrorCode:
        """Whether such a member may commit offsets now. A commit is a sign of life, too.

        `generation` is the member's epoch in a consumer group; below zero, from nobody in
        particular, it is allowed only in an empty group.
        """

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether somebody who says to be this member may see what is committed."""

    def check_delete(self) -> ErrorCode:
        """Whether the group may be deleted: NON_EMPTY_GROUP if not."""

    def subscribes_to(self, topic: str) -> bool:
        """Whether offsets of the topic are in use: they neither expire nor can be deleted."""

    def offsets_expire_from(self) -> Millis | None:
        """The wall time from which retention counts, or None: each from its own commit.

        Only asked while `is_empty`, or for a topic that the group does not subscribe to.
        """

    def delete(self, out: Effects) -> None:
        """Tombstones for all records that make up the group, offsets excepted."""

"""A classic group: its members, its generation and its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.model.ids import Millis


class ClassicGroup:
    """A group whose members assign among themselves; or one without members, just offsets."""

    kind = "classic"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.protocol_type = ""

    @property
    def state_name(self) -> str:
        return "Empty"

    @property
    def is_empty(self) -> bool:
        return True

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
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def subscribes_to(self, topic: str) -> bool:
        return False

    def offsets_expire_from(self) -> Millis | None:
        return None

    def delete(self, out: Effects) -> None:
        pass

"""A consumer group becomes a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.consumer.group import ConsumerGroup
    from penstock.coordination.group.consumer.member import Member
    from penstock.coordination.group.shard import GroupShard


def downgrade_without(
    shard: GroupShard, group: ConsumerGroup, members: Sequence[Member], at: Moment, out: Effects
) -> bool:
    """Convert the group if all who stay speak the classic protocol; answers whether it did."""
    return False

"""The groups of a node, those that an administrator wants to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.generated.list_groups import ListedGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from penstock.coordination.group.shard import GroupShard


def list_groups(
    shard: GroupShard, states: Collection[str], types: Collection[str]
) -> Iterator[ListedGroup]:
    """Those in one of the states and of one of the types; none given means any.

    Both are in lower case: Kafka's clients have changed their minds about capitals.
    """
    for group in shard.groups.values():
        if types and group.kind.lower() not in types:
            continue
        state = group.state_name
        if states and state.lower() not in states:
            continue
        yield ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=state,
            group_type=group.kind,
        )

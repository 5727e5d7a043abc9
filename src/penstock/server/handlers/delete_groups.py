"""DeleteGroups, versions 0 to 2: groups without members go, with all that they committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.deleting import delete_groups
from penstock.protocol.generated.delete_groups import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from penstock.model.errors import ErrorCode
    from penstock.protocol.generated.delete_groups import DeleteGroupsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: DeleteGroupsRequest,
) -> Any:
    """Ask each shard for all of its groups at once."""
    runtime = broker.coordinators.groups
    by_shard: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_shard.setdefault(runtime.index_of(group_id), []).append(group_id)
    answers = [_delete(broker, index, group_ids) for index, group_ids in by_shard.items()]
    if any(asyncio.isfuture(answer) for answer in answers):
        return _all(answers)
    return _joined(answers)


def _delete(broker: Broker, index: int, group_ids: list[str]) -> Any:
    return broker.coordinators.groups.call_shard(
        index,
        lambda shard, at, out, ticket: delete_groups(shard, at, out, ticket, group_ids),
        lambda error: _refused(group_ids, error),
    )


def _refused(group_ids: list[str], error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=each, error_code=error) for each in group_ids]
    )


async def _all(answers: list[Any]) -> DeleteGroupsResponse:
    return _joined([await each if asyncio.isfuture(each) else each for each in answers])


def _joined(answers: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[result for each in answers for result in each.results])

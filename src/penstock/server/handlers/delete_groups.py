"""DeleteGroups, versions 0 to 2: groups without members go, with all that they committed.

It takes a right to delete each of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.deleting import delete_group
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from penstock.server import audit
from penstock.server.rights import may_group

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.delete_groups import DeleteGroupsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


SLICE_SECONDS = 0.02


def handle(
    broker: Broker, call: Call, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    """Ask each group's shard; a client that deletes all that there is asks for very many."""
    group_ids = list(dict.fromkeys(request.groups_names))
    if len(group_ids) > 1:
        return _in_slices(broker, call, group_ids)
    answers = [_delete(broker, call, group_id) for group_id in group_ids]
    if any(asyncio.isfuture(answer) for answer in answers):
        return _all(call, answers)
    return _joined(call, answers)


async def _in_slices(broker: Broker, call: Call, group_ids: list[str]) -> DeleteGroupsResponse:
    """Every offset of every group becomes a record: others get their turn."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SLICE_SECONDS
    answers = []
    for group_id in group_ids:
        answers.append(_delete(broker, call, group_id))
        if loop.time() > until:
            await asyncio.sleep(0)
            until = loop.time() + SLICE_SECONDS
    return await _all(call, answers)


def _delete(broker: Broker, call: Call, group_id: str) -> Any:
    if not may_group(broker, call, Operation.DELETE, group_id):
        return _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return broker.coordinators.groups.call(
        group_id,
        lambda shard, at, out, ticket: delete_group(shard, at, out, ticket, group_id),
        lambda error: _refused(group_id, error),
    )


def _refused(group_id: str, error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=error)])


async def _all(call: Call, answers: list[Any]) -> DeleteGroupsResponse:
    return _joined(call, [await each if asyncio.isfuture(each) else each for each in answers])


def _joined(call: Call, answers: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
    results = [result for each in answers for result in each.results]
    gone = [each.group_id for each in results if not each.error_code]
    if gone:
        audit.changed(call, "delete groups", {"groups": gone})
    return DeleteGroupsResponse(results=results)

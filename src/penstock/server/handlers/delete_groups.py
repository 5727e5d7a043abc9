"""DeleteGroups, versions 0 to 2: groups without members go, with all that they committed.

A share group goes when share coordinators have forgotten what they kept for it. It takes a right to
delete each of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from penstock.coordination.group.deleting import StateFirst, delete_group
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from penstock.server import audit
from penstock.server.group_share_state import forget_state
from penstock.server.rights import may_group

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.delete_groups import DeleteGroupsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


SLICE_SECONDS = 0.02

TRIES_MAX = 3
"""How often a share group may begin anew while it is being deleted."""


def handle(
    broker: Broker, call: Call, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    """Ask each group's shard; a client that deletes all that there is asks for very many."""
    group_ids = list(dict.fromkeys(request.groups_names))
    if len(group_ids) > 1:
        return _in_slices(broker, call, group_ids)
    answers = [_delete(broker, call, group_id) for group_id in group_ids]
    if all(isinstance(answer, DeleteGroupsResponse) for answer in answers):
        return _joined(call, answers)
    return _all(broker, call, answers)


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
    return await _all(broker, call, answers)


def _delete(broker: Broker, call: Call, group_id: str) -> Any:
    if not may_group(broker, call, Operation.DELETE, group_id):
        return _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return _ask(broker, group_id)


def _ask(broker: Broker, group_id: str, *, state_is_gone: bool = False) -> Any:
    return broker.coordinators.groups.call(
        group_id,
        lambda shard, at, out, ticket: delete_group(
            shard, at, out, ticket, group_id, state_is_gone=state_is_gone
        ),
        lambda error: _refused(group_id, error),
    )


async def _with_state(broker: Broker, answer: Any) -> DeleteGroupsResponse:
    """The answer about one group, once share coordinators have done their part."""
    for _ in range(TRIES_MAX):
        if asyncio.isfuture(answer):
            answer = await answer
        if not isinstance(answer, StateFirst):
            return cast(DeleteGroupsResponse, answer)
        group_id = answer.group_id
        errors = await forget_state(broker, group_id, answer.topics)
        wrong = next((error for error in errors.values() if error), None)
        if wrong is not None:
            return _refused(group_id, wrong)
        answer = _ask(broker, group_id, state_is_gone=True)
    return _refused(group_id, ErrorCode.NON_EMPTY_GROUP)  # members come and go all the time


def _refused(group_id: str, error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=error)])


async def _all(broker: Broker, call: Call, answers: list[Any]) -> DeleteGroupsResponse:
    return _joined(call, [await _with_state(broker, each) for each in answers])


def _joined(call: Call, answers: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
    results = [result for each in answers for result in each.results]
    gone = [each.group_id for each in results if not each.error_code]
    if gone:
        audit.changed(call, "delete groups", {"groups": gone})
    return DeleteGroupsResponse(results=results)

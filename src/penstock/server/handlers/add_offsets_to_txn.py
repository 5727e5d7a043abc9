"""AddOffsetsToTxn, versions 0 to 4: a group's committed offsets become part of a transaction.

It adds the partition of `__consumer_offsets` where the group's offsets live. Clients of transaction
version 2 do not ask: TxnOffsetCommit adds it. It takes a right to write under the transactional id,
and one to read the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.keys import shard_of
from penstock.coordination.txn.adding import Participation, Verdict
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.add_offsets_to_txn import AddOffsetsToTxnResponse
from penstock.server.rights import may_group, may_transact
from penstock.server.txn_fencing import known_error
from penstock.server.txn_verification import ask_here

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable

    from penstock.protocol.generated.add_offsets_to_txn import AddOffsetsToTxnRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

FENCED_FROM = 2
"""The first version whose clients know PRODUCER_FENCED."""


def handle(
    broker: Broker, call: Call, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """At once, or when the coordinator's record is committed."""
    if not may_transact(broker, call, Operation.WRITE, request.transactional_id):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return AddOffsetsToTxnResponse(error_code=error)
    if not may_group(broker, call, Operation.READ, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    groups = broker.coordinators.groups
    # A topic that does not exist yet will have as many partitions as the configuration says.
    partitions = groups.partitions or broker.config.get_int("offsets.topic.num.partitions")
    what = Participation(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        ((groups.topic, shard_of(request.group_id, partitions)),),
    )
    verdict = ask_here(broker, what, verify_only=False)
    if isinstance(verdict, Verdict):
        return _response(call, verdict)
    return _wait(call, verdict)


async def _wait(call: Call, verdict: asyncio.Future[Verdict]) -> AddOffsetsToTxnResponse:
    return _response(call, await verdict)


def _response(call: Call, verdict: Verdict) -> AddOffsetsToTxnResponse:
    error = known_error(verdict.error, call.version >= FENCED_FROM)
    return AddOffsetsToTxnResponse(error_code=error)

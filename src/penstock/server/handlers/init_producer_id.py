"""InitProducerId, versions 0 to 5: a producer id for a producer that numbers its batches.

Without a transactional id the answer is a fresh id with epoch 0. With one it is the transaction
coordinator's: the id that belongs to the transactional id, under an epoch that fences whoever wrote
before. From version 3 on a producer may say as whom it has written, and goes on if nobody came
between.

With a transactional id it takes a right to write under it; without one, the right to number batches
on this cluster, or a right to write to any topic at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.txn.beginning import Introduction, introduce
from penstock.coordination.txn.beginning import refuse as refused
from penstock.coordination.txn.transaction import NO_EPOCH, NO_PRODUCER
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.protocol.generated.init_producer_id import InitProducerIdResponse
from penstock.server.rights import may_cluster, may_some, may_transact
from penstock.server.txn_fencing import in_known_errors

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.init_producer_id import InitProducerIdRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

    Answer = InitProducerIdResponse | Awaitable[InitProducerIdResponse]

FENCED_FROM = 4
"""The first version whose clients know PRODUCER_FENCED."""


def handle(broker: Broker, call: Call, request: InitProducerIdRequest) -> Answer:
    """At once from the block at hand, or when the controller has allocated the next one."""
    if broker.authorizer is not None:
        error = _unauthorized(broker, call, request)
        if error:
            return refused(error)
    if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_EPOCH):
        return refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        producer_id = broker.producer_ids.take()
        if producer_id is not None:
            return InitProducerIdResponse(producer_id=producer_id)
        return _allocate_and_answer(broker)
    if not request.transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    if not broker.producer_ids.ready:
        return _allocate_and_introduce(broker, call, request)
    return _introduce(broker, call, request)


def _unauthorized(broker: Broker, call: Call, request: InitProducerIdRequest) -> ErrorCode:
    name = request.transactional_id
    if name is None:
        allowed = may_some(broker, call, Operation.WRITE, ResourceType.TOPIC) or may_cluster(
            broker, call, Operation.IDEMPOTENT_WRITE
        )
        return ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allowed = may_transact(broker, call, Operation.WRITE, name) and (
        not request.enable2_pc or may_transact(broker, call, Operation.TWO_PHASE_COMMIT, name)
    )
    return ErrorCode.NONE if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def _allocate_and_answer(broker: Broker) -> InitProducerIdResponse:
    producer_id = await broker.producer_ids.allocate_and_take()
    if isinstance(producer_id, ErrorCode):
        return refused(producer_id)
    return InitProducerIdResponse(producer_id=producer_id)


async def _allocate_and_introduce(
    broker: Broker, call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    error = await broker.producer_ids.refill()
    if error:
        return refused(error)
    answer = _introduce(broker, call, request)
    return answer if isinstance(answer, InitProducerIdResponse) else await answer


def _introduce(broker: Broker, call: Call, request: InitProducerIdRequest) -> Answer:
    assert request.transactional_id is not None
    who = Introduction(
        request.transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
    )
    answer: Answer = broker.coordinators.transactions.call(
        who.transactional_id,
        lambda shard, at, out, ticket: introduce(shard, at, out, ticket, who),
        refused,
    )
    return in_known_errors(answer, call.version >= FENCED_FROM)  # type: ignore[no-any-return]

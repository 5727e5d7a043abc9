"""InitProducerId, versions 0 to 5: a producer id for a producer that numbers its batches.

Without a transactional id the answer is a fresh id with epoch 0. With one it belongs to the
transaction coordinator, which this node does not have yet: the client is told to look again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.init_producer_id import InitProducerIdRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

NO_PRODUCER = -1
NO_EPOCH = -1


def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: InitProducerIdRequest,
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """At once from the block at hand, or when the controller has allocated the next one."""
    if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        if not request.transactional_id:
            return _refused(ErrorCode.INVALID_REQUEST)
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer_id = broker.producer_ids.take()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id)
    return _allocate_and_answer(broker)


async def _allocate_and_answer(broker: Broker) -> InitProducerIdResponse:
    producer_id = await broker.producer_ids.allocate_and_take()
    if isinstance(producer_id, ErrorCode):
        return _refused(producer_id)
    return InitProducerIdResponse(producer_id=producer_id)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH
    )

"""AllocateProducerIds: a block of producer ids for one broker to hand out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.decision import Context, Decision
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.allocate_producer_ids import AllocateProducerIdsResponse
from penstock.protocol.generated.metadata_records import ProducerIdsRecord

if TYPE_CHECKING:
    from penstock.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest

BLOCK_SIZE = 1000
_ID_MAX = 2**63 - 1


def allocate_producer_ids(context: Context, request: AllocateProducerIdsRequest) -> Decision:
    """The next block. Ids that a broker does not use before it stops are never used."""
    if not context.speaks_for(request.broker_id, request.broker_epoch):
        return _refused(ErrorCode.STALE_BROKER_EPOCH)
    first = context.image.producer_ids.next_id
    if first > _ID_MAX - BLOCK_SIZE:
        return _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return Decision([record], response)


def _refused(error: ErrorCode) -> Decision:
    return Decision([], AllocateProducerIdsResponse(error_code=error))

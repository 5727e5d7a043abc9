"""EndTxn, versions 0 to 5: a producer commits or aborts its transaction.

It is answered as soon as the outcome is decided for good; markers follow. From version 5 on the
answer says under which producer id and epoch the next transaction is written. It takes a right to
write under the transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.txn.ending import Ending, end, refuse
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.server.rights import may_transact
from penstock.server.txn_fencing import in_known_errors

if TYPE_CHECKING:
    from penstock.protocol.generated.end_txn import EndTxnRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

FENCED_FROM = 2
"""The first version whose clients know PRODUCER_FENCED."""
EPOCH_PER_TXN_FROM = 5


def handle(broker: Broker, call: Call, request: EndTxnRequest) -> Any:
    """An EndTxnResponse, at once or when the outcome is committed."""
    if not may_transact(broker, call, Operation.WRITE, request.transactional_id):
        return refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        return refuse(ErrorCode.INVALID_REQUEST)
    what = Ending(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        call.version >= EPOCH_PER_TXN_FROM,
    )
    answer = broker.coordinators.transactions.call(
        what.transactional_id,
        lambda shard, at, out, ticket: end(shard, at, out, ticket, what),
        refuse,
    )
    return in_known_errors(answer, call.version >= FENCED_FROM)

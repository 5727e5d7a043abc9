"""DescribeTransactions, version 0: all about transactional ids that this node coordinates."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.txn.listing import describe
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.describe_transactions import DescribeTransactionsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    """Answer id by id."""
    states = [_state(broker, name) for name in request.transactional_ids]
    if all(isinstance(each, TransactionState) for each in states):
        return DescribeTransactionsResponse(transaction_states=states)
    return _wait(states)


def _state(broker: Broker, name: str) -> Any:
    def refuse(error: ErrorCode) -> Any:
        return TransactionState(transactional_id=name, error_code=error)

    if not name:
        return refuse(ErrorCode.INVALID_REQUEST)
    return broker.coordinators.transactions.call(
        name, lambda shard, at, out, ticket: describe(shard, at, out, ticket, name), refuse
    )


async def _wait(states: list[Any]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            await each if isinstance(each, asyncio.Future) else each for each in states
        ]
    )

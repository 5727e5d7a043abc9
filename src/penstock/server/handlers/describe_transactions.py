"""DescribeTransactions, version 0: all about transactional ids that this node coordinates.

It takes a right to describe each of them; topics that the client may not describe are left out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.txn.listing import describe
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)
from penstock.server.rights import may_transact
from penstock.server.topic_rights import shows_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.describe_transactions import DescribeTransactionsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    """Answer id by id."""
    names = dict.fromkeys(request.transactional_ids)
    states = [_state(broker, call, name) for name in names]
    if all(isinstance(each, TransactionState) for each in states):
        return _response(broker, call, states)
    return _wait(broker, call, states)


def _state(broker: Broker, call: Call, name: str) -> Any:
    def refuse(error: ErrorCode) -> Any:
        return TransactionState(transactional_id=name, error_code=error)

    if not may_transact(broker, call, Operation.DESCRIBE, name):
        return refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not name:
        return refuse(ErrorCode.INVALID_REQUEST)
    return broker.coordinators.transactions.call(
        name, lambda shard, at, out, ticket: describe(shard, at, out, ticket, name), refuse
    )


async def _wait(broker: Broker, call: Call, states: list[Any]) -> DescribeTransactionsResponse:
    done = [await each if isinstance(each, asyncio.Future) else each for each in states]
    return _response(broker, call, done)


def _response(
    broker: Broker, call: Call, states: list[TransactionState]
) -> DescribeTransactionsResponse:
    for state in states:
        state.topics = [it for it in state.topics if shows_topic(broker, call, it.topic)]
    return DescribeTransactionsResponse(transaction_states=states)

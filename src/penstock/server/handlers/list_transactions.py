"""ListTransactions, versions 0 to 2: the transactional ids that this node coordinates.

Filters by state and producer id; from version 1 on by how long a transaction has been running, and
from version 2 on by a regular expression that the whole id must match. Expressions are RE2's, which
take time in proportion to what they look at, whoever wrote them. Ids that the client may not
describe are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.coordination.txn.listing import Filter, select
from penstock.coordination.txn.states import BY_TITLE
from penstock.model.errors import ErrorCode
from penstock.model.resources import ResourceType
from penstock.protocol.generated.list_transactions import ListTransactionsResponse, TransactionState
from penstock.server.topic_rights import shown

if TYPE_CHECKING:
    from penstock.protocol.generated.list_transactions import ListTransactionsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """At once, from all shards; not while one of them is loading, or some would be missing."""
    transactions = broker.coordinators.transactions
    if transactions.loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    matches = None
    if request.transactional_id_pattern:
        matches = _matcher(request.transactional_id_pattern)
        if matches is None:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    titles = request.state_filters
    wanted = Filter(
        frozenset(BY_TITLE[title] for title in titles if title in BY_TITLE) if titles else None,
        frozenset(request.producer_id_filters),
        request.duration_filter,
        matches,
    )
    now = broker.clock.now()
    return ListTransactionsResponse(
        unknown_state_filters=[title for title in titles if title not in BY_TITLE],
        transaction_states=[
            TransactionState(
                transactional_id=found.transactional_id,
                producer_id=found.producer_id,
                transaction_state=found.state.title,
            )
            for _, shard in transactions.shards()
            for found in select(shard, wanted, now)
            if shown(broker, call, ResourceType.TRANSACTIONAL_ID, found.transactional_id)
        ],
    )


def _matcher(pattern: str) -> Callable[[str], object] | None:
    """Whether the whole of a text matches; None if the expression is not one."""
    from penstock.coordination.group.consumer.regexes import compile_regex

    compiled = compile_regex(pattern)
    return None if isinstance(compiled, str) else compiled.fullmatch

"""What a shard tells of its transactions, for DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.txn.states import TxnState
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_transactions import TopicData, TransactionState

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.txn.shard import TxnShard
    from penstock.coordination.txn.transaction import Transaction


class Filter(NamedTuple):
    """Which transactions to list; what is None or empty lets all through."""

    states: frozenset[TxnState] | None
    producer_ids: frozenset[int]
    longer_than_ms: int
    """Below zero: however short."""
    name_matches: Callable[[str], object] | None

    def allows(self, transaction: Transaction, now: int) -> bool:
        """Whether this one is asked for."""
        return (
            (not self.producer_ids or transaction.producer_id in self.producer_ids)
            and (self.states is None or transaction.state in self.states)
            and (self.longer_than_ms < 0 or now - transaction.started > self.longer_than_ms)
            and (self.name_matches is None or bool(self.name_matches(transaction.transactional_id)))
        )


def select(shard: TxnShard, wanted: Filter, now: int) -> Iterator[Transaction]:
    """Those that the filter allows."""
    return (each for each in shard.transactions.values() if wanted.allows(each, now))


def describe(
    shard: TxnShard,
    at: Moment,  # noqa: ARG001
    out: Effects,
    ticket: Ticket,
    transactional_id: str,
) -> None:
    """All about one transactional id."""
    found = shard.transactions.get(transactional_id)
    if found is None:
        answer = TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    else:
        answer = TransactionState(
            transactional_id=transactional_id,
            transaction_state=found.state.title,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.started,
            producer_id=found.producer_id,
            producer_epoch=found.epoch,
            topics=[
                TopicData(topic=topic, partitions=sorted(indexes))
                for topic, indexes in found.partitions.items()
            ],
        )
    out.reply(ticket, answer)  # a part of the response, for its handler

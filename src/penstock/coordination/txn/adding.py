"""Partitions join a transaction, or are verified to be in it.

Clients of transaction version 1 add partitions before they write to them, and leaders verify that
they did. From version 2 on the leaders add them, with the first batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.coordination.txn.ending import watch_timeouts
from penstock.coordination.txn.states import ENDING, Event, TxnState
from penstock.coordination.txn.transaction import Transaction, with_partitions
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.txn.shard import TxnShard


class Participation(NamedTuple):
    """Which partitions a producer writes to."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: Sequence[tuple[str, int]]
    client_version: int = 0
    """The transaction version that the client conducts the transaction in."""


class Verdict(NamedTuple):
    """Whether partitions take part: an error for all, or for those in `missing` alone."""

    error: ErrorCode
    missing: frozenset[tuple[str, int]] = frozenset()

    def of(self, partition: tuple[str, int]) -> ErrorCode:
        """What it says about one partition."""
        if self.error is ErrorCode.TRANSACTION_ABORTABLE and partition not in self.missing:
            return ErrorCode.NONE
        return self.error


TAKES_PART: Any = Verdict(ErrorCode.NONE)


def refuse(error: ErrorCode) -> Any:
    """The same error for all."""
    return Verdict(error)


def add(shard: TxnShard, at: Moment, out: Effects, ticket: Ticket, what: Participation) -> None:
    """Let the partitions join; the first one begins the transaction."""
    transaction = _find(shard, what)
    if isinstance(transaction, ErrorCode):
        out.reply(ticket, refuse(transaction))
        return
    if transaction.state is not TxnState.ONGOING or not transaction.covers(what.partitions):
        value = transaction.after(Event.ADD, at.wall)
        value.transaction_partitions = with_partitions(transaction.partitions, what.partitions)
        value.client_transaction_version = what.client_version
        if transaction.state is not TxnState.ONGOING:
            value.transaction_start_timestamp_ms = at.wall
        shard.record(out, what.transactional_id, value)
        watch_timeouts(shard, at, out, begun=True)
    out.reply(ticket, TAKES_PART)


def verify(
    shard: TxnShard,
    at: Moment,  # noqa: ARG001
    out: Effects,
    ticket: Ticket,
    what: Participation,
) -> None:
    """Say which of the partitions have joined, and change nothing."""
    transaction = _find(shard, what)
    if isinstance(transaction, ErrorCode):
        verdict = refuse(transaction)
    else:
        missing = frozenset(each for each in what.partitions if not transaction.includes(*each))
        verdict = Verdict(ErrorCode.TRANSACTION_ABORTABLE, missing) if missing else TAKES_PART
    out.reply(ticket, verdict)


def _find(shard: TxnShard, what: Participation) -> Transaction | ErrorCode:
    """The producer's own transaction, if it is not about to end."""
    transaction = shard.transactions.get(what.transactional_id)
    if transaction is None or transaction.producer_id != what.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != what.epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return transaction

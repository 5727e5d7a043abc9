"""InitProducerId: a producer introduces itself under a transactional id.

It gets the id's producer id with a higher epoch, so that whoever wrote under the old one is fenced.
A transaction that the old one left open is aborted first, and the producer asked to come again. A
producer that says under which epoch it has written (a resumption) is fenced itself unless that is
still the current one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.txn.ending import fence, remember_epoch
from penstock.coordination.txn.shard import IDS_MAX
from penstock.coordination.txn.states import ENDING, Event, TxnState
from penstock.coordination.txn.transaction import (
    EPOCH_LAST,
    NO_EPOCH,
    NO_PRODUCER,
    NO_TIME,
    Transaction,
)
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.txn.shard import TxnShard


class Introduction(NamedTuple):
    """Who wants to write."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER
    """With the epoch: as whom it has written so far."""
    epoch: int = NO_EPOCH

    @property
    def is_resumption(self) -> bool:
        return self.epoch != NO_EPOCH


def refuse(error: ErrorCode) -> InitProducerIdResponse:
    """The answer to a producer that may not write."""
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH
    )


def introduce(shard: TxnShard, at: Moment, out: Effects, ticket: Ticket, who: Introduction) -> None:
    """Give the producer its id and epoch, or say why not."""
    if not 0 < who.timeout_ms <= shard.settings.timeout_max_ms:
        out.reply(ticket, refuse(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        return
    transaction = shard.transactions.get(who.transactional_id)
    if transaction is None:
        error = _create(shard, at, out, ticket, who)
    elif not _may_go_on(transaction, who):
        error = ErrorCode.PRODUCER_FENCED
    elif transaction.state in ENDING:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    elif transaction.state is TxnState.ONGOING:
        # The epoch that fences is nobody's: the producer comes again and gets the one above it.
        error = fence(shard, transaction, at, out) or ErrorCode.CONCURRENT_TRANSACTIONS
    elif transaction.is_exhausted and who.epoch in (NO_EPOCH, transaction.epoch):
        error = _rotate(shard, transaction, at, out, ticket, who)
    else:
        error = _raise_epoch(shard, transaction, at, out, ticket, who)
    if error:
        out.reply(ticket, refuse(error))


def _may_go_on(transaction: Transaction, who: Introduction) -> bool:
    """Whether a resumption is by the id's current producer, as far as its id says.

    The one before may be meant, if its epochs were used up: the request that gave it a new id may
    have been answered to nobody.
    """
    return (
        not who.is_resumption
        or who.producer_id == transaction.producer_id
        or (who.producer_id == transaction.previous_producer_id and who.epoch >= EPOCH_LAST)
    )


def _create(
    shard: TxnShard, at: Moment, out: Effects, ticket: Ticket, who: Introduction
) -> ErrorCode:
    if len(shard.transactions) >= IDS_MAX:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    producer_id = shard.take_id()
    if producer_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    _begin(shard, Transaction(who.transactional_id, producer_id), at, out, ticket, who, 0)
    return ErrorCode.NONE


def _rotate(
    shard: TxnShard,
    transaction: Transaction,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    who: Introduction,
) -> ErrorCode:
    """A new producer id: the old one has no epochs left."""
    producer_id = shard.take_id()
    if producer_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    last = transaction.epoch if who.is_resumption else NO_EPOCH
    remember_epoch(transaction, last, out)
    _begin(shard, transaction, at, out, ticket, who, 0, producer_id)
    return ErrorCode.NONE


def _raise_epoch(
    shard: TxnShard,
    transaction: Transaction,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    who: Introduction,
) -> ErrorCode:
    if not who.is_resumption:
        epoch, last = transaction.epoch + 1, NO_EPOCH
    elif who.epoch == transaction.epoch:
        epoch, last = transaction.epoch + 1, transaction.epoch
    elif who.epoch == transaction.last_epoch:
        epoch, last = transaction.epoch, transaction.last_epoch  # it asks a second time
    else:
        return ErrorCode.PRODUCER_FENCED
    remember_epoch(transaction, last, out)
    _begin(shard, transaction, at, out, ticket, who, epoch)
    return ErrorCode.NONE


def _begin(
    shard: TxnShard,
    transaction: Transaction,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    who: Introduction,
    epoch: int,
    producer_id: int | None = None,
) -> None:
    value = transaction.after(Event.INIT, at.wall)
    if producer_id is not None:
        value.producer_id = producer_id
    value.producer_epoch = epoch
    value.transaction_timeout_ms = who.timeout_ms
    value.transaction_start_timestamp_ms = NO_TIME
    shard.record(out, who.transactional_id, value)
    out.reply(ticket, InitProducerIdResponse(producer_id=value.producer_id, producer_epoch=epoch))

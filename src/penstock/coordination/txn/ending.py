"""How transactions end: by their producer, by the clock, or because another producer came.

The outcome is decided by one record (Prepare), and the producer answered as soon as that is
committed. Markers then tell every partition of the transaction; when all are written, another
record (Complete) makes room for the next transaction. A coordinator that finds a Prepare when it
loads goes on with the markers, so a decision is carried out whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.txn.shard import TIMEOUTS
from penstock.coordination.txn.states import ENDING, Event, TxnState
from penstock.coordination.txn.transaction import (
    EPOCH_LAST,
    EPOCH_MAX,
    EPOCH_PER_TXN_FROM,
    NO_EPOCH,
    NO_PRODUCER,
    Transaction,
)
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated.end_txn import EndTxnResponse

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.txn.shard import TxnShard
    from penstock.protocol.generated.transaction_records import TransactionLogValue

OVERDUE_BYTES_PER_STEP = 256 * 1024
"""Overdue transactions that one look at the clock deals with, by the size of their records. These
stand in one batch, which the log must take: one that is too large would be tried for ever."""


class Ending(NamedTuple):
    """How a producer wants its transaction to end."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    epoch_per_txn: bool
    """Whether the client takes a new epoch from the answer (transaction version 2)."""


class Markers(NamedTuple):
    """An errand: tell these partitions how a producer's transaction ended, then `complete` it."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    partitions: tuple[tuple[str, int], ...]
    client_version: int


def refuse(error: ErrorCode) -> EndTxnResponse:
    """The answer to a producer whose transaction does not end like this."""
    return EndTxnResponse(error_code=error)


def end(shard: TxnShard, at: Moment, out: Effects, ticket: Ticket, what: Ending) -> None:
    """Decide the outcome, as the producer asks."""
    transaction = shard.transactions.get(what.transactional_id)
    if transaction is None:
        out.reply(ticket, refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        return
    decide = _end_in_own_epoch if what.epoch_per_txn else _end_in_same_epoch
    value = decide(shard, transaction, at, out, what)
    if value is None:  # it has ended like this already
        producer_id, epoch = transaction.producer_id, transaction.epoch
    elif isinstance(value, ErrorCode):
        out.reply(ticket, refuse(value))
        return
    else:
        producer_id, epoch = _after_completion(value)
    out.reply(ticket, EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))


def _end_in_same_epoch(
    shard: TxnShard, transaction: Transaction, at: Moment, out: Effects, what: Ending
) -> TransactionLogValue | ErrorCode | None:
    """Transaction version 1: one epoch for all transactions of a producer."""
    if transaction.producer_id != what.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != what.epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is TxnState.ONGOING:
        value = transaction.after(Event.COMMIT if what.is_commit else Event.ABORT, at.wall)
        value.next_producer_id = NO_PRODUCER
        value.client_transaction_version = 0
        _prepare(shard, transaction, value, out)
        return value
    return _as_it_ended(transaction, what)


def _end_in_own_epoch(
    shard: TxnShard, transaction: Transaction, at: Moment, out: Effects, what: Ending
) -> TransactionLogValue | ErrorCode | None:
    """Transaction version 2: each end raises the epoch.

    The epoch tells a retry from the next transaction's end, and a delayed request ends nothing.
    """
    state = transaction.state
    is_complete = state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
    was_raised = transaction.epoch == what.epoch + 1
    was_rotated = (
        transaction.previous_producer_id == what.producer_id
        and what.epoch == EPOCH_LAST
        and transaction.epoch == 0
    )
    if transaction.producer_id != what.producer_id and not was_rotated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if was_raised if state in ENDING else is_complete and (was_raised or was_rotated):
        return _as_it_ended(transaction, what)
    if state in ENDING or transaction.epoch != what.epoch:
        return ErrorCode.PRODUCER_FENCED
    if what.is_commit and state is not TxnState.ONGOING:
        return ErrorCode.INVALID_TXN_STATE
    event = Event.COMMIT if what.is_commit else Event.ABORT
    return _prepare_raised(shard, transaction, event, EPOCH_PER_TXN_FROM, at, out)


def _as_it_ended(transaction: Transaction, what: Ending) -> ErrorCode | None:
    """A retry is answered as the first time, once all is done; another outcome is refused."""
    committed = transaction.state in (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)
    if transaction.state is TxnState.EMPTY or committed is not what.is_commit:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state in ENDING else None


# -- deciding ---------------------------------------------------------------------------------


def fence(shard: TxnShard, transaction: Transaction, at: Moment, out: Effects) -> ErrorCode:
    """Abort what a producer left open, under an epoch above its own."""
    if shard.version >= EPOCH_PER_TXN_FROM:
        value = _prepare_raised(shard, transaction, Event.FENCE, shard.version, at, out)
        return value if isinstance(value, ErrorCode) else ErrorCode.NONE
    value = transaction.after(Event.FENCE, at.wall)
    value.producer_epoch = min(transaction.epoch + 1, EPOCH_MAX)
    value.next_producer_id = NO_PRODUCER
    value.client_transaction_version = 0
    remember_epoch(transaction, NO_EPOCH, out)
    _prepare(shard, transaction, value, out)
    return ErrorCode.NONE


def _prepare_raised(
    shard: TxnShard,
    transaction: Transaction,
    event: Event,
    client_version: int,
    at: Moment,
    out: Effects,
) -> TransactionLogValue | ErrorCode:
    value = transaction.after(event, at.wall)
    if transaction.is_exhausted:
        producer_id = shard.take_id()
        if producer_id is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        value.next_producer_id = producer_id
    else:
        value.next_producer_id = NO_PRODUCER
    value.producer_epoch = min(transaction.epoch + 1, EPOCH_MAX)
    value.client_transaction_version = client_version
    if transaction.state is not TxnState.ONGOING:
        value.transaction_start_timestamp_ms = at.wall
    remember_epoch(transaction, transaction.epoch, out)
    _prepare(shard, transaction, value, out)
    return value


def _prepare(
    shard: TxnShard, transaction: Transaction, value: TransactionLogValue, out: Effects
) -> None:
    shard.record(out, transaction.transactional_id, value)
    out.errand(
        Markers(
            transaction.transactional_id,
            value.producer_id,
            value.producer_epoch,
            value.transaction_status == TxnState.PREPARE_COMMIT,
            _flat(transaction),
            value.client_transaction_version,
        )
    )


def remember_epoch(transaction: Transaction, epoch: int, out: Effects) -> None:
    """Note the epoch that a retry of this request would come with, unless the log refuses."""
    before = transaction.last_epoch
    transaction.last_epoch = epoch
    also_if_refused(out, lambda *_: setattr(transaction, "last_epoch", before))


def also_if_refused(out: Effects, act: Callable[[ErrorCode, Effects], None]) -> None:
    """Do this, too, if the log does not take the step's records."""
    earlier = out.undo

    def undo(error: ErrorCode, amends: Effects) -> None:
        act(error, amends)
        if earlier is not None:
            earlier(error, amends)

    out.undo = undo


# -- the markers ------------------------------------------------------------------------------


def ask_for_markers(transaction: Transaction, out: Effects) -> None:
    """Go on with the markers of a decision that was made earlier."""
    out.errand(
        Markers(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.epoch,
            transaction.state is TxnState.PREPARE_COMMIT,
            _flat(transaction),
            transaction.client_version,
        )
    )


def complete(shard: TxnShard, at: Moment, out: Effects, ticket: Ticket, done: Markers) -> None:
    """All markers are written: the next transaction may begin."""
    transaction = shard.transactions.get(done.transactional_id)
    if (
        transaction is None
        or transaction.state not in ENDING
        or (transaction.producer_id, transaction.epoch) != (done.producer_id, done.epoch)
    ):
        out.reply(ticket, refuse(ErrorCode.INVALID_TXN_STATE))
        return
    value = transaction.after(Event.COMPLETE, at.wall)
    value.producer_id, value.producer_epoch = _after_completion(value)
    value.next_producer_id = NO_PRODUCER
    value.transaction_partitions = []
    shard.record(out, done.transactional_id, value)
    out.reply(ticket, EndTxnResponse())


def _after_completion(value: TransactionLogValue) -> tuple[int, int]:
    """As whom the producer goes on when a decision is carried out."""
    if (
        value.client_transaction_version >= EPOCH_PER_TXN_FROM
        and value.next_producer_id != NO_PRODUCER
    ):
        return value.next_producer_id, 0
    return value.producer_id, value.producer_epoch


def _flat(transaction: Transaction) -> tuple[tuple[str, int], ...]:
    return tuple(
        (topic, index) for topic, indexes in transaction.partitions.items() for index in indexes
    )


# -- the clock --------------------------------------------------------------------------------


def watch_timeouts(shard: TxnShard, at: Moment, out: Effects, begun: bool = False) -> None:
    """Have a timer look after what is ongoing; one for all, and none while nothing is."""
    if not shard.watching and (begun or shard.ongoing):
        _watch(shard, at, out)


def _watch(shard: TxnShard, at: Moment, out: Effects, at_once: bool = False) -> None:
    later = Millis(at.mono + shard.settings.timeout_check_ms)
    shard.watching = True
    out.timer(TIMEOUTS, at.mono if at_once else later)
    # Watch all the same if the log does not take this step's records: others may be ongoing.
    also_if_refused(out, lambda _, amends: amends.timer(TIMEOUTS, later))


def abort_overdue(shard: TxnShard, at: Moment, out: Effects) -> None:
    """Abort what has taken longer than its producer said it would."""
    shard.watching = False
    room, more = OVERDUE_BYTES_PER_STEP, False
    for transaction in shard.ongoing.values():
        if transaction.started + transaction.timeout_ms < at.wall:
            size = transaction.record_size
            more = bool(out.records) and size > room
            if more or fence(shard, transaction, at, out):
                break  # the next look goes on; if there are no producer ids at hand, later
            room -= size
    if shard.ongoing:
        _watch(shard, at, out, at_once=more)

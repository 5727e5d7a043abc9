"""One partition of `__transaction_state`: the transactional ids that hash to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from penstock.coordination.txn.states import ENDING, TxnState
from penstock.coordination.txn.transaction import NO_PRODUCER, Transaction
from penstock.metadata.levels import TRANSACTION_VERSION
from penstock.model.ids import Millis
from penstock.protocol.generated.transaction_records import TransactionLogKey, TransactionLogValue

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.txn.settings import TxnSettings
    from penstock.protocol.message import Message

TakeId = Callable[[], int | None]
"""A producer id that nobody has, or None if there is none at hand."""

TIMEOUTS = ("txn timeouts",)
EXPIRY = ("txn expiry",)

IDS_MAX = 50_000
"""Transactional ids of one shard: with Kafka's 50 shards, a gigabyte for those of a node."""


class TxnShard:
    """The transactions of one partition."""

    def __init__(self, index: int, settings: TxnSettings, take_id: TakeId) -> None:
        self.index = index
        self.settings = settings
        self.take_id = take_id
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, Transaction] = {}
        """Those that may time out, oldest first."""
        self.version = 0
        """The transaction version that the cluster has agreed on."""
        self.watching = False
        """Whether a timer looks after what is ongoing."""

    def record(self, out: Effects, transactional_id: str, value: TransactionLogValue) -> None:
        """Write down what becomes of an id."""
        version = 1 if self.version >= 1 else 0
        if version == 0:  # there is no place for these before the cluster has agreed on more
            value.previous_producer_id = value.next_producer_id = NO_PRODUCER
            value.client_transaction_version = 0
        out.record(TransactionLogKey(transactional_id=transactional_id), value, version)

    # -- what the runtime asks for ----------------------------------------------------------------

    def replay(self, offset: int, key: Message, value: Message | None, producer_id: int) -> None:  # noqa: ARG002
        assert isinstance(key, TransactionLogKey)
        name = key.transactional_id
        if value is None:
            self.transactions.pop(name, None)
            self.ongoing.pop(name, None)
            return
        assert isinstance(value, TransactionLogValue)
        transaction = self.transactions.get(name)
        if transaction is None:
            transaction = self.transactions[name] = Transaction(name, value.producer_id)
        transaction.replay(value)
        if transaction.state is TxnState.ONGOING:
            self.ongoing[name] = transaction
        else:
            self.ongoing.pop(name, None)

    def replay_end_txn(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Nobody writes transactionally here."""

    def on_loaded(self, at: Moment, out: Effects) -> None:
        from penstock.coordination.txn.ending import ask_for_markers, watch_timeouts

        for transaction in self.transactions.values():
            if transaction.state in ENDING:
                ask_for_markers(transaction, out)
        watch_timeouts(self, at, out)
        out.timer(EXPIRY, Millis(at.mono + self.settings.expiration_check_ms))

    def on_timer(self, key: Hashable, at: Moment, out: Effects) -> None:
        from penstock.coordination.txn.ending import abort_overdue
        from penstock.coordination.txn.expiry import expire

        if key == TIMEOUTS:
            abort_overdue(self, at, out)
        else:
            expire(self, at, out)

    def on_image(self, image: Any, delta: Any, at: Moment, out: Effects) -> None:  # noqa: ARG002
        self.version = image.features.levels.get(TRANSACTION_VERSION, 0)

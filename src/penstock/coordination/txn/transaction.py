"""One transactional id: its producer, its epoch, and its transaction, if one is under way."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.coordination.txn.states import NEXT, Event, TxnState
from penstock.model.invariants import invariant
from penstock.protocol.generated.transaction_records import PartitionsSchema, TransactionLogValue

NO_PRODUCER = -1
NO_EPOCH = -1
NO_TIME = -1

EPOCH_MAX = 32767
EPOCH_LAST = EPOCH_MAX - 1
"""The last epoch that a producer writes under: the one above it belongs to whoever fences it."""

EPOCH_PER_TXN_FROM = 2
"""The transaction version from which on each transaction has an epoch of its own."""

Partitions = dict[str, set[int]]


class Transaction:
    """What the coordinator knows of a transactional id. Only `replay` changes what is durable."""

    __slots__ = (
        "client_version",
        "epoch",
        "last_epoch",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
        "producer_id",
        "started",
        "state",
        "timeout_ms",
        "transactional_id",
        "updated",
    )

    def __init__(self, transactional_id: str, producer_id: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.previous_producer_id = NO_PRODUCER
        """Kept for retries of the request that changed the id."""
        self.next_producer_id = NO_PRODUCER
        """The id to go on with when the markers are written: the epochs are used up."""
        self.epoch = NO_EPOCH
        self.last_epoch = NO_EPOCH
        """The epoch before, for retries of the request that raised it. No log keeps it."""
        self.timeout_ms = 0
        self.state = TxnState.EMPTY
        self.partitions: Partitions = {}
        self.started = NO_TIME
        self.updated = NO_TIME
        self.client_version = 0
        """The transaction version that the current or last transaction was conducted in."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer has no epoch left to move on to."""
        return self.epoch >= EPOCH_LAST

    def covers(self, partitions: Iterable[tuple[str, int]]) -> bool:
        """Whether all of these take part in the transaction."""
        return all(self.includes(topic, index) for topic, index in partitions)

    def includes(self, topic: str, index: int) -> bool:
        """Whether a partition takes part in the transaction."""
        held = self.partitions.get(topic)
        return held is not None and index in held

    # -- records ----------------------------------------------------------------------------------

    @property
    def record_size(self) -> int:
        """About how many bytes a record takes, or a little more."""
        # Characters take up to three bytes, and the numbers less than a hundred.
        listed = sum(16 + len(topic) + 4 * len(each) for topic, each in self.partitions.items())
        return 100 + 3 * len(self.transactional_id) + listed

    def after(self, event: Event, now: int) -> TransactionLogValue:
        """The record of what comes after `event`, to be changed where more than the state does."""
        possible = (self.state, event) in NEXT
        invariant(possible, f"{self.transactional_id!r} is {self.state.title}, yet {event.value}")
        state = NEXT[self.state, event]
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=state,
            transaction_partitions=None if state is TxnState.EMPTY else self._listed(),
            transaction_last_update_timestamp_ms=now,
            transaction_start_timestamp_ms=self.started,
            client_transaction_version=self.client_version,
        )

    def _listed(self) -> list[PartitionsSchema]:
        return [
            PartitionsSchema(topic=topic, partition_ids=list(indexes))
            for topic, indexes in self.partitions.items()
        ]

    def replay(self, value: TransactionLogValue) -> None:
        """Become what a record says."""
        self.producer_id = value.producer_id
        self.previous_producer_id = value.previous_producer_id
        self.next_producer_id = value.next_producer_id
        self.epoch = value.producer_epoch
        self.timeout_ms = value.transaction_timeout_ms
        self.state = TxnState(value.transaction_status)
        self.partitions = {
            entry.topic: set(entry.partition_ids) for entry in value.transaction_partitions or ()
        }
        self.started = value.transaction_start_timestamp_ms
        self.updated = value.transaction_last_update_timestamp_ms
        self.client_version = value.client_transaction_version


def with_partitions(held: Partitions, added: Iterable[tuple[str, int]]) -> list[PartitionsSchema]:
    """Those of a transaction and some more, as a record lists them."""
    merged = {topic: set(indexes) for topic, indexes in held.items()}
    for topic, index in added:
        merged.setdefault(topic, set()).add(index)
    return [
        PartitionsSchema(topic=topic, partition_ids=sorted(indexes))
        for topic, indexes in merged.items()
    ]

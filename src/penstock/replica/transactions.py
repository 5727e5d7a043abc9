"""Who may begin a transaction on a partition.

A producer's first batch of a transaction is appended only after its coordinator has said that the
partition takes part; if it did not, nobody would ever tell the partition how the transaction ends,
and readers of committed records would wait for ever. The batch gets a guard to come back with.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.errors import ErrorCode
from penstock.records.batch import BatchHead
from penstock.storage.producers import Producers

GUARDS_MAX = 10_000
"""Producers of one partition that may be about to begin; the oldest have to ask again."""


class Guard:
    """One producer's leave to begin. A marker voids it: it was about a transaction that ended."""

    __slots__ = ("epoch", "from_zero", "lowest_sequence")

    def __init__(self, epoch: int, lowest_sequence: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        """Of the batches that asked so far: a later one must not overtake them."""
        self.from_zero = False
        """Whether the first batch of all must have sequence 0 (transaction version 2)."""


class Unverified(NamedTuple):
    """A producer's first batch of a transaction: its coordinator must say that it takes part."""

    producer_id: int
    producer_epoch: int
    guard: Guard


NOT_TRANSACTIONAL = Guard(-1, 0)
"""Given with the batches of a request that names no transactional id: none may begin or go on."""


class Guards:
    """The guards of one partition."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Guard] = {}

    def admit(
        self, producers: Producers, head: BatchHead, guard: Guard | None
    ) -> Unverified | ErrorCode | None:
        """None if the batch belongs to a transaction that is known to include this partition."""
        producer_id = head.producer_id
        producer = producers.by_id.get(producer_id)
        if (
            producer is not None
            and producer.txn_first_offset >= 0
            and producer.epoch == head.producer_epoch
        ):
            return None
        held = self._by_producer.get(producer_id)
        if guard is None or held is not guard:
            return self._ask(head, held)
        if head.base_sequence > guard.lowest_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if guard.from_zero and head.base_sequence != 0 and producer is None:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        del self._by_producer[producer_id]
        return None

    def _ask(self, head: BatchHead, held: Guard | None) -> Unverified:
        epoch, sequence = head.producer_epoch, head.base_sequence
        if held is None or held.epoch < epoch:
            held = self._hand_out(head.producer_id, epoch, sequence)
        elif held.epoch == epoch:
            held.lowest_sequence = min(held.lowest_sequence, sequence)
        return Unverified(head.producer_id, head.producer_epoch, held)

    def _hand_out(self, producer_id: int, epoch: int, sequence: int) -> Guard:
        if len(self._by_producer) >= GUARDS_MAX:
            del self._by_producer[next(iter(self._by_producer))]
        guard = self._by_producer[producer_id] = Guard(epoch, sequence)
        return guard

    def of(self, producer_id: int, epoch: int) -> Guard:
        """The guard of a producer whose records this node is to append itself, without sequences.

        Its batches do not come by `admit`: they may be appended while it `is_good`.
        """
        held = self._by_producer.get(producer_id)
        if held is None or held.epoch != epoch:
            held = self._hand_out(producer_id, epoch, -1)
        return held

    def is_good(self, producer_id: int, guard: Guard) -> bool:
        """Whether no marker has come since the guard was handed out."""
        return self._by_producer.get(producer_id) is guard

    def void(self, producer_id: int) -> None:
        """The producer's transaction ended: what its coordinator said before no longer counts."""
        self._by_producer.pop(producer_id, None)

    def void_all(self) -> None:
        """Others lead, and markers may go to them: nothing that was said before counts."""
        self._by_producer.clear()

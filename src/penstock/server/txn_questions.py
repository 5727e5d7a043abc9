"""Questions to transaction coordinators on other brokers, as AddPartitionsToTxn requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.coordination.txn.adding import TAKES_PART, Verdict
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.server.rounds import Rounds, error_of

if TYPE_CHECKING:
    from penstock.coordination.txn.adding import Participation
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.generated.add_partitions_to_txn import AddPartitionsToTxnResponse
    from penstock.server.broker import Broker

PURPOSE = "transactions"
"""A connection of its own: who joins a transaction waits for the coordinator's replicas."""

TRANSACTIONS_PER_REQUEST = 200
"""Each may be an append: the coordinator that is asked serves nobody else meanwhile."""

Place = tuple[str, int]


class Inquiry(NamedTuple):
    """What a leader wants to know, or to have done, before it appends a batch."""

    what: Participation
    verify_only: bool
    answer: asyncio.Future[Verdict]

    @property
    def who(self) -> tuple[int, int, bool]:
        """Inquiries about one transactional id go together if this is the same."""
        return self.what.producer_id, self.what.epoch, self.verify_only


class CoordinatorQuestions:
    """Asks coordinators that are not here."""

    def __init__(self, broker: Broker) -> None:
        self._loop = broker.loop
        self._rounds: Rounds[Inquiry] = Rounds(broker, PURPOSE, self)

    def ask(self, node_id: int, what: Participation, verify_only: bool) -> asyncio.Future[Verdict]:
        """What the coordinator on that broker says; NETWORK_EXCEPTION if it says nothing."""
        answer: asyncio.Future[Verdict] = self._loop.create_future()
        self._rounds.add(node_id, Inquiry(what, verify_only, answer))
        return answer

    def on_image(self, image: MetadataImage) -> None:
        """Brokers may be gone."""
        self._rounds.on_image(image)

    def close(self) -> None:
        """The node stops."""
        self._rounds.close()

    # -- the trade ------------------------------------------------------------------------------

    def compose(self, items: list[Inquiry]) -> tuple[AddPartitionsToTxnRequest, list[Inquiry]]:
        """Each transactional id once, with all partitions that are asked about in one way."""
        taken: list[Inquiry] = []
        first: dict[str, Inquiry] = {}
        places: dict[str, dict[Place, None]] = {}
        for inquiry in items:
            name = inquiry.what.transactional_id
            if name not in first and len(first) >= TRANSACTIONS_PER_REQUEST:
                continue
            if first.setdefault(name, inquiry).who != inquiry.who:
                continue
            taken.append(inquiry)
            places.setdefault(name, {}).update(dict.fromkeys(inquiry.what.partitions))
        transactions = [_transaction(each, places[name]) for name, each in first.items()]
        return AddPartitionsToTxnRequest(transactions=transactions), taken

    def settle(self, items: list[Inquiry], answer: AddPartitionsToTxnResponse | None) -> None:
        """Tell each what the coordinator said of its partitions."""
        told = {} if answer is None else _errors(answer)
        for inquiry in items:
            if not inquiry.answer.done():
                by_place = told.get(inquiry.what.transactional_id, {})
                inquiry.answer.set_result(_verdict(inquiry, by_place, answer))


def _transaction(inquiry: Inquiry, places: dict[Place, None]) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=inquiry.what.transactional_id,
        producer_id=inquiry.what.producer_id,
        producer_epoch=inquiry.what.epoch,
        verify_only=inquiry.verify_only,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in topics.items()
        ],
    )


def _errors(answer: Any) -> dict[str, dict[Place, ErrorCode]]:
    return {
        each.transactional_id: {
            (topic.name, it.partition_index): error_of(it.partition_error_code)
            for topic in each.topic_results
            for it in topic.results_by_partition
        }
        for each in answer.results_by_transaction
    }


def _verdict(inquiry: Inquiry, told: dict[Place, ErrorCode], answer: Any) -> Verdict:
    """One verdict over the partitions, from an error for each."""
    if answer is not None and answer.error_code:
        error = error_of(answer.error_code)
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            error = ErrorCode.INVALID_TXN_STATE  # ours to mend, and none of the client's business
        return Verdict(error)
    errors = {
        place: told.get(place, ErrorCode.NETWORK_EXCEPTION) for place in inquiry.what.partitions
    }
    found = {error for error in errors.values() if error}
    if not found:
        return TAKES_PART  # type: ignore[no-any-return]
    if found == {ErrorCode.TRANSACTION_ABORTABLE}:
        missing = frozenset(place for place, error in errors.items() if error)
        return Verdict(ErrorCode.TRANSACTION_ABORTABLE, missing)
    if ErrorCode.OPERATION_NOT_ATTEMPTED in found:
        # The coordinator does not know some partition, perhaps of another's inquiry, or not yet.
        # Nothing was done: the producer comes again.
        return Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return Verdict(next(error for error in errors.values() if error))

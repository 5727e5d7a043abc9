"""Markers for partitions that other brokers lead, as WriteTxnMarkers requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.server.rounds import Rounds, error_of

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.generated.write_txn_markers import WriteTxnMarkersResponse
    from penstock.server.broker import Broker
    from penstock.server.txn_markers import Marker

PURPOSE = "markers"
"""A connection of their own: each answer waits for in-sync replicas."""

PARTITIONS_PER_REQUEST = 500
"""Each is an append: the broker that is asked serves nobody else meanwhile."""


class Letter(NamedTuple):
    """A marker for one partition, and who wants to know what came of it."""

    place: tuple[str, int]
    marker: Marker
    answer: asyncio.Future[ErrorCode]


class RemoteMarkers:
    """Has other brokers write markers."""

    def __init__(self, broker: Broker) -> None:
        self._loop = broker.loop
        self._rounds: Rounds[Letter] = Rounds(broker, PURPOSE, self)

    def send(
        self, node_id: int, topic: str, index: int, marker: Marker
    ) -> asyncio.Future[ErrorCode]:
        """Have a broker write a marker; NETWORK_EXCEPTION says that nobody knows whether it did."""
        answer: asyncio.Future[ErrorCode] = self._loop.create_future()
        self._rounds.add(node_id, Letter((topic, index), marker, answer))
        return answer

    def on_image(self, image: MetadataImage) -> None:
        """Brokers may be gone."""
        self._rounds.on_image(image)

    def close(self) -> None:
        """The node stops."""
        self._rounds.close()

    # -- the trade ------------------------------------------------------------------------------

    def compose(self, items: list[Letter]) -> tuple[WriteTxnMarkersRequest, list[Letter]]:
        """One marker for each producer: answers do not tell two of the same apart."""
        taken: list[Letter] = []
        by_producer: dict[int, Marker] = {}
        topics: dict[int, dict[str, list[int]]] = {}
        for letter in items[:PARTITIONS_PER_REQUEST]:
            producer_id = letter.marker.producer_id
            if by_producer.setdefault(producer_id, letter.marker) != letter.marker:
                continue
            taken.append(letter)
            topic, index = letter.place
            topics.setdefault(producer_id, {}).setdefault(topic, []).append(index)
        markers = [_writable(marker, topics[key]) for key, marker in by_producer.items()]
        return WriteTxnMarkersRequest(markers=markers), taken

    def settle(self, items: list[Letter], answer: WriteTxnMarkersResponse | None) -> None:
        """Tell each what came of it."""
        told = {} if answer is None else _errors(answer)
        for letter in items:
            if not letter.answer.done():
                key = letter.marker.producer_id, *letter.place
                letter.answer.set_result(told.get(key, ErrorCode.NETWORK_EXCEPTION))


def _writable(marker: Marker, topics: dict[str, list[int]]) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.version,
    )


def _errors(answer: Any) -> dict[tuple[int, str, int], ErrorCode]:
    return {
        (marker.producer_id, topic.name, each.partition_index): error_of(each.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for each in topic.partitions
    }

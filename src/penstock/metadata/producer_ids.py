"""The next producer id that no broker has been given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.generated.metadata_records import (
    ProducerIdsRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class ProducerIdsImage:
    __slots__ = ("next_id",)

    def __init__(self, next_id: int = 0) -> None:
        self.next_id = next_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerIdsImage) and self.next_id == other.next_id

    __hash__ = None  # type: ignore[assignment]

    def records(self) -> Iterator[ProducerIdsRecord]:
        if self.next_id:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_id)


class ProducerIdsDelta:
    __slots__ = ("image", "next_id")

    def __init__(self, image: ProducerIdsImage) -> None:
        self.image = image
        self.next_id = image.next_id

    def block(self, record: ProducerIdsRecord) -> None:
        self.next_id = record.next_producer_id

    def apply(self) -> ProducerIdsImage:
        return ProducerIdsImage(self.next_id)

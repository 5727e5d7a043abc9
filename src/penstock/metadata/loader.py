"""Committed batches in, images out: where a transaction's records wait for its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.metadata.delta import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    MetadataDelta,
)
from penstock.metadata.difference import between
from penstock.metadata.image import EMPTY, MetadataImage
from penstock.model.invariants import invariant

if TYPE_CHECKING:
    from collections.abc import Sequence


class Published(NamedTuple):
    """An image that may be seen, and what changed since the one before it."""

    image: MetadataImage
    delta: MetadataDelta


class ImageLoader:
    """Folds committed batches into images.

    `replay` takes batches, any number of them; `publish` makes the next image of what they said,
    so that a long log is folded once and not batch by batch. What a metadata transaction says
    waits for its end, which may come many batches later, and is dropped if it is aborted.
    """

    __slots__ = ("_delta", "_epoch", "_offset", "_waiting", "image")

    def __init__(self, image: MetadataImage = EMPTY) -> None:
        self.image = image
        self._delta = MetadataDelta(image)
        self._offset = image.offset
        self._epoch = image.epoch
        self._waiting: list[Any] | None = None

    @property
    def offset(self) -> int:
        """Of the last record that was replayed, -1 before the first."""
        return self._offset

    @property
    def in_transaction(self) -> bool:
        return self._waiting is not None

    def replay(self, records: Sequence[Any], last_offset: int, epoch: int) -> None:
        """Take one committed batch; one without metadata records only moves the offset on."""
        for record in records:
            key = record.API_KEY
            if key == BEGIN_TRANSACTION:
                invariant(self._waiting is None, "a metadata transaction began inside another")
                self._waiting = []
            elif key == END_TRANSACTION:
                self._delta.replay_all(self._ended())
            elif key == ABORT_TRANSACTION:
                self._ended()
            elif self._waiting is not None:
                self._waiting.append(record)
            else:
                self._delta.replay(record)
        self._offset = last_offset
        self._epoch = epoch

    def _ended(self) -> list[Any]:
        records, self._waiting = self._waiting, None
        invariant(records is not None, "a metadata transaction ended that never began")
        return records or []

    def replace(self, then: MetadataImage) -> None:
        """Take a snapshot's image in the place of everything; `publish` says what differs."""
        self._delta = between(self.image, then)
        self._waiting = None
        self._offset = then.offset
        self._epoch = then.epoch

    def adopt(self, image: MetadataImage) -> None:
        """Go on from an image that was published by other means: the leader's own decisions."""
        self.image = image
        self._delta = MetadataDelta(image)
        self._offset = image.offset
        self._epoch = image.epoch
        self._waiting = None

    def publish(self) -> Published:
        """The image of everything replayed so far but for a transaction that is still open."""
        delta = self._delta
        self.image = delta.apply(self._offset, self._epoch)
        self._delta = MetadataDelta(self.image)
        return Published(self.image, delta)


def whole(image: MetadataImage) -> Published:
    """An image as news to somebody who knows nothing yet."""
    return Published(image, MetadataDelta(EMPTY).replay_all(image.records()))


def folded(records: Sequence[Any], last_offset: int, epoch: int) -> MetadataImage:
    """The image that a snapshot's records make."""
    return MetadataDelta(EMPTY).replay_all(records).apply(last_offset, epoch)

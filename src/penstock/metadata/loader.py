"""Committed batches in, images out: where a transaction's records wait for its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.metadata.delta import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    MetadataDelta,
)
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

    A metadata transaction may span batches: what it says is seen whole at its end, or not at all.
    Outside a transaction a batch is the unit of change.
    """

    __slots__ = ("_delta", "_open", "image")

    def __init__(self, image: MetadataImage = EMPTY) -> None:
        self.image = image
        self._delta: MetadataDelta | None = None
        self._open = False

    @property
    def in_transaction(self) -> bool:
        return self._open

    def load(self, records: Sequence[Any], base_offset: int, epoch: int) -> list[Published]:
        """Fold one batch in; returns the images that became visible, oldest first."""
        published: list[Published] = []
        offset = base_offset - 1
        for record in records:
            key = record.API_KEY
            if key == BEGIN_TRANSACTION:
                invariant(not self._open, "a metadata transaction began inside another")
                self._publish(offset, epoch, published)
                self._open = True
            elif key == ABORT_TRANSACTION:
                invariant(self._open, "a metadata transaction was aborted that never began")
                self._delta, self._open = None, False
            elif key == END_TRANSACTION:
                invariant(self._open, "a metadata transaction ended that never began")
                self._open = False
                self._publish(offset + 1, epoch, published)
            else:
                if self._delta is None:
                    self._delta = MetadataDelta(self.image)
                self._delta.replay(record)
            offset += 1
        if not self._open:
            self._publish(offset, epoch, published)
        return published

    def _publish(self, offset: int, epoch: int, published: list[Published]) -> None:
        delta, self._delta = self._delta, None
        if delta is not None:
            self.image = delta.apply(offset, epoch)
            published.append(Published(self.image, delta))

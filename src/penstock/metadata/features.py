"""Finalized feature levels: what every node of the cluster has agreed to speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.levels import ELR_VERSION, METADATA_VERSION, SUPPORTED
from penstock.protocol.generated.metadata_records import (
    FeatureLevelRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_FLOOR = SUPPORTED[METADATA_VERSION].first


class FeaturesImage:
    """Level of each finalized feature; a feature that is not named is off."""

    __slots__ = ("levels",)

    def __init__(self, levels: Mapping[str, int] | None = None) -> None:
        self.levels: Mapping[str, int] = levels if levels is not None else {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeaturesImage) and self.levels == other.levels

    __hash__ = None  # type: ignore[assignment]

    @property
    def metadata_version(self) -> int:
        """The level that says how records are written; the lowest one until it is known."""
        return self.levels.get(METADATA_VERSION, _FLOOR)

    @property
    def elr_enabled(self) -> bool:
        return self.levels.get(ELR_VERSION, 0) >= 1

    def records(self) -> Iterator[FeatureLevelRecord]:
        # A reader learns first how to read the rest.
        if METADATA_VERSION in self.levels:
            yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=self.metadata_version)
        for name, level in sorted(self.levels.items()):
            if name != METADATA_VERSION:
                yield FeatureLevelRecord(name=name, feature_level=level)


class FeaturesDelta:
    __slots__ = ("changed", "image")

    def __init__(self, image: FeaturesImage) -> None:
        self.image = image
        self.changed: dict[str, int] = {}
        """New levels by feature; 0 takes a feature away."""

    def level(self, record: FeatureLevelRecord) -> None:
        self.changed[record.name] = record.feature_level

    def apply(self) -> FeaturesImage:
        levels = {**self.image.levels, **self.changed}
        return FeaturesImage({name: level for name, level in levels.items() if level})

"""Configuration overrides of topics, brokers, groups and client metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.layers import changed, merged
from penstock.protocol.generated.metadata_records import (
    ConfigRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Kafka's numbers for what a configuration belongs to. The broker named "" is every broker."""

_NOTHING: Mapping[str, str] = {}


class ConfigsImage:
    """What was set, by (resource type, name); defaults are not in here."""

    __slots__ = ("resources",)

    def __init__(self, resources: Mapping[tuple[int, str], Mapping[str, str]] | None = None):
        self.resources: Mapping[tuple[int, str], Mapping[str, str]] = (
            resources if resources is not None else {}
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigsImage) and self.resources == other.resources

    __hash__ = None  # type: ignore[assignment]

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The overrides of one resource; empty if it has none."""
        return self.resources.get((resource_type, name), _NOTHING)

    def names(self, resource_type: int) -> list[str]:
        """Resources of a type that have an override."""
        return [name for kind, name in self.resources if kind == resource_type]

    def records(self) -> Iterator[ConfigRecord]:
        for (kind, name), values in self.resources.items():
            for key, value in values.items():
                yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


class ConfigsDelta:
    """Keys that changed, by resource; None takes an override away."""

    __slots__ = ("changed", "image", "removed")

    def __init__(self, image: ConfigsImage) -> None:
        self.image = image
        self.changed: dict[tuple[int, str], dict[str, str | None]] = {}
        self.removed: set[tuple[int, str]] = set()
        """Resources whose old overrides all went, as their topic did."""

    def config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        self.changed.setdefault(resource, {})[record.name] = record.value

    def remove_topic(self, name: str) -> None:
        self.changed.pop((TOPIC, name), None)
        if (TOPIC, name) in self.image.resources:
            self.removed.add((TOPIC, name))

    def apply(self) -> ConfigsImage:
        old = self.image.resources
        resources: dict[tuple[int, str], Mapping[str, str] | None] = dict.fromkeys(self.removed)
        for resource, changes in self.changed.items():
            before = _NOTHING if resource in self.removed else old.get(resource, _NOTHING)
            resources[resource] = merged(before, changes) or None
        return ConfigsImage(changed(old, resources))

"""Reading and changing what a cluster has configured for a topic, a broker or a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported without saying so
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from penstock.cli import client
from penstock.cli.failure import Failure

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_KINDS = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP,
}

_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG.value: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG.value: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG.value: "file",
    ConfigSource.DEFAULT_CONFIG.value: "default",
    ConfigSource.GROUP_CONFIG.value: "group",
}


class Entity(NamedTuple):
    """Whose configuration: a topic's, a broker's or a group's."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def read_settings(admin: AdminClient, entity: Entity, wait: float) -> list[dict[str, Any]]:
    """Every setting of an entity, by key, with where its value comes from."""
    _check_broker(admin, entity, wait)
    resource = ConfigResource(_KINDS[entity.kind], entity.name)
    (future,) = admin.describe_configs([resource], request_timeout=wait).values()
    entries = client.result(future, f"configuration of {entity} cannot be read", wait)
    return [_document(entries[key]) for key in sorted(entries)]


def _check_broker(admin: AdminClient, entity: Entity, wait: float) -> None:
    """A broker is asked for its own settings: one that is not there would be waited for."""
    if entity.kind != "broker":
        return
    try:
        there = sorted(admin.list_topics(timeout=wait).brokers)
    except KafkaException as refusal:
        raise client.failure_of(refusal, "the brokers could not be listed") from None
    if int(entity.name) not in there:
        raise Failure(f"there is no {entity}", f"the brokers are {', '.join(map(str, there))}")


def _document(entry: Any) -> dict[str, Any]:
    source = _SOURCES.get(entry.source, "unknown")
    return {
        "key": entry.name,
        "value": entry.value,
        "source": source,
        "default": source == "default",
        "read_only": bool(entry.is_read_only),
        "sensitive": bool(entry.is_sensitive),
    }


def change(
    admin: AdminClient,
    entity: Entity,
    changes: Mapping[str, str | None],
    *,
    dry_run: bool,
    wait: float,
) -> None:
    """Set each key to its value, or give it back to its default where the value is None."""
    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=(
                AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            ),
        )
        for key, value in changes.items()
    ]
    _check_broker(admin, entity, wait)
    resource = ConfigResource(_KINDS[entity.kind], entity.name, incremental_configs=entries)
    futures = admin.incremental_alter_configs(
        [resource], validate_only=dry_run, request_timeout=wait
    )
    (future,) = futures.values()
    client.result(future, f"configuration of {entity} was not changed", wait)

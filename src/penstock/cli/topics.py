"""What a cluster tells about its topics, as plain documents and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from penstock.cli import client
from penstock.cli.failure import Failure, Failures
from penstock.cli.output import Table, cell
from penstock.cli.settings import Entity, read_settings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Document = dict[str, Any]

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def listing(admin: AdminClient, wait: float) -> list[Document]:
    """One line about each topic, by name."""
    try:
        topics = admin.list_topics(timeout=wait).topics
    except KafkaException as refusal:
        raise client.failure_of(refusal, "the topics could not be listed") from None
    return [_line(topics[name]) for name in sorted(topics)]


def _line(topic: Any) -> Document:
    partitions = topic.partitions.values()
    return {
        "topic": topic.topic,
        "partitions": len(partitions),
        "replicas": max((len(one.replicas) for one in partitions), default=0),
        "under_replicated": sum(len(one.isrs) < len(one.replicas) for one in partitions),
        "offline": sum(one.leader < 0 for one in partitions),
        # Metadata has a flag for this that the client does not show; the name tells as well.
        "internal": topic.topic.startswith("__"),
    }


def describe(
    admin: AdminClient, names: Sequence[str], wait: float
) -> tuple[list[Document], Failures]:
    """All about each topic that is there, and what went wrong with the others."""
    futures = admin.describe_topics(TopicCollection(list(names)), request_timeout=wait)
    documents: list[Document] = []
    failures = Failures()
    for name, future in futures.items():
        try:
            found = client.result(future, f"topic {name} cannot be described", wait)
            documents.append(_describe_one(admin, found, wait))
        except Failure as failure:
            failures.add(failure)
    return documents, failures


def _describe_one(admin: AdminClient, found: Any, wait: float) -> Document:
    led = [one.id for one in found.partitions if one.leader is not None]
    starts = _offsets(admin, found.name, led, EARLIEST, wait)
    ends = _offsets(admin, found.name, led, LATEST, wait)
    config = read_settings(admin, Entity("topic", found.name), wait)
    return {
        "topic": found.name,
        # librdkafka writes the ordinary base64 alphabet, Kafka's own tools the URL-safe one.
        "id": str(found.topic_id).replace("+", "-").replace("/", "_"),
        "internal": found.is_internal,
        "config": {one["key"]: one["value"] for one in config if not one["default"]},
        "partitions": [
            {
                "partition": one.id,
                "leader": one.leader.id if one.leader is not None else None,
                "replicas": [node.id for node in one.replicas],
                "isr": [node.id for node in one.isr],
                "start": starts.get(one.id),
                "end": ends.get(one.id),
            }
            for one in sorted(found.partitions, key=lambda one: one.id)
        ],
    }


def _offsets(
    admin: AdminClient, name: str, partitions: Sequence[int], spec: Any, wait: float
) -> dict[int, int]:
    if not partitions:
        return {}
    asked = {TopicPartition(name, partition): spec for partition in partitions}
    futures = admin.list_offsets(asked, request_timeout=wait)
    return {
        key.partition: client.result(
            future, f"offsets of {name}-{key.partition} are not known", wait
        ).offset
        for key, future in futures.items()
    }


def tables(document: Document) -> list[Table]:
    """A description for people: the topic in a line, its settings, its partitions."""
    columns = ("partition", "leader", "replicas", "isr", "start", "end")
    config = " ".join(f"{key}={value}" for key, value in document["config"].items())
    partitions = document["partitions"]
    records = sum((one["end"] or 0) - (one["start"] or 0) for one in partitions)
    summary = [[document["topic"], document["id"], len(partitions), records, cell(config)]]
    return [
        Table(("topic", "id", "partitions", "offsets", "config"), summary),
        Table(columns, [[one[column] for column in columns] for one in partitions]),
    ]

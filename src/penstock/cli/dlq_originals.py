"""Records of which a dead letter has no copy, read where they were."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.cli import client
from penstock.cli.dlq_letter import Header, Source
from penstock.cli.dlq_topics import Access

Original = tuple[bytes | None, bytes | None, list[Header]]
"""Key, value and headers."""

_GONE = {
    KafkaError._PARTITION_EOF,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._AUTO_OFFSET_RESET,
}
"""Ways to hear that there is no record here."""


class Originals:
    """Finds records one by one; connects when the first is asked for."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._consumer: Any = None
        self._next: Source | None = None

    def __enter__(self) -> Originals:
        return self

    def __exit__(self, *_: object) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def find(self, source: Source) -> Original | None:
        """The record at a place; None if it is not there any more."""
        if source.partition < 0 or source.offset < 0:
            return None
        if self._consumer is None:
            where = self._access
            self._consumer = client.consumer(where.bootstrap, where.settings, _CONSUMER)
        if source != self._next:
            self._consumer.assign([TopicPartition(*source)])
        self._next = None
        message = self._consumer.poll(self._access.wait)
        if message is None:
            error = KafkaError(KafkaError._TIMED_OUT)
            raise client.failure_of(KafkaException(error), f"{source} cannot be read")
        if message.error() is not None:
            if message.error().code() in _GONE:
                return None
            raise client.failure_of(KafkaException(message.error()), f"{source} cannot be read")
        if message.offset() != source.offset:
            return None
        self._next = source._replace(offset=source.offset + 1)
        return message.key(), message.value(), message.headers() or []


_CONSUMER = {
    "group.id": "penstock-cli",  # the client wants one; nothing joins or commits
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.message.max.bytes": 65_536,  # one record is wanted, not the megabyte behind it
    # Whoever gave the record up has seen it: no transaction of later can unmake that.
    "isolation.level": "read_uncommitted",
}

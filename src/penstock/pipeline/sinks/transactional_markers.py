"""Markers: how a topic sink remembers, in the cluster itself, which batches it has written.

A marker is a committed offset of the sink's group, one for each slot. Its offset is the number of
the last batch plus one, its metadata says whose batch that was. It is committed in the
transaction that writes the slot's rows: both are there, or neither is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

ANSWER_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.2
PASSING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._WAIT_COORD,
)
"""Errors of a group whose coordinator is not there yet."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Marker:
    """What a slot's committed offset says."""

    writer: str
    slots: int
    end: int
    """The batch after the last one written."""


def group_of(pipeline: str, sink: str) -> str:
    """The group that holds a sink's markers. No pipeline's name has a colon: none is like it."""
    return f"penstock.pipeline.{pipeline}:{sink}"


def place_of(home: str, slot: int, marker: Marker) -> TopicPartition:
    """A marker as an offset to commit."""
    said = json.dumps({"writer": marker.writer, "slots": marker.slots}, separators=(",", ":"))
    return TopicPartition(home, slot, marker.end, said)


class Markers:
    """The markers of one sink, read and committed without being a member of its group."""

    def __init__(self, settings: Mapping[str, Any], group: str, home: str) -> None:
        self._home = home
        self._client = Consumer(
            {
                **settings,
                "group.id": group,
                "enable.auto.commit": False,
                "log_level": 0,
                # A transaction that is about to commit a marker is waited for.
                "isolation.level": "read_committed",
            }
        )

    @property
    def membership(self) -> Any:
        """What a transaction wants to know of the group that it commits to."""
        return self._client.consumer_group_metadata()

    def read(self, slots: Iterable[int], writer: str) -> dict[int, Marker]:
        """The markers of these slots; those of another writer count for nothing."""
        places = [TopicPartition(self._home, slot) for slot in slots]
        found = {}
        for place in _patiently(lambda: self._client.committed(places, ANSWER_SECONDS_MAX)):
            marker = _marker_in(place)
            if marker is not None and marker.writer == writer:
                found[place.partition] = marker
        return found

    def seed(self, slots: Iterable[int], marker: Marker) -> None:
        """Commit the same marker for several slots, outside of any transaction."""
        places = [place_of(self._home, slot, marker) for slot in slots]
        _patiently(lambda: self._client.commit(offsets=places, asynchronous=False))

    def close(self) -> None:
        """Let go of the cluster."""
        self._client.close()


def _patiently(call: Callable[[], Answer]) -> Answer:
    """Call until the group has a coordinator: a new cluster, or one that lost a broker, takes time.

    librdkafka waits for that in some of its calls, and not in others.
    """
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            return call()
        except KafkaException as refusal:
            if refusal.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_SECONDS)


def _marker_in(place: TopicPartition) -> Marker | None:
    if place.offset < 0 or not place.metadata:
        return None
    try:
        said = json.loads(place.metadata)
        return Marker(said["writer"], said["slots"], place.offset)
    except (ValueError, KeyError, TypeError):
        return None  # somebody else's idea of metadata: no marker of ours

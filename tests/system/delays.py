"""Producers of delayed records, and readers of what became of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from penstock.model.delays import DELIVER_AT
from tests.oracle import wire
from tests.oracle.nodes import Node

SECONDS_MAX = 60.0
Headers = list[tuple[str, str | bytes | None]]
ENABLED = {"penstock.delivery.delay.enable": "true"}


class Delivered(NamedTuple):
    """A record as a consumer got it."""

    value: str
    offset: int
    delivered_at: int
    arrived_at: int


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create(node: Node, topic: str, **configs: str) -> None:
    """A topic of one partition that takes delayed records."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    with wire.Wire(node.port) as client:
        assert wire.create_topic(client, topic, 1, {**ENABLED, **named}) == 0


def send(bootstrap: str, topic: str, due: dict[str, int], **settings: object) -> dict[str, int]:
    """Send values that are due at these times; the offsets that are told."""
    told: dict[str, int] = {}
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, **settings}
    )

    def note(error: KafkaError | None, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if error is None and value is not None and offset is not None:
            told[value.decode()] = offset

    for value, at in due.items():
        headers: Headers = [(DELIVER_AT, str(at).encode())]
        producer.produce(topic, value, partition=0, headers=headers, on_delivery=note)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    assert told.keys() == due.keys()
    return told


def receive(
    bootstrap: str, topic: str, count: int, isolation: str = "read_committed"
) -> list[Delivered]:
    """The first `count` records, as they come."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 100,
            "enable.auto.commit": False,  # a node whose disk is full has no groups
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Delivered] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came"
        message = consumer.poll(0.5)
        if message is None or message.error() is not None:
            continue
        value, offset = message.value(), message.offset()
        assert value is not None and offset is not None
        found.append(Delivered(value.decode(), offset, message.timestamp()[1], now_ms()))
    consumer.close()
    return found


def read_all(bootstrap: str, topic: str) -> list[str]:
    """All values that are there now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    while (message := consumer.poll(SECONDS_MAX)) is not None and message.error() is None:
        value = message.value()
        assert value is not None
        found.append(value.decode())
    assert message is not None, "nobody said where the end is"
    consumer.close()
    return found


def spread(count: int, start: int, step_ms: int) -> dict[str, int]:
    """Values and the times at which they are due, one after the other."""
    return {f"value-{number:05}": start + step_ms * number for number in range(count)}


def check_times(found: Iterable[Delivered], due: dict[str, int]) -> list[int]:
    """By how much each was late; none came early, and none twice."""
    late = {one.value: one.delivered_at - due[one.value] for one in found}
    assert len(late) == len(list(found)), "some came twice"
    assert min(late.values()) >= 0, "some came before their time"
    return sorted(late.values())

"""What producers were promised, and what a log must hold because of it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.oracle.nodes import Node

READ_SECONDS_MAX = 120


class Place(NamedTuple):
    """A partition."""

    topic: str
    number: int


class Sender:
    """An idempotent producer that numbers its records and remembers every acknowledgement."""

    def __init__(self, name: str, node: Node, places: list[Place], codec: str) -> None:
        self.name = name
        self.places = places
        self.acknowledged: dict[tuple[Place, bytes], int] = {}
        self.failures: list[str] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": node.bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 2,
                "message.timeout.ms": 300_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "log_level": 0,
                "error_cb": self._on_error,
            }
        )
        self._thread = threading.Thread(target=self._send, name=name)

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds_max: float) -> None:
        """Stop sending, and wait until everything sent is acknowledged."""
        self._stopping.set()
        self._thread.join(seconds_max)
        left = self._producer.flush(seconds_max)
        assert left == 0, f"{self.name} still waits for {left} acknowledgements"

    def _send(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for _ in range(10):
                place = self.places[number % len(self.places)]
                value = b"%s %d " % (self.name.encode(), number) + b"." * (number % 400)
                self._produce(place, value)
                number += 1
            self._producer.poll(0)
            time.sleep(0.01)

    def _produce(self, place: Place, value: bytes) -> None:
        try:
            self._producer.produce(
                place.topic, value, partition=place.number, on_delivery=self._on_delivery
            )
        except BufferError:
            self._producer.poll(0.1)
            self._produce(place, value)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        place = Place(message.topic(), message.partition())
        self.acknowledged[place, message.value()] = message.offset()

    def _on_error(self, error: KafkaError) -> None:
        # Connections break here all the time; what an idempotent producer cannot survive is fatal.
        if error.fatal():
            self.failures.append(str(error))


def read(node: Node, places: list[Place]) -> dict[Place, dict[int, bytes]]:
    """Every record of every partition, by offset."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "history", "check.crcs": True,
         "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    )  # fmt: skip
    consumer.assign([TopicPartition(place.topic, place.number, 0) for place in places])
    found: dict[Place, dict[int, bytes]] = {place: {} for place in places}
    ended: set[Place] = set()
    deadline = time.monotonic() + READ_SECONDS_MAX
    while len(ended) < len(places):
        assert time.monotonic() < deadline, f"only {ended} were read to their end"
        for message in consumer.consume(10_000, 0.5):
            place = Place(message.topic(), message.partition())
            error = message.error()
            if error is None:
                assert message.offset() not in found[place], "one offset was read twice"
                found[place][message.offset()] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(place)
            else:
                assert error.retriable(), error
    consumer.close()
    return found


def check(senders: list[Sender], found: dict[Place, dict[int, bytes]]) -> None:
    """Nothing acknowledged is lost or moved, nothing stands twice, each sender's order holds."""
    for sender in senders:
        assert sender.failures == []
        for (place, value), offset in sender.acknowledged.items():
            stored = found[place].get(offset)
            assert stored == value, (
                f"{place} at {offset}: expected {value[:20]!r}, found {stored!r}"
            )
    for place, records in found.items():
        assert sorted(records) == list(range(len(records))), f"{place} has holes"
        assert len(set(records.values())) == len(records), f"{place} holds a value twice"
        numbers: dict[bytes, list[int]] = defaultdict(list)
        for _, value in sorted(records.items()):
            name, number, _ = value.split(b" ", 2)
            numbers[name].append(int(number))
        for name, sequence in numbers.items():
            assert sequence == sorted(sequence), f"{name!r} is out of order in {place}"

"""Write under load, end the broker with SIGKILL, start it again, and count what is there.

Run it with `make demo`. It needs nothing but Penstock: a broker in a process of its own, and the
same client library that applications use.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from penstock.testing import Broker

TOPIC = "readings"
RECORDS = 200_000
KILLS = 3


class Ledger:
    """What the broker acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: set[bytes] = set()
        self.failed = 0

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        else:
            self.failed += 1


def write(broker: Broker, ledger: Ledger) -> None:
    """Send all records, and kill the broker a few times on the way."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "log_level": 0,
            "message.timeout.ms": 60_000,
        }
    )
    every = RECORDS // (KILLS + 1)
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(TOPIC, b"reading %d" % number, on_delivery=ledger.delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        if number and number % every == 0 and number < every * (KILLS + 1):
            broker.kill()
            began = time.perf_counter()
            broker.start()
            say(f"killed with -9 at record {number:,}; back in {_ms(began)} ms")
    left = producer.flush(60)
    say(f"{len(ledger.acknowledged):,} acknowledged, {ledger.failed:,} failed, {left:,} unsent")


def count(broker: Broker) -> Counter[bytes]:
    """Read the topic from its beginning to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "demo",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: Counter[bytes] = Counter()
    deadline = time.monotonic() + 60
    while sum(found.values()) < end and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 1):
            if message.error() is None:
                found[message.value()] += 1
    consumer.close()
    return found


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _ms(began: float) -> int:
    return round((time.perf_counter() - began) * 1000)


def main() -> int:
    began = time.perf_counter()
    with Broker() as broker:
        say(f"a broker on {broker.bootstrap_servers}, ready in {_ms(began)} ms")
        ledger = Ledger()
        write(broker, ledger)
        found = count(broker)
    lost = len(ledger.acknowledged - found.keys())
    doubled = sum(1 for times in found.values() if times > 1)
    print(f"written {RECORDS:,}, acknowledged {len(ledger.acknowledged):,}, found {len(found):,}")
    print(f"lost {lost:,}, doubled {doubled:,}")
    return 0 if not lost and not doubled and found else 1


if __name__ == "__main__":
    sys.exit(main())

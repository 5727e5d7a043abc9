"""Write a few records and read them back, with an ordinary Kafka client.

    penstock up                                   # in one terminal
    python examples/produce_consume.py            # in another

Any Kafka client works; this one is confluent-kafka. Without a broker at hand, `--embedded` starts
one for the occasion.
"""

from __future__ import annotations

import argparse

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker

TOPIC = "greetings"
GREETINGS = {"en": "hello", "fr": "bonjour", "hu": "szia", "sw": "jambo"}


def run(bootstrap: str) -> list[str]:
    """Produce, consume, and tell what was read."""
    create_topic(bootstrap)
    offsets = produce(bootstrap)
    return consume(bootstrap, first=min(offsets), count=len(offsets))


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if TOPIC not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(TOPIC, num_partitions=1)])[TOPIC].result(10)


def produce(bootstrap: str) -> list[int]:
    """Send the greetings; the offsets at which the broker put them."""
    offsets: list[int] = []

    def on_delivery(error: object, message: object) -> None:
        if error is not None:
            raise RuntimeError(f"not delivered: {error}")
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for language, greeting in GREETINGS.items():
        producer.produce(TOPIC, greeting, key=language, on_delivery=on_delivery)
    producer.flush(10)
    return offsets


def consume(bootstrap: str, first: int, count: int) -> list[str]:
    """Read `count` records of the one partition, beginning at offset `first`."""
    # The partition is assigned by hand, so there is no group whose offsets to commit.
    settings = {"group.id": "example", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(TOPIC, 0, first)])
    greetings: list[str] = []
    while len(greetings) < count:
        message = consumer.poll(10)
        if message is None:
            raise TimeoutError("nothing came for 10 seconds")
        if message.error() is not None:
            raise RuntimeError(f"not read: {message.error()}")
        greetings.append(f"{message.key().decode()}: {message.value().decode()}")
    consumer.close()
    return greetings


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--bootstrap", default="localhost:9092", metavar="HOST:PORT")
    arguments.add_argument("--embedded", action="store_true", help="start a broker for this run")
    chosen = arguments.parse_args()
    if chosen.embedded:
        with Broker() as broker:
            greetings = run(broker.bootstrap_servers)
    else:
        greetings = run(chosen.bootstrap)
    print("\n".join(greetings))


if __name__ == "__main__":
    main()

"""A test of your own code against a real broker, with Penstock's pytest plugin.

    pip install penstock pytest
    pytest examples/test_word_count.py

Installing Penstock is all the set-up there is: pytest finds the fixtures by itself. The broker
starts once for the whole run, and each test gets a topic of its own.
"""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition


def count_words(bootstrap: str, topic: str, partitions: int = 1) -> Counter[str]:
    """The code under test: how often each word stands in a topic, up to its end."""
    settings = {"group.id": "word-count", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    words: Counter[str] = Counter()
    for partition in range(partitions):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.assign([TopicPartition(topic, partition, 0)])
        while end > 0:
            message = consumer.poll(10)
            assert message is not None, "nothing came for 10 seconds"
            words.update(message.value().decode().split())
            if message.offset() >= end - 1:
                break
    consumer.close()
    return words


@pytest.fixture
def producer(penstock_broker):
    made = Producer({"bootstrap.servers": penstock_broker.bootstrap_servers})
    yield made
    assert made.flush(10) == 0


def test_words_are_counted(penstock_broker, penstock_topic, producer):
    for line in ("the quick brown fox", "the lazy dog"):
        producer.produce(penstock_topic, line)
    producer.flush(10)
    counted = count_words(penstock_broker.bootstrap_servers, penstock_topic)
    assert counted["the"] == 2
    assert counted["fox"] == 1


def test_an_empty_topic_has_no_words(penstock_broker, penstock_topic):
    assert count_words(penstock_broker.bootstrap_servers, penstock_topic) == Counter()


@pytest.mark.penstock_topic(partitions=3)
def test_all_partitions_are_counted(penstock_broker, penstock_topic, producer):
    for partition in range(3):
        producer.produce(penstock_topic, "again", partition=partition)
    producer.flush(10)
    counted = count_words(penstock_broker.bootstrap_servers, penstock_topic, partitions=3)
    assert counted == Counter(again=3)

"""Clients of confluent-kafka that take notes, with a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from penstock.testing.history import History, Outcome, Place, Recorder, check
from penstock.testing.history.confluent import RecordingConsumer, RecordingProducer, read_to_end
from penstock.testing.history.transactions import Fate

PLACES = [Place("t", 0), Place("t", 1)]


@pytest.fixture(scope="module")
def config() -> Iterator[dict[str, Any]]:
    with Broker({"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture(autouse=True)
def topic(config: dict[str, Any]) -> Iterator[None]:
    admin = AdminClient(config)
    admin.create_topics([NewTopic("t", 2)])["t"].result(10)
    yield
    admin.delete_topics(["t"])["t"].result(10)


def test_sends_and_reads_are_noted(config: dict[str, Any]) -> None:
    writer, reader = Recorder("writer"), Recorder("reader")
    producer = RecordingProducer(config, writer)
    for number in range(10):
        producer.send("t", number % 2, b"value %d" % number)
    assert producer.flush(10) == 0
    found = read_to_end(config, PLACES, reader)
    history = History.of(writer, reader)
    check(history)
    assert found[PLACES[1]] == {at: b"value %d" % (2 * at + 1) for at in range(5)}
    assert [send.offset for send in history.sends] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert all(send.is_ok and send.began < send.ended for send in history.sends)
    assert {marks.high_watermark for marks in history.marks} == {5}


def test_a_send_that_cannot_have_arrived_failed(config: dict[str, Any]) -> None:
    writer = Recorder("writer")
    producer = RecordingProducer({**config, "message.max.bytes": 1000}, writer)
    with pytest.raises(KafkaException):
        producer.send("t", 0, b"x" * 2000)
    producer.send("t", 9, b"a partition that is not there")
    producer.flush(10)
    assert [send.outcome for send in History.of(writer).sends] == [Outcome.FAILED] * 2


def test_a_send_that_timed_out_is_unknown(config: dict[str, Any]) -> None:
    writer = Recorder("writer")
    nobody = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 100}
    producer = RecordingProducer(nobody, writer)
    producer.send("t", 0, b"into the void")
    producer.flush(5)
    assert [send.outcome for send in History.of(writer).sends] == [Outcome.UNKNOWN]


def test_transactions_are_noted_with_their_ends(config: dict[str, Any]) -> None:
    writer, reader = Recorder("writer"), Recorder("reader")
    producer = RecordingProducer({**config, "transactional.id": "id"}, writer)
    producer.init_transactions()
    for label, end in (("good", producer.commit_transaction), ("bad", producer.abort_transaction)):
        producer.begin_transaction()
        for place in PLACES:
            producer.send(place.topic, place.partition, f"{label} {place}".encode())
        producer.flush(10)
        end()
    found = read_to_end(config, PLACES, reader)
    history = History.of(writer, reader)
    check(history)
    assert [each.fate for each in history.transactions.values()] == [Fate.COMMITTED, Fate.ABORTED]
    assert found == {place: {0: f"good {place}".encode()} for place in PLACES}


def test_a_member_of_a_group_goes_on_where_it_committed(config: dict[str, Any]) -> None:
    writer, first, second = Recorder("writer"), Recorder("first"), Recorder("second")
    producer = RecordingProducer(config, writer)
    for number in range(20):
        producer.send("t", number % 2, b"value %d" % number)
    assert producer.flush(10) == 0
    member = RecordingConsumer({**config, "group.id": "g"}, first)
    assert member.ask_committed(PLACES) == dict.fromkeys(PLACES, -1)
    member.subscribe(["t"])
    assert len(consume(member, 20)) == 20
    member.commit({PLACES[0]: 4, PLACES[1]: 7})
    member.close()
    member = RecordingConsumer({**config, "group.id": "g"}, second)
    assert member.ask_committed(PLACES) == {PLACES[0]: 4, PLACES[1]: 7}
    member.subscribe(["t"])
    assert len(consume(member, 9)) == 9
    member.close()
    history = History.of(writer, first, second)
    check(history)
    assert {poll.start for poll in History.of(second).polls} >= {4, 7}


def consume(member: RecordingConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(100):
        found += member.consume(seconds=0.1)
        if len(found) >= count:
            break
    return found


def test_trouble_that_concerns_no_partition_is_raised_after_what_came_with_it(
    config: dict[str, Any],
) -> None:
    class Message:
        def __init__(self, error: KafkaError | None, offset: int | None) -> None:
            self._error, self._offset = error, offset

        def error(self) -> KafkaError | None:
            return self._error

        def topic(self) -> str | None:
            return None if self._offset is None else "t"

        def partition(self) -> int | None:
            return None if self._offset is None else 0

        def offset(self) -> int | None:
            return self._offset

        def value(self) -> bytes:
            return b"value"

    class Consumer:
        def consume(self, *_: object) -> list[Message]:
            return [Message(KafkaError(KafkaError._FATAL), None), Message(None, 0)]

    recorder = Recorder("reader")
    reader = RecordingConsumer(config, recorder)
    reader.consumer.close()
    reader.consumer = Consumer()  # type: ignore[assignment]
    assert len(reader.consume()) == 1
    with pytest.raises(KafkaException):
        reader.consume()
    assert [poll.records for poll in History.of(recorder).polls] == [[(0, "value")]]

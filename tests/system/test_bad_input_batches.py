"""Produce requests whose records are wrong: each refused with Kafka's code, nothing stored."""

from __future__ import annotations

import functools
import gzip
import struct
import time

import cramjam
import pytest

from tests.oracle import wire
from tests.oracle.nodes import Node
from tests.oracle.wire import Produced, Wire

CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_REQUIRED_ACKS = 21
INVALID_TIMESTAMP = 32
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_RECORD = 87

BOMB_BYTES = 256 << 20


GOOD = wire.batch([b"one", b"two", b"three"])


@pytest.fixture
def log(rude: Wire, topic: str) -> str:
    """A topic with one good record, so that offset 1 comes next."""
    assert wire.create_topic(rude, topic) == 0
    assert wire.produce(rude, topic, wire.batch([b"good"])) == Produced(0, 0)
    return topic


def refused(connection: Wire, topic: str, records: bytes, error: int) -> None:
    """The records are refused so, nothing of them is stored, and a good one is stored after."""
    assert wire.produce(connection, topic, records).error == error
    assert wire.produce(connection, topic, wire.batch([b"next"])) == Produced(0, 1)
    assert wire.fetch(connection, topic, 0).high_watermark == 2


def changed(data: bytes, at: int, code: str, value: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(code, out, at, value)
    return bytes(out)


def test_a_flipped_bit_is_found_by_the_crc(rude: Wire, log: str) -> None:
    flipped = changed(GOOD, len(GOOD) - 3, ">B", GOOD[-3] ^ 0x10)
    refused(rude, log, flipped, CORRUPT_MESSAGE)


def test_a_wrong_crc_is_refused(rude: Wire, log: str) -> None:
    refused(rude, log, changed(GOOD, 17, ">I", 0xDEADBEEF), CORRUPT_MESSAGE)


@pytest.mark.parametrize("cut", [1, 20, 50, 75, len(GOOD)])
def test_a_truncated_batch_is_refused(rude: Wire, log: str, cut: int) -> None:
    refused(rude, log, GOOD[:-cut], INVALID_RECORD)


@pytest.mark.parametrize("length", [-1, 0, 13, 48])
def test_a_batch_shorter_than_its_header_is_refused(rude: Wire, log: str, length: int) -> None:
    refused(rude, log, changed(GOOD, 8, ">i", length), CORRUPT_MESSAGE)


def test_a_batch_that_claims_two_gigabytes_is_refused(rude: Wire, log: str) -> None:
    # Kafka overflows here and answers with its unknown error.
    assert wire.produce(rude, log, changed(GOOD, 8, ">i", 2**31 - 1)).error != 0
    assert wire.fetch(rude, log, 0).high_watermark == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_format_is_refused(rude: Wire, log: str, magic: int) -> None:
    refused(rude, log, changed(GOOD, 16, ">b", magic), INVALID_RECORD)


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_an_unknown_format_is_refused(rude: Wire, log: str, magic: int) -> None:
    refused(rude, log, changed(GOOD, 16, ">b", magic), CORRUPT_MESSAGE)


def test_a_batch_larger_than_the_topic_allows_is_refused(rude: Wire, topic: str) -> None:
    assert wire.create_topic(rude, topic, config={"max.message.bytes": "1000"}) == 0
    assert wire.produce(rude, topic, wire.batch([b"good"])) == Produced(0, 0)
    refused(rude, topic, wire.batch([bytes(2000)]), MESSAGE_TOO_LARGE)


def test_a_batch_that_miscounts_its_records_is_refused(rude: Wire, log: str) -> None:
    # The count says 5, the last offset delta 2.
    refused(rude, log, wire.resealed(changed(GOOD, 57, ">i", 5)), INVALID_RECORD)


def test_a_control_batch_from_a_client_is_refused(rude: Wire, log: str) -> None:
    refused(rude, log, wire.resealed(changed(GOOD, 21, ">h", 0x20)), INVALID_RECORD)


def test_an_empty_batch_is_refused(rude: Wire, log: str) -> None:
    refused(rude, log, wire.batch([], count=0), INVALID_RECORD)


def test_two_batches_for_one_partition_are_refused(rude: Wire, log: str) -> None:
    refused(rude, log, GOOD + GOOD, INVALID_RECORD)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(rude: Wire, log: str, codec: int) -> None:
    assert wire.produce(rude, log, wire.batch([b"x"], codec=codec)).error != 0
    assert wire.fetch(rude, log, 0).high_watermark == 1


def test_a_batch_that_does_not_count_from_zero_is_refused(rude: Wire, log: str) -> None:
    refused(rude, log, changed(GOOD, 0, ">q", 77), INVALID_RECORD)


def test_a_record_without_a_key_is_refused_where_keys_are_compacted(rude: Wire, topic: str) -> None:
    assert wire.create_topic(rude, topic, config={"cleanup.policy": "compact"}) == 0
    assert wire.produce(rude, topic, GOOD).error == INVALID_RECORD
    assert wire.fetch(rude, topic, 0).high_watermark == 0


def test_a_producer_with_an_older_epoch_is_fenced(rude: Wire, topic: str) -> None:
    assert wire.create_topic(rude, topic) == 0
    newer, older = (wire.batch([b"x"], producer=(4712, epoch, 0)) for epoch in (3, 2))
    assert wire.produce(rude, topic, newer) == Produced(0, 0)
    assert wire.produce(rude, topic, older).error == INVALID_PRODUCER_EPOCH
    assert wire.fetch(rude, topic, 0).high_watermark == 1


def test_a_timestamp_far_in_the_future_is_refused(rude: Wire, log: str) -> None:
    later = int(time.time() * 1000) + 2 * 3_600_000
    refused(rude, log, wire.batch([b"x"], timestamp=later), INVALID_TIMESTAMP)


def test_a_gap_in_a_producers_sequence_is_refused_and_a_repetition_is_not_stored_twice(
    rude: Wire, topic: str
) -> None:
    assert wire.create_topic(rude, topic) == 0

    def send(sequence: int) -> Produced:
        return wire.produce(rude, topic, wire.batch([b"x"], producer=(4711, 0, sequence)))

    assert [send(0), send(1)] == [Produced(0, 0), Produced(0, 1)]
    assert send(1) == Produced(0, 1)
    assert send(5).error == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(2) == Produced(0, 2)
    assert wire.fetch(rude, topic, 0).high_watermark == 3


def test_an_unknown_partition_is_refused(rude: Wire, log: str) -> None:
    assert wire.produce(rude, log, GOOD, partition=77).error == UNKNOWN_TOPIC_OR_PARTITION
    assert wire.produce(rude, log, GOOD, partition=-1).error == UNKNOWN_TOPIC_OR_PARTITION


def test_impossible_acknowledgements_are_refused(rude: Wire, log: str) -> None:
    body = wire.produce_body(log, GOOD, acks=5)
    answer = rude.call(wire.PRODUCE, wire.PRODUCE_VERSION, body)
    answer.int32(), answer.string(), answer.int32(), answer.int32()
    assert answer.int16() == INVALID_REQUIRED_ACKS
    assert wire.fetch(rude, log, 0).high_watermark == 1


@functools.cache
def bomb(codec: str) -> bytes:
    """A record whose value is 256 MB of nothing, well under a megabyte on the wire."""
    body = b"\x00" + wire.varint(0) + wire.varint(0) + wire.varint(-1) + wire.varint(BOMB_BYTES)
    start = wire.varint(len(body) + BOMB_BYTES + 1) + body
    if codec == "gzip":
        return gzip.compress(start + bytes(BOMB_BYTES + 1), 6)
    return bytes(cramjam.zstd.compress(start + bytes(BOMB_BYTES + 1), 3))


@pytest.mark.parametrize(("codec", "number"), [("gzip", 1), ("zstd", 4)])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_decompression_bomb_does_not_take_the_brokers_memory(
    broker: Node, rude: Wire, topic: str, codec: str, number: int, policy: str
) -> None:
    """Stored as it is or refused, but never unpacked whole."""
    assert wire.create_topic(rude, topic, config={"cleanup.policy": policy}) == 0
    payload = bomb(codec)
    assert len(payload) < 1_000_000
    before = peak_memory_mb(broker.pid)
    answer = wire.produce(rude, topic, wire.batch([], payload=payload, codec=number, count=1))
    assert answer.error in (0, INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE)
    if policy == "compact":
        assert answer.error != 0, "a record without a key cannot be compacted"
    assert peak_memory_mb(broker.pid) - before < 128


def peak_memory_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        [line] = [line for line in file if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024

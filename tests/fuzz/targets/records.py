"""Record batches, as producers and leaders send them, and the codecs inside them."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from penstock.model.errors import ErrorCode
from penstock.records.batch import (
    COMPRESSION_LAST,
    HEAD_SIZE,
    PREFIX_SIZE,
    BatchHead,
    check_batch,
    read_head,
    seal,
)
from penstock.records.compression import DecompressionFailed, compress, decompress
from penstock.records.control import read_marker
from penstock.records.deep import Accepted, RecordRules, Refused, validate
from penstock.records.record import iterate
from penstock.records.varint import InvalidRecord
from tests.fuzz.target import Target

CORPUS = Path(__file__).parents[2] / "data" / "records" / "corpus.json"
UNPACKED_BYTES_MAX = 1 << 16
BATCH_BYTES_MAX = 1 << 20
NOW = 1_700_000_000_000
RULES = (
    RecordRules(keys_required=True, size_max=UNPACKED_BYTES_MAX),
    RecordRules(codec=0, size_max=UNPACKED_BYTES_MAX),
    RecordRules(codec=4, size_max=UNPACKED_BYTES_MAX, before_max_ms=1000, after_max_ms=1000),
    RecordRules(append_time=True, codec=1, size_max=UNPACKED_BYTES_MAX),
)


@functools.cache
def apache_batches() -> tuple[bytes, ...]:
    """Batches that Apache's own code wrote, in all codecs."""
    return tuple(bytes.fromhex(case["batch"]) for case in json.loads(CORPUS.read_text()))


def unpack(data: bytes) -> None:
    """One byte is the codec: what comes out is within the bound, or it is refused."""
    if not data:
        return
    codec = data[0] % 6
    try:
        out = decompress(codec, data[1:], UNPACKED_BYTES_MAX)
    except DecompressionFailed:
        return
    if 0 < codec <= COMPRESSION_LAST:
        assert len(out) <= UNPACKED_BYTES_MAX
        assert decompress(codec, compress(codec, out), UNPACKED_BYTES_MAX) == out


def _packed() -> Iterator[bytes]:
    texts = (b"x", bytes(100), b"The gate and the pipe that take in a stream. " * 40, bytes(60_000))
    for codec in range(1, 5):
        for text in texts:
            yield bytes((codec,)) + compress(codec, text)
        yield bytes((codec,)) + compress(codec, bytes(4 << 20))  # 64 times what is allowed
    yield b"\x01" + zlib.compress(bytes(100))  # zlib's own wrapper, not gzip's
    yield b"\x02" + b"\xff\xff\xff\xff\x0f" + bytes(20)  # raw snappy that claims four gigabytes
    yield b"\x02\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2 + b"\x7f\xff\xff\xff"
    yield b"\x04\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + bytes(20)  # zstd that claims all there is


def produced(data: bytes) -> None:
    """A batch as a producer sends it. The first byte chooses the topic's rules.

    Its checksum is made true first: a fuzzer would never get past it, an attacker does.
    """
    if not data:
        return
    batch = sealed(data[1:])
    head = check_batch(memoryview(batch), 0, len(batch), BATCH_BYTES_MAX)
    if isinstance(head, ErrorCode):
        return
    rules = RULES[data[0] % len(RULES)]
    verdict = validate(memoryview(batch), 0, head, rules, NOW)
    if isinstance(verdict, Refused):
        assert verdict.code != ErrorCode.NONE
        return
    assert isinstance(verdict, Accepted)
    written = batch if verdict.batch is None else verdict.batch
    again = check_batch(memoryview(written), 0, len(written), 2 * BATCH_BYTES_MAX)
    assert isinstance(again, BatchHead)
    assert again.count == head.count == len(list(iterate(written)))


def stored(data: bytes) -> None:
    """A batch as a follower, a loader or a tool meets it: any head, with a true checksum."""
    batch = sealed(data)
    if len(batch) < HEAD_SIZE:
        return
    head = read_head(batch)
    try:
        for record in iterate(batch, size_max=UNPACKED_BYTES_MAX, head=head):
            for name, value in record.headers:
                assert isinstance(name, str)
                assert value is None or len(value) <= UNPACKED_BYTES_MAX
    except (InvalidRecord, DecompressionFailed):
        pass  # that is the answer
    try:
        read_marker(batch, 0, head)
    except InvalidRecord:
        pass  # likewise


def sealed(data: bytes) -> bytearray:
    """A batch with a true checksum, and a true length if there is a whole head."""
    batch = bytearray(data)
    if len(batch) >= HEAD_SIZE:
        length = int.from_bytes(batch[8:12], "big")
        if length == 0:  # an input may leave the length to us, and so be changed in its middle
            batch[8:12] = (len(batch) - PREFIX_SIZE).to_bytes(4, "big")
        seal(batch, 0, len(batch))
    return batch


def small_batches(count: int) -> bytes:
    """Many batches, each no longer than its own length field asks for, one behind the other."""
    one = bytes(8) + (14).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(9)
    return one * count


def _produced() -> Iterator[bytes]:
    for rules in range(len(RULES)):
        for batch in apache_batches():
            yield bytes((rules,)) + bytes(8) + batch[8:]  # a producer counts from zero
            yield bytes((rules,)) + bytes(12) + batch[12:]
    yield b"\x00" + small_batches(5)
    yield b"\x00" + small_batches(4000)


def _stored() -> Iterator[bytes]:
    for batch in apache_batches():
        yield batch
        yield batch[:8] + bytes(4) + batch[12:]


TARGETS = [
    Target("compression", unpack, _packed, memory_base=10 << 20),
    Target("produced_batches", produced, _produced, memory_base=10 << 20),
    Target("stored_batches", stored, _stored, memory_base=10 << 20),
]

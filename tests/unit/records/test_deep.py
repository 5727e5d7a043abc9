from __future__ import annotations

import struct

import pytest

from penstock.model.errors import ErrorCode
from penstock.records.batch import BatchHead, check_batch, read_head, seal
from penstock.records.builder import BatchBuilder
from penstock.records.compression import CODEC_NAMES, compress
from penstock.records.deep import (
    FOREVER,
    RECORD_ERRORS_MAX,
    Accepted,
    RecordRules,
    Refused,
    looks_inside,
    rules_for,
    validate,
)
from penstock.records.record import iterate

NOW = 1_700_000_000_000
HOUR = 3_600_000
KEYED = RecordRules(keys_required=True)


def batch_of(
    *timestamps: int, key: bytes | None = b"key", codec: int = 0, **settings: int
) -> bytearray:
    builder = BatchBuilder(compression=codec, **settings)  # type: ignore[arg-type]
    for number, timestamp in enumerate(timestamps):
        builder.append(key, b"value %d" % number, timestamp, [("h", b"x")])
    return bytearray(builder.build())


def run(batch: bytearray, rules: RecordRules) -> Accepted | Refused:
    head = check_batch(memoryview(batch), 0, len(batch), 1 << 20)
    assert isinstance(head, BatchHead)
    return validate(memoryview(batch), 0, head, rules, NOW)


def content(batch: bytearray) -> list[str]:
    return [f"{record} {record.headers}" for record in iterate(batch)]


def test_topics_without_wishes_take_a_batch_by_its_head() -> None:
    rules = rules_for(
        compacted=False,
        compression="producer",
        append_time=False,
        before_max_ms=FOREVER,
        after_max_ms=HOUR,
    )
    for codec in range(5):
        head = read_head(batch_of(NOW, NOW + HOUR, codec=codec))
        assert not looks_inside(rules, head, NOW)


@pytest.mark.parametrize(
    "rules",
    [
        KEYED,
        RecordRules(codec=3),
        RecordRules(before_max_ms=HOUR),
        RecordRules(after_max_ms=HOUR - 1),
    ],
)
def test_topics_with_wishes_look_inside(rules: RecordRules) -> None:
    assert looks_inside(rules, read_head(batch_of(NOW + HOUR)), NOW)


def test_the_topics_own_codec_needs_no_second_look() -> None:
    assert not looks_inside(RecordRules(codec=3), read_head(batch_of(NOW, codec=3)), NOW)


def test_timestamps_do_not_matter_where_the_broker_sets_them() -> None:
    rules = RecordRules(append_time=True, before_max_ms=0, after_max_ms=0)
    batch = batch_of(NOW - HOUR, NOW + HOUR)
    assert not looks_inside(rules, read_head(batch), NOW)
    assert run(batch, rules) == Accepted(None, NOW + HOUR)


@pytest.mark.parametrize("codec", range(5))
def test_compacted_topics_take_batches_with_keys_as_they_come(codec: int) -> None:
    assert run(batch_of(NOW, NOW + 5, codec=codec), KEYED) == Accepted(None, NOW + 5)


@pytest.mark.parametrize("codec", range(5))
def test_compacted_topics_name_every_record_without_a_key(codec: int) -> None:
    answer = run(batch_of(NOW, NOW, NOW, key=None, codec=codec), KEYED)
    assert isinstance(answer, Refused)
    assert answer.code is ErrorCode.INVALID_RECORD
    assert [fault.index for fault in answer.faults] == [0, 1, 2]


def test_the_faults_of_a_large_batch_are_bounded() -> None:
    answer = run(batch_of(*[NOW] * 5000, key=None), KEYED)
    assert isinstance(answer, Refused)
    assert len(answer.faults) == RECORD_ERRORS_MAX


def test_timestamps_out_of_bounds_are_named() -> None:
    rules = RecordRules(before_max_ms=HOUR, after_max_ms=HOUR)
    batch = batch_of(NOW - HOUR, NOW - HOUR - 1, NOW + HOUR, NOW + HOUR + 1, -1)
    answer = run(batch, rules)
    assert isinstance(answer, Refused)
    assert answer.code is ErrorCode.INVALID_TIMESTAMP
    assert [fault.index for fault in answer.faults] == [1, 3]


@pytest.mark.parametrize("target", CODEC_NAMES)
def test_a_topics_codec_replaces_the_producers(target: str) -> None:
    rules = rules_for(
        compacted=False,
        compression="uncompressed" if target == "none" else target,
        append_time=False,
        before_max_ms=FOREVER,
        after_max_ms=FOREVER,
    )
    for codec, _ in enumerate(CODEC_NAMES):
        batch = batch_of(
            NOW, NOW + 9, codec=codec, producer_id=4, producer_epoch=1, base_sequence=7
        )
        answer = run(batch, rules)
        assert isinstance(answer, Accepted)
        if CODEC_NAMES[codec] == target:
            assert answer.batch is None
            continue
        assert answer.batch is not None
        made = check_batch(memoryview(answer.batch), 0, len(answer.batch), 1 << 20)
        assert isinstance(made, BatchHead)
        assert made.compression == CODEC_NAMES.index(target)
        assert (made.producer_id, made.producer_epoch, made.base_sequence) == (4, 1, 7)
        assert made.max_timestamp == NOW + 9
        assert content(answer.batch) == content(batch)


def test_a_head_that_lies_about_its_youngest_record_is_put_right() -> None:
    batch = batch_of(NOW, NOW + 50)
    struct.pack_into(">q", batch, 35, NOW)
    seal(batch, 0, len(batch))
    answer = run(batch, KEYED)
    assert isinstance(answer, Accepted) and answer.batch is not None
    assert read_head(answer.batch).max_timestamp == answer.max_timestamp == NOW + 50
    assert isinstance(check_batch(memoryview(answer.batch), 0, len(batch), 1 << 20), BatchHead)


def test_offsets_that_skip_within_a_batch_are_put_in_line() -> None:
    builder = BatchBuilder()
    for offset in (0, 2, 5):
        builder.append(b"k%d" % offset, b"v", NOW, offset=offset)
    batch = bytearray(builder.build(last_offset=2))
    answer = run(batch, KEYED)
    assert isinstance(answer, Accepted) and answer.batch is not None
    assert [(r.offset, bytes(r.key or b"")) for r in iterate(answer.batch)] == [
        (0, b"k0"),
        (1, b"k2"),
        (2, b"k5"),
    ]


def test_records_that_cannot_be_read_are_invalid() -> None:
    batch = batch_of(NOW, codec=0)
    batch[-5] ^= 0xFF
    struct.pack_into(">h", batch, 21, 1)  # claims gzip
    seal(batch, 0, len(batch))
    answer = run(batch, KEYED)
    assert isinstance(answer, Refused) and answer.code is ErrorCode.INVALID_RECORD


def test_a_bomb_is_too_large() -> None:
    bomb = batch_of(NOW, codec=0)[:61] + compress(4, bytes(10_000_000))
    struct.pack_into(">i", bomb, 8, len(bomb) - 12)
    struct.pack_into(">h", bomb, 21, 4)
    seal(bomb, 0, len(bomb))
    answer = run(bomb, KEYED._replace(size_max=1 << 20))
    assert isinstance(answer, Refused) and answer.code is ErrorCode.MESSAGE_TOO_LARGE

"""Records as dead letters, and the rules by which they are written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.coordination.delivery.effects import DeadLetter, Reason
from penstock.metadata.configs import TOPIC
from penstock.records.batch import read_head
from penstock.records.builder import BatchBuilder, end_txn_batch
from penstock.records.compression import GZIP
from penstock.records.record import Record, iterate
from penstock.server import dead_letter_writing
from penstock.server.dead_letter_rules import ENABLE, Course, Rules, ruling
from penstock.server.dead_letter_writing import Found, Origin, gone, pack, pick

NOW = 1_700_000_000_000
ORIGIN = Origin("workers", "orders", 3)
LETTER = DeadLetter(0, 9, 5, Reason.DELIVERIES)
LARGE = 1 << 20


# -- rules ----------------------------------------------------------------------------------------


def image_of(*topics: str, enabled: tuple[str, ...] = ()) -> Any:
    """A cluster with these topics, some of which take dead letters."""

    def of(kind: int, name: str) -> dict[str, str]:
        return {ENABLE: "true"} if kind == TOPIC and name in enabled else {}

    by_name = dict.fromkeys(topics)
    return SimpleNamespace(topics=SimpleNamespace(by_name=by_name), configs=SimpleNamespace(of=of))


RULES = Rules("dlq.orders", copies=False, prefix="dlq.", creates=False)

CASES = {
    "all is well": (RULES, image_of("dlq.orders", enabled=("dlq.orders",)), Course.WRITE, ""),
    "any name": (
        RULES._replace(topic="bin", prefix=""),
        image_of("bin", enabled=("bin",)),
        Course.WRITE,
        "",
    ),
    "no topic": (RULES._replace(topic=""), image_of(), Course.ARCHIVE, "has no errors.dead"),
    "missing": (RULES, image_of(), Course.WAIT, "create it with errors.deadletterqueue.group.ena"),
    "missing, to be created": (RULES._replace(creates=True), image_of(), Course.CREATE, ""),
    "not enabled": (RULES, image_of("dlq.orders"), Course.WAIT, "set errors.deadletterqueue.group"),
    "another prefix": (
        RULES._replace(topic="bin", creates=True),
        image_of("bin", enabled=("bin",)),
        Course.WAIT,
        "does not begin with 'dlq.'",
    ),
    "internal": (
        RULES._replace(topic="__consumer_offsets", prefix="", creates=True),
        image_of("__consumer_offsets"),
        Course.WAIT,
        "could be an internal topic",
    ),
    "the source itself": (
        RULES._replace(topic="orders", prefix=""),
        image_of("orders", enabled=("orders",)),
        Course.ARCHIVE,
        "orders is a topic of dead letters itself",
    ),
    "from dead letters to dead letters": (
        RULES,
        image_of("orders", "dlq.orders", enabled=("orders", "dlq.orders")),
        Course.ARCHIVE,
        "orders is a topic of dead letters itself",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rules_say_where_letters_go(case: str) -> None:
    rules, image, course, why = CASES[case]
    ruled = ruling(rules, "orders", image)
    assert ruled.course is course
    assert why in ruled.why
    assert bool(why) == bool(ruled.why), "whoever is refused is told what to do"


# -- picking --------------------------------------------------------------------------------------


def batch(first: int, count: int, **options: Any) -> bytes:
    builder = BatchBuilder(base_offset=first, **options)
    for offset in range(first, first + count):
        builder.append(b"k%d" % offset, b"v%d" % offset, NOW, [("h", b"x")], offset)
    return builder.build()


def offsets_of(found: list[Found]) -> list[tuple[int, bool]]:
    return [(it.offset, it.record is not None) for it in found]


def test_records_are_picked_over_batches() -> None:
    data = memoryview(batch(0, 4) + batch(4, 4, compression=GZIP) + batch(8, 4))
    found, after = pick(data, 2, 8)
    assert offsets_of(found) == [(offset, True) for offset in range(2, 9)]
    assert after == 12
    assert [bytes(it.record.value or b"") for it in found if it.record][:2] == [b"v2", b"v3"]


def test_what_was_deleted_has_letters_without_records_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letter_writing, "GONE_MAX", 3)
    found, after = gone(2, 2**31)
    assert (offsets_of(found), after) == ([(2, False), (3, False), (4, False)], 5)
    assert gone(5, 6)[1] == 7


def test_markers_and_gaps_have_none() -> None:
    marker = bytearray(
        end_txn_batch(
            is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
        )
    )
    marker[:8] = (4).to_bytes(8, "big")
    found, after = pick(memoryview(batch(2, 2) + bytes(marker) + batch(7, 2)), 2, 8)
    assert offsets_of(found) == [(2, True), (3, True), (7, True), (8, True)]
    assert after == 9


def test_a_slice_that_is_cut_goes_on_where_it_was_cut() -> None:
    data = batch(0, 2) + batch(2, 2)
    found, after = pick(memoryview(data)[:-1], 0, 3)
    assert (offsets_of(found), after) == ([(0, True), (1, True)], 2)
    with pytest.raises(OSError, match="no whole batch at offset 0"):
        pick(memoryview(data)[:70], 0, 3)


def test_records_that_cannot_be_read_have_letters_all_the_same() -> None:
    broken = bytearray(batch(0, 3))
    broken[-10:] = b"\xff" * 10
    found, after = pick(memoryview(broken), 0, 2)
    assert sorted(it.offset for it in found) == [0, 1, 2]
    assert found[-1].record is None
    assert after == 3


def test_no_more_is_opened_than_may_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_writing, "PICKED_BYTES_MAX", 1)
    found, after = pick(memoryview(batch(0, 2) + batch(2, 2)), 0, 3)
    assert (offsets_of(found), after) == ([(0, True), (1, True)], 2)


# -- packing --------------------------------------------------------------------------------------


def records_of(packed: bytes) -> list[Record]:
    return list(iterate(memoryview(packed)))


def packed(*found: Found, copies: bool = True, bytes_max: int = LARGE) -> list[Record]:
    batches = pack(found, LETTER, ORIGIN, copies=copies, now=NOW, bytes_max=bytes_max)
    return [record for each in batches for record in records_of(each)]


def one(**fields: Any) -> Found:
    builder = BatchBuilder(base_offset=7)
    builder.append(
        fields.get("key", b"k"), fields.get("value", b"v"), NOW, fields.get("headers", [])
    )
    return Found(7, next(iterate(memoryview(builder.build()))))


TOLD = {
    "__dlq.errors.topic": b"orders",
    "__dlq.errors.partition": b"3",
    "__dlq.errors.offset": b"7",
    "__dlq.errors.group": b"workers",
    "__dlq.errors.delivery.count": b"5",
    "__dlq.errors.message": b"The record was delivered as often as the group allows.",
    "penstock-dlq-reason": b"deliveries",
    "penstock-dlq-time": b"%d" % NOW,
}


def test_a_letter_has_the_record_and_what_went_wrong() -> None:
    (record,) = packed(one(headers=[("trace", b"1"), ("trace", b"2")]))
    assert (bytes(record.key or b""), bytes(record.value or b"")) == (b"k", b"v")
    assert record.headers[:2] == [("trace", b"1"), ("trace", b"2")]
    assert dict(record.headers[2:]) == TOLD
    assert record.timestamp == NOW


def test_headers_of_an_earlier_death_go() -> None:
    (record,) = packed(one(headers=[("__dlq.errors.offset", b"99"), ("penstock-dlq-reason", b"x")]))
    assert dict(record.headers) == TOLD
    assert len(record.headers) == len(TOLD)


@pytest.mark.parametrize("found", [one(), Found(7, None)])
def test_without_a_copy_the_headers_say_so(found: Found) -> None:
    (record,) = packed(found, copies=False)
    assert (record.key, record.value) == (None, None)
    assert dict(record.headers) == TOLD | {"penstock-dlq-copied": b"false"}


def test_null_keys_and_values_stay_null() -> None:
    (record,) = packed(one(key=None, value=None))
    assert (record.key, record.value) == (None, None)
    assert "penstock-dlq-copied" not in dict(record.headers)


def test_a_record_that_is_too_large_has_headers_alone() -> None:
    small, large = packed(one(), one(value=bytes(2_000)), bytes_max=1_500)
    assert small.value is not None
    assert large.value is None
    assert dict(large.headers)["penstock-dlq-copied"] == b"false"


def test_batches_stay_below_their_bound() -> None:
    found = [one(value=bytes(300))] * 20
    batches = list(pack(found, LETTER, ORIGIN, copies=True, now=NOW, bytes_max=2_500))
    assert 1 < len(batches) <= 20
    assert all(len(each) <= 2_500 for each in batches)
    assert sum(read_head(memoryview(each), 0).count for each in batches) == 20


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_word(reason: Reason) -> None:
    letter = LETTER._replace(reason=reason)
    (packed_batch,) = pack([one()], letter, ORIGIN, copies=True, now=NOW, bytes_max=LARGE)
    headers = dict(records_of(packed_batch)[0].headers)
    assert headers["penstock-dlq-reason"] == reason.name.lower().encode()

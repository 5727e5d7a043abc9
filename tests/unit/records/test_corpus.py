"""Batches that Apache Kafka's own builder wrote, read and written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.records.batch import BatchHead, crc_of, read_head
from penstock.records.builder import BatchBuilder, control_batch, empty_batch, end_txn_batch
from penstock.records.compression import CODEC_NAMES
from penstock.records.control import control_type, read_marker
from penstock.records.record import iterate

CORPUS = json.loads(
    (Path(__file__).parents[2] / "data" / "records" / "corpus.json").read_text(encoding="utf-8")
)
BATCHES = {case["name"]: bytes.fromhex(case["batch"]) for case in CORPUS}
BUILT = [case for case in CORPUS if case["settings"]]


def named(case: dict[str, Any]) -> str:
    return str(case["name"])


def raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def build(case: dict[str, Any]) -> bytes:
    settings = dict(case["settings"])
    codec = CODEC_NAMES.index(settings.pop("codec"))
    last_offset = settings.pop("last_offset")
    for optional in ("append_time", "delete_horizon"):
        if settings[optional] < 0:
            del settings[optional]
    builder = BatchBuilder(compression=codec, **settings)
    for row in case["records"]:
        headers = [(key, raw(value)) for key, value in row["headers"]]
        builder.append(
            raw(row["key"]), raw(row["value"]), row["timestamp"], headers, offset=row["offset"]
        )
    return builder.build(last_offset if last_offset >= 0 else None)


@pytest.mark.parametrize("case", CORPUS, ids=named)
def test_the_checksum_of_apaches_batches_is_true(case: dict[str, Any]) -> None:
    batch = bytes.fromhex(case["batch"])
    head = read_head(batch)
    assert head.crc == crc_of(batch, 0, len(batch))
    assert head.size == len(batch)


@pytest.mark.parametrize("case", CORPUS, ids=named)
def test_apaches_records_are_read_as_they_were_written(case: dict[str, Any]) -> None:
    batch = bytes.fromhex(case["batch"])
    head = read_head(batch)
    read = list(iterate(batch))
    assert len(read) == len(case["records"]) == head.count
    for record, row in zip(read, case["records"], strict=True):
        assert record.offset == row["offset"]
        assert record.timestamp == (head.max_timestamp if head.is_append_time else row["timestamp"])
        assert record.key == raw(row["key"])
        assert record.value == raw(row["value"])
        assert record.headers == [(key, raw(value)) for key, value in row["headers"]]


@pytest.mark.parametrize(
    "case", [case for case in BUILT if case["settings"]["codec"] == "none"], ids=named
)
def test_the_builder_writes_apaches_bytes(case: dict[str, Any]) -> None:
    assert build(case).hex() == case["batch"]


@pytest.mark.parametrize(
    "case", [case for case in BUILT if case["settings"]["codec"] != "none"], ids=named
)
def test_the_builder_compresses_to_the_same_head_and_records(case: dict[str, Any]) -> None:
    def gist(batch: bytes) -> tuple[BatchHead, list[str]]:
        return read_head(batch)._replace(crc=0, length=0), [repr(r) for r in iterate(batch)]

    assert gist(build(case)) == gist(bytes.fromhex(case["batch"]))


@pytest.mark.parametrize("is_commit", [True, False])
def test_transaction_markers_have_apaches_bytes(is_commit: bool) -> None:
    marker = end_txn_batch(
        is_commit=is_commit,
        producer_id=77,
        producer_epoch=5,
        coordinator_epoch=9,
        timestamp=1_700_000_000_000,
        base_offset=42,
        leader_epoch=3,
    )
    assert marker == BATCHES["commit" if is_commit else "abort"]
    read = read_marker(marker, 0, read_head(marker))
    assert read is not None and read == (is_commit, 9)


@pytest.mark.parametrize(
    "name", ["leader change", "snapshot header", "snapshot footer", "kraft version", "voters"]
)
def test_control_batches_of_the_metadata_log_have_apaches_bytes(name: str) -> None:
    (case,) = (case for case in CORPUS if case["name"] == name)
    records = [
        (control_type(bytes.fromhex(row["key"])), bytes.fromhex(row["value"]))
        for row in case["records"]
    ]
    built = control_batch(records, 1_700_000_000_000, base_offset=11, leader_epoch=2)
    assert built == BATCHES[name]
    assert read_marker(built, 0, read_head(built)) is None


def test_an_emptied_batch_has_apaches_bytes() -> None:
    head = BatchHead(100, 900, 3, 2, 0, 0x13, 4, 55, 1_700_000_000_000, 77, 5, 10, 5)
    assert empty_batch(head) == BATCHES["empty"]

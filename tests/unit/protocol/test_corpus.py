"""What Apache's own classes write is what ours write, field by field and byte by byte."""

from __future__ import annotations

import functools
from typing import NamedTuple

import pytest

from codegen.own import MODULES as OWN
from penstock.model.errors import ErrorCode
from penstock.protocol import record_frames
from penstock.protocol.message import Message
from penstock.protocol.registry import API
from tests.unit.protocol.catalogue import CORPUS, Entry, catalogue
from tests.unit.protocol.filling import Fill


def apaches() -> dict[str, Entry]:
    """All messages but those that are Penstock's alone."""
    return {name: entry for name, entry in catalogue().items() if entry.module not in OWN}


class Sample(NamedTuple):
    version: int
    fill: str
    raw: bytes


@functools.cache
def _lines() -> list[list[str]]:
    return [line.split(" ") for line in CORPUS.read_text().splitlines()]


@functools.cache
def _samples() -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {}
    for name, version, fill, text in _lines():
        if version.isdigit():
            sample = Sample(int(version), fill, bytes.fromhex(text))
            samples.setdefault(name, []).append(sample)
    return samples


def _framed(kind: str) -> list[tuple[str, int, bytes]]:
    return [
        (name, int(version), bytes.fromhex(text))
        for first, name, version, text in _lines()
        if first == kind
    ]


def _made(entry: Entry, sample: Sample) -> Message:
    if sample.fill == "bare":
        return entry.cls()
    message: Message = Fill(entry, sample.version, nulls=sample.fill == "nulls").message()
    return message


def test_the_corpus_holds_every_message_in_every_version() -> None:
    expected = {
        name: {(version, fill) for version in entry.cls.VERSIONS for fill in ("full", "nulls")}
        for name, entry in apaches().items()
    }
    found = {
        name: {(it.version, it.fill) for it in samples if it.fill != "bare"}
        for name, samples in _samples().items()
    }
    assert found == expected
    assert len(found) > 250


@pytest.mark.parametrize("name", sorted(apaches()))
def test_the_same_object_gives_the_bytes_that_apache_writes(name: str) -> None:
    entry = catalogue()[name]
    for sample in _samples()[name]:
        assert _made(entry, sample).encode(sample.version).hex() == sample.raw.hex(), sample[:2]


@pytest.mark.parametrize("name", sorted(apaches()))
def test_what_apache_wrote_is_read_back_as_the_object_it_came_from(name: str) -> None:
    entry = catalogue()[name]
    for sample in _samples()[name]:
        message, end = entry.cls.read(sample.raw, sample.version)
        assert end == len(sample.raw), sample[:2]
        assert message == _made(entry, sample), sample[:2]
        assert message.encode(sample.version) == sample.raw, sample[:2]


def test_error_codes_have_apaches_names_and_are_retried_alike() -> None:
    theirs = {(name, int(code), kind) for first, name, code, kind in _lines() if first == "error"}
    ours = {(it.name, it.value, "retriable" if it.retriable else "final") for it in ErrorCode}
    assert ours == theirs


def test_every_error_has_a_message_of_its_own() -> None:
    assert len({it.message for it in ErrorCode}) == len(ErrorCode)
    assert all(it.message.endswith(".") for it in ErrorCode)


def test_headers_have_the_versions_that_apache_gives_them() -> None:
    theirs = {
        name: (int(request), int(response))
        for first, name, request, response in _lines()
        if first == "header"
    }
    ours = {
        f"{spec.name}/{version}": (
            spec.request_header_version(version),
            spec.response_header_version(version),
        )
        for spec in API.values()
        for version in spec.codec_versions
        if spec.module not in OWN
    }
    assert ours == theirs


def test_metadata_records_have_the_frames_that_apache_writes() -> None:
    frames = _framed("frame")
    assert len(frames) >= 26
    for name, version, raw in frames:
        record = Fill(catalogue()[name], version, nulls=False).message()
        assert record_frames.write_frame(record, version) == raw
        assert record_frames.read_frame(raw) == (record, version)


def _coordinator(name: str) -> record_frames.CoordinatorFrames:
    return {
        "group_records": record_frames.GROUP,
        "share_records": record_frames.SHARE,
        "transaction_records": record_frames.TRANSACTION,
    }[catalogue()[name].module]


def test_coordinator_keys_start_with_the_type_of_the_record() -> None:
    keys = _framed("key")
    assert len(keys) >= 20
    for name, version, raw in keys:
        key = Fill(catalogue()[name], version, nulls=False).message()
        assert _coordinator(name).write_key(key) == raw
        assert _coordinator(name).read_key(raw) == key


def test_coordinator_values_start_with_their_version() -> None:
    values = _framed("value")
    assert len(values) >= 20
    for name, version, raw in values:
        value = Fill(catalogue()[name], version, nulls=False).message()
        assert _coordinator(name).write_value(value, version) == raw
        assert _coordinator(name).read_value(value.API_KEY, raw) == (value, version)

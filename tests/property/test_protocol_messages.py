"""Every message in every version: what is written is read, and nothing else breaks the reader."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.protocol.message import Message
from penstock.protocol.primitives import ProtocolError
from tests.unit.protocol.catalogue import Entry, catalogue
from tests.unit.protocol.filling import Fill
from tests.unit.protocol.strategies import messages

ALL = sorted(catalogue())
QUICK = settings(
    max_examples=8,  # of each of 272 messages: together they are thousands
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

HUGE = (
    b"\xff\xff\xff\xff\x07",  # the greatest count that a varint may hold
    b"\xff\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\x7f\xff",
)


def _full(entry: Entry, version: int) -> bytes:
    message: Message = Fill(entry, version, nulls=False).message()
    return message.encode(version)


def _read_or_refuse(cls: type[Message], raw: bytes, version: int) -> Message | None:
    """Any exception but ProtocolError fails the test that calls this."""
    try:
        message, end = cls.read(raw, version)
    except ProtocolError:
        return None
    assert end <= len(raw)
    return message


@pytest.mark.parametrize("name", ALL)
@QUICK
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, data: st.DataObject) -> None:
    entry = catalogue()[name]
    version = data.draw(st.sampled_from(entry.cls.VERSIONS))
    message: Any = data.draw(messages(entry, version))
    raw = message.encode(version)
    assert entry.cls.read(b"before" + raw + b"behind", version, 6) == (message, 6 + len(raw))


@pytest.mark.parametrize("name", ALL)
def test_no_message_can_be_read_from_a_part_of_its_bytes(name: str) -> None:
    entry = catalogue()[name]
    for version in entry.cls.VERSIONS:
        raw = _full(entry, version)
        step = max(1, len(raw) // 50)
        for end in {*range(0, len(raw), step), *range(max(0, len(raw) - 8), len(raw))}:
            with pytest.raises(ProtocolError):
                entry.cls.read(raw[:end], version)


@pytest.mark.parametrize("name", ALL)
@QUICK
@given(data=st.data())
def test_changed_bytes_are_read_or_refused(name: str, data: st.DataObject) -> None:
    entry = catalogue()[name]
    version = data.draw(st.sampled_from(entry.cls.VERSIONS))
    raw = bytearray(_full(entry, version))
    places = st.integers(0, max(0, len(raw) - 1))
    for at, new in data.draw(
        st.lists(st.tuples(places, st.binary(min_size=1, max_size=6)), min_size=1, max_size=4)
    ):
        raw[at : at + len(new)] = new
    message = _read_or_refuse(entry.cls, bytes(raw), version)
    if message is not None:
        again = message.encode(version)
        assert entry.cls.read(again, version)[0].encode(version) == again


@settings(max_examples=300, database=None)
@given(name=st.sampled_from(ALL), raw=st.binary(max_size=300), data=st.data())
def test_noise_is_read_or_refused(name: str, raw: bytes, data: st.DataObject) -> None:
    cls = catalogue()[name].cls
    _read_or_refuse(cls, raw, data.draw(st.sampled_from(cls.VERSIONS)))


@pytest.mark.parametrize("name", ALL)
def test_a_huge_count_anywhere_allocates_no_more_than_the_input_justifies(name: str) -> None:
    entry = catalogue()[name]
    version = entry.cls.VERSIONS[-1]
    raw = _full(entry, version)
    tampered = [
        raw[:at] + huge + raw[at + len(huge) :]
        for at in range(0, len(raw), max(1, len(raw) // 30))
        for huge in HUGE
    ]
    tracemalloc.start()
    try:
        for each in tampered:
            _read_or_refuse(entry.cls, each, version)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000 + 200 * len(raw)

from __future__ import annotations

import pytest

from penstock.protocol.generated.group_records import OffsetCommitKey
from penstock.protocol.generated.metadata_records import NoOpRecord, TopicRecord
from penstock.protocol.generated.transaction_records import TransactionLogKey
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.record_frames import (
    GROUP,
    TRANSACTION,
    UnknownRecordType,
    read_frame,
    write_frame,
)


def test_a_metadata_record_starts_with_frame_type_and_version() -> None:
    record = TopicRecord(name="t", topic_id=bytes(range(16)))
    raw = write_frame(record, 0)
    assert raw[:3] == bytes((1, 2, 0))
    assert read_frame(raw) == (record, 0)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "cut short"),
        (b"\x01\x02", "cut short"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x02\x09", "has versions"),
        (write_frame(NoOpRecord(), 0) + b"more", "4 bytes follow"),
    ],
)
def test_a_frame_that_is_none_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        read_frame(raw)


def test_a_record_of_an_unknown_type_can_be_told_from_a_broken_one() -> None:
    with pytest.raises(UnknownRecordType, match="type 99"):
        read_frame(b"\x01\x63\x00")
    with pytest.raises(UnknownRecordType, match="type 99"):
        GROUP.read_key(b"\x00\x63")
    with pytest.raises(UnknownRecordType, match="type 99"):
        GROUP.read_value(99, b"\x00\x00")


def test_the_same_type_means_another_record_to_another_coordinator() -> None:
    key = TransactionLogKey(transactional_id="x")
    raw = TRANSACTION.write_key(key)
    assert raw[:2] == b"\x00\x00"
    assert TRANSACTION.read_key(raw) == key
    assert GROUP.write_key(OffsetCommitKey(group="g", topic="t"))[:2] == b"\x00\x01"


def test_short_coordinator_records_are_refused() -> None:
    for raw in (b"", b"\x00", b"\x00\x01", b"\x00\x01\x00"):
        with pytest.raises(ProtocolError):
            GROUP.read_key(raw)
    with pytest.raises(ProtocolError):
        GROUP.read_value(2, b"")

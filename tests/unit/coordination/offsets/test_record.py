"""The short form of an offset's record is the general form of the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.effects import NewRecord
from penstock.coordination.group.offsets.record import OffsetRecord
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.record_frames import GROUP
from tests.unit.coordination.offsets.desk import Desk

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=300)
int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
records = st.builds(
    OffsetRecord,
    names,
    names,
    int32,
    int64,
    int32,
    int64,
    st.binary(min_size=16, max_size=16).filter(any),
)


@given(records)
def test_its_bytes_are_those_of_its_key_and_value(record: OffsetRecord) -> None:
    general = NewRecord(record.key, record.value, record.version)
    assert record.encode(GROUP) == general.encode(GROUP)


@given(records, st.sampled_from([-1, 7]), st.booleans())
def test_replaying_it_changes_what_its_key_and_value_would_change(
    record: OffsetRecord, producer_id: int, is_commit: bool
) -> None:
    found = []
    for each in (record, NewRecord(record.key, record.value, record.version)):
        shard = Desk().shard
        each.replay(shard, 5, producer_id)
        is_pending = shard.offsets.is_pending(record.group, record.topic, record.partition)
        shard.replay_end_txn(producer_id, 0, is_commit)
        kept = shard.offsets.find(record.group, record.topic, record.partition)
        found.append((is_pending, kept, list(shard.groups)))
    assert found[0] == found[1]
    assert (found[0][1] is None) == (producer_id == 7 and not is_commit)


def test_a_name_too_long_for_the_log_is_noticed() -> None:
    record = OffsetRecord("g" * 40_000, "t", 0, 1, -1, 0, b"i" * 16)
    with pytest.raises(ProtocolError):
        record.encode(GROUP)

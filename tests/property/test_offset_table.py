"""Committed offsets under any order of commits, tombstones and markers.

Two things are said: the table is what a slow and simple account of the log makes of it, and the
short cut that loading takes leads to the same table as the ordinary way.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.group.offsets.committed import unpack
from penstock.coordination.group.offsets.table import OffsetTable
from penstock.protocol.generated.group_records import OffsetCommitKey, OffsetCommitValue
from penstock.protocol.record_frames import GROUP
from tests.unit.coordination.offsets.desk import Desk

PRODUCERS = (1, 2, 3)

groups = st.sampled_from(("g", "a longer name", "ü"))
topics = st.sampled_from(("t", "u"))
partitions = st.integers(0, 2)
places = st.tuples(groups, topics, partitions)

commits = st.tuples(
    st.just("commit"),
    places,
    st.integers(0, 1 << 60),
    st.one_of(st.just(-1), st.sampled_from(PRODUCERS)),
    st.sampled_from(("", "", "note", "né")),
    st.sampled_from((1, 3, 4, 4)),
)
tombstones = st.tuples(st.just("forget"), places)
markers = st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans())
histories = st.lists(st.one_of(commits, tombstones, markers), max_size=60)


class Account:
    """What counts, from the log alone: each commit with its record's place, and no short cuts."""

    def __init__(self) -> None:
        self.counted: dict[Any, tuple[int, int]] = {}
        self.pending: dict[int, dict[Any, tuple[int, int]]] = {}

    def commit(self, at: int, place: Any, offset: int, producer_id: int) -> None:
        if producer_id < 0:
            self.counted[place] = at, offset
        else:
            self.pending.setdefault(producer_id, {})[place] = at, offset

    def forget(self, place: Any) -> None:
        for kept in (self.counted, *self.pending.values()):
            kept.pop(place, None)

    def end(self, producer_id: int, is_commit: bool) -> None:
        for place, (at, offset) in self.pending.pop(producer_id, {}).items():
            if is_commit and self.counted.get(place, (-1, 0))[0] < at:
                self.counted[place] = at, offset


@given(histories)
def test_the_table_is_what_a_simple_account_of_the_log_makes_of_it(history: list[Any]) -> None:
    desk, account = Desk(), Account()
    for at, (what, *how) in enumerate(history):
        if what == "commit":
            place, offset, producer_id, metadata, version = how
            key, value = record(place, offset, metadata, version)
            desk.shard.replay(at, key, value, producer_id)
            account.commit(at, place, offset, producer_id)
        elif what == "forget":
            desk.shard.replay(at, record(how[0], 0, "", 4)[0], None, -1)
            account.forget(how[0])
        else:
            desk.shard.replay_end_txn(how[0], 0, how[1])
            account.end(*how)
        assert offsets_of(desk.shard.offsets) == {
            place: offset for place, (_, offset) in account.counted.items()
        }
        waiting = {place for kept in account.pending.values() for place in kept}
        for place in {*waiting, ("g", "t", 0)}:
            assert desk.shard.offsets.is_pending(*place) == (place in waiting)
        assert desk.shard.offsets.any_open == bool(waiting)


@given(histories)
def test_the_short_cut_of_loading_leads_to_the_same_table(history: list[Any]) -> None:
    slow, fast = Desk(), Desk()
    quick = fast.shard.quick_replay()
    taken = False
    for at, (what, *how) in enumerate(history):
        if what == "end":
            for desk in (slow, fast):
                desk.shard.replay_end_txn(how[0], 0, how[1])
            continue
        place, offset, producer_id, metadata, version = (
            how if what == "commit" else (*how, 0, -1, "", 4)
        )
        key, value = record(place, offset, metadata, version)
        content = value if what == "commit" else None
        slow.shard.replay(at, key, content, producer_id)
        raw = None if content is None else memoryview(GROUP.write_value(content, version))
        if producer_id < 0 and quick.replay(memoryview(GROUP.write_key(key)), raw):
            taken = True
            assert what == "commit" and version >= 3 and not metadata
        else:
            fast.shard.replay(at, key, content, producer_id)
            quick.forget()
    assert fast.shard.offsets.by_group == slow.shard.offsets.by_group
    assert fast.shard.groups.keys() == slow.shard.groups.keys()
    plain = [it for it in history if it[0] == "commit" and it[3] < 0 and not it[4] and it[5] > 2]
    if len(plain) == len(history) > 0:
        assert taken, "the short cut takes none of the records that it is made for"


@given(st.binary(max_size=80), st.binary(max_size=50))
def test_the_short_cut_leaves_strange_bytes_to_the_ordinary_way(key: bytes, value: bytes) -> None:
    desk = Desk()
    known = GROUP.write_key(OffsetCommitKey(group="g", topic="t", partition=1))
    if key != known:
        desk.shard.quick_replay().replay(memoryview(key), memoryview(value))
        assert ("g", "t", 1) not in offsets_of(desk.shard.offsets)


def record(
    place: tuple[str, str, int], offset: int, metadata: str, version: int
) -> tuple[OffsetCommitKey, OffsetCommitValue]:
    group, topic, partition = place
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    value = OffsetCommitValue(
        offset=offset,
        metadata=metadata,
        commit_timestamp=offset + 1,
        expire_timestamp=offset + 2 if version == 1 else -1,
        leader_epoch=5 if version >= 3 else -1,
        topic_id=b"t" * 16 if version >= 4 else bytes(16),
    )
    return key, value


def offsets_of(table: OffsetTable) -> dict[Any, int]:
    return {
        (group, topic, partition): unpack(packed).offset
        for group, by_topic in table.by_group.items()
        for topic, by_partition in by_topic.items()
        for partition, packed in by_partition.items()
    }

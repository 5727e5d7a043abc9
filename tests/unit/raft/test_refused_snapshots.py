"""Snapshots and levels that cannot be taken: damaged ones, and those of another release."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.protocol.generated.control_records import KRaftVersionRecord
from penstock.protocol.generated.metadata_records import FeatureLevelRecord
from penstock.raft.batches import encode_batch, encode_controls
from penstock.raft.messages import FetchReply, FetchSnapshot, SnapshotReply
from penstock.raft.snapshots import SnapshotId, encode_snapshot
from penstock.raft.support import UnsupportedLevel
from penstock.records import control

from .quorum import LEVEL, topic
from .test_faults import Member, open_journal


async def test_a_level_that_this_release_does_not_know_stops_a_follower_with_advice(
    tmp_path: Path,
) -> None:
    journal = open_journal(tmp_path)
    level = FeatureLevelRecord(name="metadata.version", feature_level=31)
    journal.append_fetched(encode_batch([level], LEVEL, 0, 1, 0), 1, 0)
    with pytest.raises(UnsupportedLevel, match="start the release that wrote it"):
        journal.replay_to(1)


async def test_a_version_of_the_quorum_that_this_release_does_not_know_is_not_taken(
    tmp_path: Path,
) -> None:
    journal = open_journal(tmp_path)
    version = KRaftVersionRecord(version=0, kraft_version=2)
    data = encode_controls([(control.KRAFT_VERSION, version)], 0, 1, 0)
    with pytest.raises(UnsupportedLevel, match=r"kraft\.version 2"):
        journal.append_fetched(data, 1, 0)


def test_a_snapshot_of_another_release_is_not_taken(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    level = FeatureLevelRecord(name="metadata.version", feature_level=31)
    data = encode_snapshot([level], LEVEL, 1, 0, 0, None)
    with pytest.raises(UnsupportedLevel):
        journal.prepare(SnapshotId(5, 1), data)
    assert journal.snapshot_id == SnapshotId(0, 0)
    assert not [name for name in os.listdir(journal.directory) if "checkpoint" in name]


@pytest.mark.parametrize("damage", ["cut", "rotten"])
async def test_a_leaders_damaged_snapshot_is_asked_for_again(tmp_path: Path, damage: str) -> None:
    member = Member(tmp_path)
    raft = await member.follow()
    await member.settle()
    whole = encode_snapshot([topic("a")], LEVEL, 2, 0, 0, None)
    data = whole[:-10] if damage == "cut" else whole[:-1] + bytes([whole[-1] ^ 1])
    member.peers.replies[FetchSnapshot] = SnapshotReply(3, 2, len(data), data)
    ask = raft._machine._fetch_asked
    assert ask is not None
    reply = FetchReply(3, 2, 20, snapshot=SnapshotId(20, 2))
    raft._heard(2, ask, reply)
    await member.settle()
    assert member.failures == []
    assert member.journal.log.end == 0, "the log is as it was"
    member.peers.replies[FetchSnapshot] = SnapshotReply(3, 2, len(whole), whole)
    raft._heard(2, raft._machine._fetch_asked or ask, reply)
    await member.settle()
    assert member.journal.log.end == 20
    assert sorted(member.journal.loader.publish().image.topics.by_name) == ["a"]
    await raft.close()


async def test_a_snapshot_that_is_whole_but_unreadable_stops_the_member(tmp_path: Path) -> None:
    member = Member(tmp_path)
    raft = await member.follow()
    await member.settle()
    level = FeatureLevelRecord(name="metadata.version", feature_level=31)
    data = encode_snapshot([level], LEVEL, 2, 0, 0, None)
    member.peers.replies[FetchSnapshot] = SnapshotReply(3, 2, len(data), data)
    ask = raft._machine._fetch_asked
    assert ask is not None
    reply = FetchReply(3, 2, 20, snapshot=SnapshotId(20, 2))
    raft._heard(2, ask, reply)
    await member.settle()
    assert [type(each) for each in member.failures] == [UnsupportedLevel]
    await raft.close()

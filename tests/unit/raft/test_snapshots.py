from __future__ import annotations

from pathlib import Path

import pytest

from penstock.metadata.cluster import Endpoint
from penstock.metadata.levels import DEFAULT_LEVELS
from penstock.platform.disk import Disk
from penstock.protocol.generated.metadata_records import FeatureLevelRecord, TopicRecord
from penstock.raft.format import feature_records, read_bootstrap, write_bootstrap
from penstock.raft.snapshots import (
    CorruptSnapshot,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    list_snapshots,
    remove_unfinished,
    write_snapshot,
)
from penstock.raft.voters import Voter, Voters

RECORDS = [
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    *(TopicRecord(name=f"t{n}", topic_id=bytes([n]) * 16) for n in range(100)),
]
DYNAMIC = Voters({1: Voter(1, b"v" * 16, (Endpoint("CONTROLLER", "h", 9093, 0),))}, 1)


def test_a_snapshot_gives_back_what_was_put_in() -> None:
    data = encode_snapshot(RECORDS, 30, 4, 1234, 5678, None)
    snapshot = decode_snapshot(data)
    assert snapshot.records == RECORDS
    assert snapshot.timestamp == 1234
    assert snapshot.voters is None


def test_a_snapshot_of_a_dynamic_quorum_names_its_voters() -> None:
    snapshot = decode_snapshot(encode_snapshot([], 30, 0, 0, 0, DYNAMIC))
    assert snapshot.voters == DYNAMIC


def test_static_voters_stay_out_of_snapshots() -> None:
    static = Voters({1: Voter(1)}, 0)
    assert decode_snapshot(encode_snapshot([], 30, 0, 0, 0, static)).voters is None


@pytest.mark.parametrize("keep", [0, 1, 60, 80, 200, -1, -75])
def test_a_cut_snapshot_is_not_taken_for_a_whole_one(keep: int) -> None:
    data = encode_snapshot(RECORDS, 30, 4, 1234, 5678, None)
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(data[:keep])


def test_a_flipped_bit_is_noticed() -> None:
    data = bytearray(encode_snapshot(RECORDS, 30, 4, 1234, 5678, None))
    data[300] ^= 4
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(data))


def test_snapshots_are_found_by_their_names_and_unfinished_ones_are_cleared(
    tmp_path: Path,
) -> None:
    disk, directory = Disk(), str(tmp_path)
    for snapshot_id in (SnapshotId(23, 1), SnapshotId(9, 1)):
        write_snapshot(disk, directory, snapshot_id, b"x")
    for name in ("quorum-state", "00000000000000000030-0000000001.checkpoint.part"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "00000000000000000031-0000000001.checkpoint.deleted").write_bytes(b"")
    assert SnapshotId(23, 1).name == "00000000000000000023-0000000001.checkpoint"
    assert list_snapshots(disk, directory) == [SnapshotId(9, 1), SnapshotId(23, 1)]
    remove_unfinished(disk, directory)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "00000000000000000009-0000000001.checkpoint",
        "00000000000000000023-0000000001.checkpoint",
        "quorum-state",
    ]


def test_formatting_leaves_the_levels_of_a_new_cluster(tmp_path: Path) -> None:
    disk = Disk()
    write_bootstrap(disk, str(tmp_path), 0)
    records = read_bootstrap(disk, str(tmp_path))
    assert records == feature_records()
    assert {r.name: r.feature_level for r in records} == DEFAULT_LEVELS
    assert records[0].name == "metadata.version"


def test_a_directory_without_bootstrap_begins_with_this_releases_levels(tmp_path: Path) -> None:
    assert read_bootstrap(Disk(), str(tmp_path)) == feature_records()


def test_formatting_a_dynamic_quorum_writes_its_first_voters(tmp_path: Path) -> None:
    disk = Disk()
    write_bootstrap(disk, str(tmp_path), 0, voters=DYNAMIC)
    quorum = tmp_path / "__cluster_metadata-0"
    assert list_snapshots(disk, str(quorum)) == [SnapshotId(0, 0)]
    snapshot = decode_snapshot((quorum / SnapshotId(0, 0).name).read_bytes())
    assert (snapshot.records, snapshot.voters) == ([], DYNAMIC)

"""The judge of chaos sees what is wrong: on disks, and in the time that passes."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import pytest

from penstock.testing.history import Place
from tests.oracle import wire
from tests.system.chaos.replicas import differences
from tests.system.chaos.run import Played

NODES = ("node-1", "node-2", "node-3")
NS = 1_000_000_000


@cache  # a batch has its time: made anew it would be another one
def placed(offset: int, value: bytes) -> bytes:
    """A batch of one record, as a leader writes it down."""
    batch = wire.batch([value])
    return struct.pack(">q", offset) + batch[8:]


@pytest.fixture
def disks(tmp_path: Path) -> dict[str, list[Path]]:
    """Three nodes with two directories each, and the same ten records of t-0, in segments."""
    nodes = {name: [tmp_path / name / each for each in ("a", "b")] for name in NODES}
    for number, directories in enumerate(nodes.values()):
        for directory in directories:
            directory.mkdir(parents=True)
            (directory / "replication-offset-checkpoint").write_text("0\n0\n")
        home = directories[number % 2]
        (home / "replication-offset-checkpoint").write_text("0\n1\nt 0 10\n")
        folder = home / "t-0"
        folder.mkdir()
        # Segments need not begin at the same offsets everywhere.
        cut = 3 + number
        for start, end in ((0, cut), (cut, 10)):
            data = b"".join(placed(each, b"%d" % each) for each in range(start, end))
            (folder / f"{start:020d}.log").write_bytes(data)
        metadata = directories[0] / "__cluster_metadata-0"
        metadata.mkdir()
        (metadata / f"{0:020d}.log").write_bytes(placed(0, b"metadata"))
    return nodes


def last_segment(disks: dict[str, list[Path]], node: str) -> Path:
    return sorted(path for each in disks[node] for path in each.glob("t-0/*.log"))[-1]


def test_equal_replicas_are_equal(disks: dict[str, list[Path]]) -> None:
    assert list(differences(disks, ["t-0"])) == []


def test_one_other_byte_below_the_watermark_is_found(disks: dict[str, list[Path]]) -> None:
    path = last_segment(disks, "node-2")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (found,) = differences(disks, ["t-0"])
    assert "t-0 differs at offset 9" in found


def test_a_record_that_one_replica_lacks_is_found(disks: dict[str, list[Path]]) -> None:
    path = last_segment(disks, "node-3")
    path.write_bytes(path.read_bytes()[: -len(placed(9, b"9"))])
    (found,) = differences(disks, ["t-0"])
    assert "10 batches" in found and "9 at node-3" in found


def test_what_lies_above_the_watermark_of_anyone_may_differ(disks: dict[str, list[Path]]) -> None:
    path = last_segment(disks, "node-1")
    path.write_bytes(path.read_bytes() + placed(10, b"not replicated yet"))
    assert list(differences(disks, ["t-0"])) == []


def test_a_replica_without_a_log_is_found(disks: dict[str, list[Path]]) -> None:
    found = list(differences(disks, ["t-0", "t-1"]))
    assert found == [f"{name} has no log of t-1" for name in NODES]


def test_silence_is_the_longest_gap_of_any_partition_while_a_fault_lasts() -> None:
    played = Played("kill", "node-1", began=10 * NS, healed=20 * NS, over=30 * NS)
    steady = [each * NS for each in range(5, 40)]
    gap = [*steady[:8], *steady[15:]]  # nothing from 13 to 19
    before = [each * NS for each in (1, 9, *range(10, 35))]  # a gap that the fault did not cause
    assert played.silence({Place("t", 0): steady}) == 1
    assert played.silence({Place("t", 0): steady, Place("t", 1): gap}) == 8
    assert played.silence({Place("t", 0): before}) == 1

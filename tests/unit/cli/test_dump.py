from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.model.ids import TopicPartition
from penstock.records.builder import BatchBuilder
from penstock.records.compression import GZIP
from penstock.records.control import COMMIT, END_TXN, KEY
from penstock.storage.checkpoints import RECOVERY_POINTS, format_offsets
from penstock.storage.epochs import format_epochs
from penstock.storage.producer_snapshot import ProducerRow, encode_snapshot
from penstock.storage.txn_index import AbortedTxn, encode_entries

STEM = "00000000000000000010"
TIME = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def batch(base: int, count: int = 2, **options: object) -> bytes:
    builder = BatchBuilder(base_offset=base, leader_epoch=4, **options)  # type: ignore[arg-type]
    for number in range(count):
        builder.append(b"k%d" % number, b"v%d" % number, TIME + base + number, [("h", b"\xff")])
    return bytes(builder.build())


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A partition's directory with three batches and a file of every other kind."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    batches = [
        batch(10),
        batch(12, compression=GZIP, producer_id=7, producer_epoch=1, base_sequence=5),
        batch(14, transactional=True, producer_id=7, producer_epoch=1, base_sequence=7),
    ]
    positions = [0, len(batches[0]), len(batches[0]) + len(batches[1])]
    (directory / f"{STEM}.log").write_bytes(b"".join(batches))
    index = struct.pack(">iiii", 3, positions[1], 5, positions[2]) + bytes(8 * 100)
    (directory / f"{STEM}.index").write_bytes(index)
    (directory / f"{STEM}.timeindex").write_bytes(struct.pack(">qi", TIME + 13, 3) + bytes(12))
    (directory / f"{STEM}.txnindex").write_bytes(encode_entries([AbortedTxn(7, 14, 15, 14)]))
    row = ProducerRow(7, 1, 8, 15, 1, TIME, -1, -1)
    (directory / f"{STEM}.snapshot").write_bytes(encode_snapshot([row]))
    (directory / "leader-epoch-checkpoint").write_text(format_epochs([(4, 10)]))
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: FH7FOMXBTwCX1Sgul7j6HQ\n")
    offsets = {TopicPartition("orders", 0): 16}
    (tmp_path / RECOVERY_POINTS).write_text(format_offsets(offsets))
    (tmp_path / "meta.properties").write_text("#\nversion=1\nnode.id=1\n")
    return directory


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert run(["log", "dump", *words, "-o", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_segment_is_shown_batch_by_batch(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = rows(capsys, str(segment / f"{STEM}.log"))
    assert (first["base_offset"], first["last_offset"], first["records"]) == (10, 11, 2)
    assert (first["position"], first["epoch"], first["codec"]) == (0, 4, "none")
    assert (second["codec"], second["producer_id"], second["base_sequence"]) == ("gzip", 7, 5)
    assert second["position"] == first["bytes"]
    assert third["flags"] == ["transactional"]
    assert third["time"] == "2023-11-14T22:13:20.015Z"


def test_deep_shows_every_record_decompressed(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = rows(capsys, str(segment / f"{STEM}.log"), "--deep")
    assert [record["offset"] for record in records] == [10, 11, 12, 13, 14, 15]
    assert records[3]["key"] == "k1"
    assert records[3]["value"] == "v1"
    assert records[3]["headers"] == ["h=0xff"]


def test_a_directory_is_shown_with_all_its_files(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(capsys, str(segment.parent))
    by_file: dict[str, list[dict[str, object]]] = {}
    for row in found:
        by_file.setdefault(os.path.basename(str(row.pop("file"))), []).append(row)
    assert by_file["meta.properties"] == [
        {"key": "version", "value": "1"},
        {"key": "node.id", "value": "1"},
    ]
    assert by_file[RECOVERY_POINTS] == [{"topic": "orders", "partition": 0, "offset": 16}]
    assert by_file["leader-epoch-checkpoint"] == [{"epoch": 4, "start_offset": 10}]
    assert by_file["partition.metadata"][1] == {
        "key": "topic_id",
        "value": "FH7FOMXBTwCX1Sgul7j6HQ",
    }
    assert [row["offset"] for row in by_file[f"{STEM}.index"]] == [13, 15]
    assert by_file[f"{STEM}.timeindex"][0]["offset"] == 13
    assert by_file[f"{STEM}.txnindex"][0]["first_offset"] == 14
    assert by_file[f"{STEM}.snapshot"][0]["last_sequence"] == 8


def test_a_table_has_headings_and_aligned_columns(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "dump", str(segment / f"{STEM}.log")]) == 0
    title, headings, first, *_ = capsys.readouterr().out.splitlines()
    assert title.endswith(f"{STEM}.log: batches")
    assert headings.split()[:3] == ["OFFSETS", "POSITION", "BYTES"]
    assert first.split()[0] == "10-11"
    assert first.index("0 ", 9) == headings.index("POSITION")


def test_fewer_rows_are_shown_and_all_are_checked(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = segment / f"{STEM}.log"
    assert len(rows(capsys, str(path), "-n", "1")) == 1
    path.write_bytes(path.read_bytes()[:-1])
    assert run(["log", "dump", str(path), "-n", "1", "-o", "json"]) == 1


def change(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "at", "data", "fault"),
    [
        (".log", 70, b"\xee", "position 0, offset 10: the checksum does not fit the content"),
        (".log", 16, b"\x01", "position 0: a batch of magic 1; only 2 can be read"),
        (".log", 8, b"\x7f", "position 0: a batch claims"),
        (".log", 0, (40).to_bytes(8, "big"), "offsets do not grow: the batch before ends at 42"),
        (".index", 4, b"\0\0\0\x05", "entry 13 -> 5: no batch begins at this position of the log"),
        (".index", 0, b"\0\0\0\x02", "the batch there ends with offset 13"),
        (".index", 0, b"\0\0\0\x09", "entry 15 -> "),
        (".timeindex", 8, b"\0\0\0\x63", "the log holds no such offset"),
        (".timeindex", 0, b"\x01", "the batch with this offset is older"),
        (".snapshot", 12, b"\xee", "whose checksum does not fit its content"),
        (".txnindex", 0, b"\x01", "an aborted transaction of version 256"),
    ],
)
def test_faults_are_told_of_with_their_place_and_end_with_status_1(
    segment: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    at: int,
    data: bytes,
    fault: str,
) -> None:
    path = segment / f"{STEM}{file}"
    change(path, at, data)
    assert run(["log", "dump", str(path)]) == 1
    told = capsys.readouterr().err
    assert fault in told
    assert str(path) in told


def test_a_torn_tail_is_a_fault_and_what_is_before_it_is_shown(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = segment / f"{STEM}.log"
    path.write_bytes(path.read_bytes()[:-3])
    assert run(["log", "dump", str(path), "-o", "json"]) == 1
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2
    assert "a batch claims" in told.err


def test_an_empty_segment_is_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / f"{STEM}.log").write_bytes(b"")
    assert run(["log", "dump", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith(f"{STEM}.log: batches, empty\n")


def test_metadata_records_are_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from penstock.protocol.generated.metadata_records import TopicRecord
    from penstock.protocol.record_frames import write_frame

    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    builder = BatchBuilder()
    builder.append(None, write_frame(TopicRecord(name="orders", topic_id=bytes(16)), 0), TIME)
    (directory / f"{STEM}.log").write_bytes(bytes(builder.build()))
    (record,) = rows(capsys, str(directory), "--deep")
    assert record["key"] == "TopicRecord v0"
    assert record["value"] == {"name": "orders", "topic_id": "A" * 22}


def test_what_opens_doors_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from penstock.protocol.generated.metadata_records import UserScramCredentialRecord
    from penstock.protocol.record_frames import write_frame

    user = UserScramCredentialRecord(name="ann", stored_key=b"key-1", server_key=b"key-2")
    builder = BatchBuilder()
    builder.append(None, write_frame(user, 0), TIME)
    (tmp_path / "bootstrap.checkpoint").write_bytes(bytes(builder.build()))
    (record,) = rows(capsys, str(tmp_path), "--deep")
    assert record["value"] == {
        "name": "ann",
        "mechanism": 0,
        "salt": "",
        "stored_key": "[hidden]",
        "server_key": "[hidden]",
        "iterations": 0,
    }


def test_what_is_no_file_of_a_log_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert run(["log", "dump", str(tmp_path / "notes.txt")]) == 1
    assert "is no file of a log" in capsys.readouterr().err
    assert run(["log", "dump", str(tmp_path / "missing")]) == 1
    assert "there is no" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    (tmp_path / f"{STEM}.log").write_bytes(b"".join(batch(10 + 2 * n) for n in range(20_000)))
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "log", "dump", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    assert "batches" in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(30) == 141


def test_control_records_are_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = BatchBuilder(control=True, transactional=True, producer_id=7, producer_epoch=1)
    builder.append(KEY.pack(0, COMMIT), END_TXN.pack(0, 3), TIME)
    (tmp_path / f"{STEM}.log").write_bytes(bytes(builder.build()))
    (record,) = rows(capsys, str(tmp_path), "--deep")
    assert (record["key"], record["value"]) == ("commit", {"coordinator_epoch": 3})
    assert record["control"] is True


def test_the_first_metadata_snapshot_is_decoded_wherever_it_lies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from penstock.protocol.generated.metadata_records import FeatureLevelRecord
    from penstock.protocol.record_frames import write_frame

    builder = BatchBuilder()
    feature = FeatureLevelRecord(name="group.version", feature_level=1)
    builder.append(None, write_frame(feature, 0), TIME)
    (tmp_path / "bootstrap.checkpoint").write_bytes(bytes(builder.build()))
    (record,) = rows(capsys, str(tmp_path), "--deep")
    assert record["key"] == "FeatureLevelRecord v0"
    assert record["value"] == {"name": "group.version", "feature_level": 1}


def test_offsets_of_groups_are_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from penstock.protocol.generated.group_records import OffsetCommitKey, OffsetCommitValue
    from penstock.protocol.record_frames import GROUP

    directory = tmp_path / "__consumer_offsets-3"
    directory.mkdir()
    key = GROUP.write_key(OffsetCommitKey(group="g", topic="orders", partition=2))
    value = GROUP.write_value(OffsetCommitValue(offset=42, metadata="m"), 3)
    builder = BatchBuilder()
    builder.append(key, value, TIME)
    builder.append(key, None, TIME)
    builder.append(b"\x7f", b"\x7f", TIME)
    (directory / f"{STEM}.log").write_bytes(bytes(builder.build()))
    commit, tombstone, unknown = rows(capsys, str(directory), "--deep")
    assert commit["key"] == {"OffsetCommitKey": {"group": "g", "topic": "orders", "partition": 2}}
    assert commit["value"]["offset"] == 42  # type: ignore[index]
    assert tombstone["value"] is None
    assert unknown["value"] == "0x7f"

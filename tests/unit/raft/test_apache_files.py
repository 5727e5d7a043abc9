"""Files that Apache Kafka 4.3.0 wrote, in `data/`: we read them, and write the same bytes.

`static` is a node with configured voters: started, given topics and configurations, stopped,
killed and started again. `dynamic` was formatted with --standalone and wrote snapshots.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.metadata.configs import BROKER
from penstock.metadata.image import MetadataImage
from penstock.metadata.levels import DEFAULT_LEVELS
from penstock.raft.batches import decode_controls, decode_records, encode_batch, encode_controls
from penstock.raft.election_state import decode, encode
from penstock.raft.snapshots import SnapshotId, decode_snapshot
from penstock.raft.voters import DYNAMIC_FROM, Voter, Voters, static_voters, voters_record
from penstock.records import control
from penstock.records.batch import CONTROL, BatchHead, batch_end, read_head
from tests.oracle import apache
from tests.oracle.tools import Tools

from .test_driver import open_raft

DATA = Path(__file__).with_name("data")
FILES = sorted(path for path in DATA.glob("*/*") if path.suffix in (".log", ".checkpoint"))


def batches(path: Path) -> Iterator[tuple[BatchHead, bytes]]:
    data = path.read_bytes()
    at = 0
    while at < len(data):
        end = batch_end(memoryview(data), at)
        yield read_head(data, at), data[at:end]
        at = end


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_batch_is_read_and_written_byte_for_byte(path: Path) -> None:
    count = 0
    for head, data in batches(path):
        count += 1
        where = (head.base_offset, head.leader_epoch, head.max_timestamp)
        if head.attributes & CONTROL:
            again = encode_controls(decode_controls(head, data), *where)
        else:
            again = encode_batch(decode_records(head, data), 30, *where)
        assert again == data
    assert count >= 2


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_the_vote_is_written_byte_for_byte(kind: str) -> None:
    data = (DATA / kind / "quorum-state").read_bytes()
    voters = Voters({1: Voter(1)}, int(kind == "dynamic"))
    assert encode(decode(data), voters) == data


def test_formatting_writes_what_apaches_tool_writes() -> None:
    snapshot = decode_snapshot((DATA / "static" / "bootstrap.checkpoint").read_bytes())
    assert {r.name: r.feature_level for r in snapshot.records} == DEFAULT_LEVELS
    assert [r.name for r in snapshot.records] == list(DEFAULT_LEVELS)


def opened(kind: str, tmp_path: Path) -> tuple[MetadataImage, Voters, SnapshotId]:
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(DATA / kind, directory)
    raft = open_raft(tmp_path, voters=static_voters([Voter(1)]))
    return raft.load().image, raft.voters, raft.journal.snapshot_id


def test_a_directory_of_apaches_opens_with_everything_in_it(tmp_path: Path) -> None:
    image, voters, snapshot_id = opened("static", tmp_path)
    assert sorted(image.topics.by_name) == ["t.a", "two"]
    assert {i: p.leader_epoch for i, p in image.topics.by_name["two"].partitions.items()} == {
        0: 7,
        1: 1,
        2: 1,
    }
    assert image.topics.by_name["t.a"].partitions[0].elr == (1,)
    assert image.configs.of(BROKER, "1") == {"log.cleaner.threads": "2"}
    assert dict(image.features.levels) == DEFAULT_LEVELS
    assert image.producer_ids.next_id == 1000
    assert image.cluster.brokers[1].fenced
    assert image.cluster.controllers[1].endpoints[0].name == "CONTROLLER"
    assert (voters.ids, voters.kraft_version, snapshot_id) == ([1], 0, SnapshotId(0, 0))


def test_a_dynamic_quorum_of_apaches_opens_from_its_snapshot(tmp_path: Path) -> None:
    image, voters, snapshot_id = opened("dynamic", tmp_path)
    assert snapshot_id == SnapshotId(35, 1)
    assert image.offset > 35
    assert voters.kraft_version == DYNAMIC_FROM
    assert voters.by_id[1].endpoints[0].port == 29321
    assert dict(image.features.levels) == DEFAULT_LEVELS
    first = decode_snapshot((DATA / "dynamic" / SnapshotId(0, 0).name).read_bytes())
    assert first.voters == voters


def test_voters_are_written_as_they_were_read() -> None:
    for head, data in batches(DATA / "dynamic" / "00000000000000000000.log"):
        for kind, message in decode_controls(head, data):
            if kind == control.KRAFT_VOTERS:
                snapshot = decode_snapshot((DATA / "dynamic" / SnapshotId(0, 0).name).read_bytes())
                assert snapshot.voters is not None
                assert voters_record(snapshot.voters) == message
                return
    pytest.fail("the log has no voters")


@pytest.mark.java
@pytest.mark.skipif(apache.missing() is not None, reason=str(apache.missing()))
async def test_apaches_tools_read_our_log_and_our_snapshot(tmp_path: Path) -> None:
    shutil.copytree(DATA / "static", tmp_path / "__cluster_metadata-0")
    raft = open_raft(tmp_path)
    image = raft.load().image
    await raft.start(lambda _: None)
    await raft.snapshot(image)
    await raft.close()
    directory = tmp_path / "__cluster_metadata-0"
    (snapshot,) = directory.glob("*-*.checkpoint")
    tools = Tools()
    try:
        for path in (directory / "00000000000000000000.log", snapshot):
            out = tools.check("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
            assert "isvalid: false" not in out
            assert "Could not" not in out
        payloads = [line.partition("payload: ")[2] for line in out.splitlines()]
        names = [json.loads(p)["data"].get("name") for p in payloads if "TOPIC_RECORD" in p]
        assert sorted(names) == ["t.a", "two"]
    finally:
        tools.close()

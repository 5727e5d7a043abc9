"""The small text files, in Kafka's formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.ids import TopicPartition
from penstock.platform.disk import Disk
from penstock.storage import checkpoints
from penstock.storage.checkpoints import CorruptCheckpoint

OFFSETS = {TopicPartition("a", 0): 5, TopicPartition("b.c_d-e", 12): 2**40}


def test_a_checkpoint_is_a_version_a_count_and_lines() -> None:
    text = checkpoints.format_offsets(OFFSETS)
    assert text == "0\n2\na 0 5\nb.c_d-e 12 1099511627776\n"
    assert checkpoints.parse_offsets(text) == OFFSETS
    assert checkpoints.parse_offsets("0\n0\n") == {}


@pytest.mark.parametrize(
    "text",
    ["", "0\n", "1\n0\n", "0\n2\na 0 5\n", "0\n1\na 0\n", "0\n1\na x 5\n", "x\ny\n", "0\n-1\n"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(CorruptCheckpoint):
        checkpoints.parse_offsets(text)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xff", b"0\n9\n"])
def test_a_checkpoint_that_cannot_be_read_is_as_good_as_none(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / checkpoints.LOG_STARTS).write_bytes(content)
    assert checkpoints.read_offsets(Disk(), str(tmp_path), checkpoints.LOG_STARTS) == {}


def test_a_checkpoint_is_read_back(tmp_path: Path) -> None:
    checkpoints.write_offsets(Disk(), str(tmp_path), checkpoints.HIGH_WATERMARKS, OFFSETS)
    name = checkpoints.HIGH_WATERMARKS
    assert checkpoints.read_offsets(Disk(), str(tmp_path), name) == OFFSETS
    assert [each.name for each in tmp_path.iterdir()] == ["replication-offset-checkpoint"]


def test_partition_metadata_names_the_topic_id(tmp_path: Path) -> None:
    text = checkpoints.format_partition_metadata(bytes(range(16)))
    assert text == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    (tmp_path / "partition.metadata").write_text(text)
    assert checkpoints.read_topic_id(Disk(), str(tmp_path)) == bytes(range(16))


@pytest.mark.parametrize(
    "content", [b"", b"version: 0\n", b"version: 7\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n", b"\xff\n"]
)
def test_partition_metadata_that_is_torn_names_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "partition.metadata").write_bytes(content)
    assert checkpoints.read_topic_id(Disk(), str(tmp_path)) is None


def test_the_marker_of_a_clean_stop_is_taken_once(tmp_path: Path) -> None:
    disk, path = Disk(), str(tmp_path)
    assert checkpoints.take_clean_shutdown(disk, path) is None
    checkpoints.write_clean_shutdown(disk, path, 77)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":77}'
    assert checkpoints.take_clean_shutdown(disk, path) == 77
    assert checkpoints.take_clean_shutdown(disk, path) is None


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"version":0}'])
def test_a_marker_without_an_epoch_still_says_that_the_stop_was_clean(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_text(content)
    assert checkpoints.take_clean_shutdown(Disk(), str(tmp_path)) == -1


def test_properties_are_escaped_as_java_does() -> None:
    values = {"cluster.id": "a=b:c\\d#e!", "node.id": "1"}
    text = checkpoints.format_properties(values)
    assert "cluster.id=a\\=b\\:c\\\\d\\#e\\!\n" in text
    assert checkpoints.parse_properties(text) == values
    java = "#\n#Sun Nov 15 09:00:00 UTC 2026\ncluster.id=x-Y_z\n\n! note\nversion=1\n"
    assert checkpoints.parse_properties(java) == {"cluster.id": "x-Y_z", "version": "1"}

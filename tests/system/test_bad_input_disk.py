"""Disks that are full, read-only, taken, torn or rotten."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.oracle import wire
from tests.oracle.nodes import Node, NodeFailed
from tests.oracle.wire import Produced, Wire

KAFKA_STORAGE_ERROR = 56
BATCHES = 200


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Small file systems in memory, unmounted after the test."""
    mounted: list[Path] = []

    def make(options: str) -> Path:
        where = tmp_path / f"mount-{len(mounted)}"
        where.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)], check=True)
        mounted.append(where)
        return where

    yield make
    for where in mounted:
        # Lazily: a broker that a failing test left behind may still hold files.
        subprocess.run(["umount", "-l", str(where)], check=True)


@pytest.mark.root
@pytest.mark.penstock_only  # Kafka ends when its last log directory fails
def test_a_full_disk_refuses_writes_serves_reads_and_recovers_with_room(
    make_node: Callable[..., Node], mount: Callable[..., Path], tmp_path: Path, topic: str
) -> None:
    data = mount("size=24m")
    # The metadata log lives elsewhere: this is about data.
    config = {"metadata.log.dir": str(tmp_path / "metadata")}
    with make_node(data=data, config=config) as node, Wire(node.port) as client:
        assert wire.create_topic(client, topic) == 0
        stored = 0
        while (answer := wire.produce(client, topic, wire.batch([bytes(500_000)]))).error == 0:
            assert answer.base_offset == stored
            stored += 1
            assert stored < 100, "a disk of 24 MB took 50 MB"
        assert answer.error == KAFKA_STORAGE_ERROR
        assert stored > 20
        for offset in range(stored):
            assert wire.fetch(client, topic, offset).error == 0

        subprocess.run(["mount", "-o", "remount,size=64m", str(data)], check=True)
        assert wire.produce(client, topic, wire.batch([b"room again"])) == Produced(0, stored)
        assert node.stop() == 0
        node.start()
        with Wire(node.port) as again:
            assert wire.fetch(again, topic, 0).high_watermark == stored + 1


@pytest.mark.root
def test_a_read_only_directory_is_named_and_refused(
    make_node: Callable[..., Node], mount: Callable[..., Path]
) -> None:
    data = mount("size=8m")
    node = make_node(data=data)
    with node:
        pass
    subprocess.run(["mount", "-o", "remount,ro", str(data)], check=True)
    with pytest.raises(NodeFailed) as refused:
        node.start()
    assert str(data) in str(refused.value)


def test_a_second_process_on_the_same_directory_is_refused(
    make_node: Callable[..., Node], target: type[Node]
) -> None:
    with make_node("first") as first, Wire(first.port) as client:
        assert wire.create_topic(client, "mine") == 0
        second = make_node("second", data=first.data)
        with pytest.raises(NodeFailed) as refused:
            second.start()
        assert str(first.data) in str(refused.value)
        if target.name == "Penstock":
            assert str(first.pid) in str(refused.value)
        assert wire.produce(client, "mine", wire.batch([b"still here"])) == Produced(0, 0)


class Damaged:
    """A broker that was filled and then ended, so that its files can be damaged."""

    def __init__(self, node: Node, *, clean: bool) -> None:
        self.node = node
        self.sent = [wire.batch([f"{n} ".encode() * 400]) for n in range(BATCHES)]
        config = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}
        with node:
            with Wire(node.port) as client:
                for topic in ("hurt", "sound"):
                    assert wire.create_topic(client, topic, config=config) == 0
                    for offset, batch in enumerate(self.sent):
                        assert wire.produce(client, topic, batch) == Produced(0, offset)
            node.stop() if clean else node.kill()
        self.folder = node.data / "hurt-0"

    def newest(self, suffix: str) -> Path:
        return sorted(self.folder.glob(f"*{suffix}"))[-1]

    def check(self, count: int = BATCHES) -> None:
        """Start again: `count` records are there, the other topic is whole, and both go on."""
        self.node.start()
        with Wire(self.node.port) as client:
            wait_led(client)
            for topic, stored in (("hurt", count), ("sound", BATCHES)):
                for offset in range(stored):
                    found = wire.fetch(client, topic, offset)
                    first = found.records[16 : len(self.sent[offset])]
                    assert (found.error, first) == (0, self.sent[offset][16:])
                assert wire.fetch(client, topic, stored).high_watermark == stored
                assert wire.produce(client, topic, self.sent[0]) == Produced(0, stored)


def wait_led(client: Wire) -> None:
    """After a restart a partition may be leaderless for a moment."""
    deadline = time.monotonic() + 30
    while any(wire.fetch(client, topic, 0).error for topic in ("hurt", "sound")):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_torn_tail_is_cut_and_everything_before_it_kept(make_node: Callable[..., Node]) -> None:
    damaged = Damaged(make_node(), clean=False)
    with open(damaged.newest(".log"), "ab") as log:
        log.write(damaged.sent[0][:100])
    damaged.check()


def test_a_tail_of_zeros_is_cut_and_everything_before_it_kept(
    make_node: Callable[..., Node],
) -> None:
    damaged = Damaged(make_node(), clean=False)
    with open(damaged.newest(".log"), "ab") as log:
        log.write(bytes(5000))
    damaged.check()


def test_a_torn_last_batch_loses_only_itself(make_node: Callable[..., Node]) -> None:
    damaged = Damaged(make_node(), clean=False)
    log = damaged.newest(".log")
    with open(log, "r+b") as file:
        file.truncate(log.stat().st_size - 10)
    damaged.check(BATCHES - 1)


def test_a_flipped_bit_in_the_last_batch_loses_only_itself(make_node: Callable[..., Node]) -> None:
    damaged = Damaged(make_node(), clean=False)
    log = damaged.newest(".log")
    flip(log, log.stat().st_size - 10)
    damaged.check(BATCHES - 1)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_rebuilt(
    make_node: Callable[..., Node], clean: bool, suffix: str
) -> None:
    damaged = Damaged(make_node(), clean=clean)
    for index in damaged.folder.glob(f"*{suffix}"):
        index.unlink()
    damaged.check()


# After a clean stop Kafka believes what fits into the odd size, and then finds no records.
TRUSTING = pytest.param(True, marks=pytest.mark.penstock_only)


@pytest.mark.parametrize("clean", [TRUSTING, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_impossible_size_is_rebuilt(
    make_node: Callable[..., Node], clean: bool, suffix: str
) -> None:
    damaged = Damaged(make_node(), clean=clean)
    for index in damaged.folder.glob(f"*{suffix}"):
        index.write_bytes(b"\x01" * 13)
    damaged.check()


def test_indexes_full_of_noise_are_rebuilt_after_a_crash(make_node: Callable[..., Node]) -> None:
    damaged = Damaged(make_node(), clean=False)
    chance = random.Random(11)
    for index in damaged.folder.glob("*index"):
        index.write_bytes(chance.randbytes(12 * 8 * 5))
    damaged.check()


def test_missing_producer_snapshots_and_checkpoints_are_rebuilt_after_a_crash(
    make_node: Callable[..., Node],
) -> None:
    damaged = Damaged(make_node(), clean=False)
    for path in [*damaged.folder.glob("*.snapshot"), *damaged.node.data.glob("*checkpoint")]:
        if path.is_file() and path.name != "bootstrap.checkpoint":
            path.unlink()
    damaged.check()


def test_rot_in_a_sealed_segment_is_served_for_the_client_to_find_and_harms_no_other_topic(
    make_node: Callable[..., Node],
) -> None:
    """A clean stop vouches for the files: no start should read terabytes to doubt them."""
    damaged = Damaged(make_node(), clean=True)
    flip(sorted(damaged.folder.glob("*.log"))[0], 300)
    damaged.node.start()
    with Wire(damaged.node.port) as client:
        wait_led(client)
        found = wire.fetch(client, "hurt", 0)
        batch = found.records[: len(damaged.sent[0])]
        assert found.error == 2 or wire.resealed(batch) != batch
        assert wire.fetch(client, "sound", 0).error == 0
        assert wire.produce(client, "hurt", damaged.sent[0]) == Produced(0, BATCHES)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)

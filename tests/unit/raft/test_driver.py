from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY
from penstock.platform.chance import SystemChance
from penstock.platform.clock import SystemClock
from penstock.platform.disk import Disk
from penstock.platform.workers import InlineWorkers, ThreadWorkers, Workers
from penstock.protocol.generated.metadata_records import (
    BeginTransactionRecord,
    FeatureLevelRecord,
    TopicRecord,
)
from penstock.raft.damage import DamagedLog
from penstock.raft.driver import (
    NotLeader,
    ProposalTooLarge,
    QuorumLost,
    RaftDriver,
)
from penstock.raft.format import write_bootstrap
from penstock.raft.journal import Journal, UnreadableRecord
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.snapshots import CorruptSnapshot, SnapshotId, list_snapshots
from penstock.raft.support import UnsupportedLevel
from penstock.raft.voters import Voter, Voters, static_voters
from penstock.records.builder import BatchBuilder
from penstock.storage.context import LogContext

LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=30)


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"t{number}", topic_id=number.to_bytes(16, "big"))


class Held(InlineWorkers):
    """Work that waits until it is let go, and may then fail."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.held.append((work, future))
        return future

    async def let_go(self, error: OSError | None = None) -> None:
        work, future = self.held.pop(0)
        if error is None:
            future.set_result(work())
        else:
            future.set_exception(error)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def open_raft(
    root: Path,
    workers: Workers | None = None,
    settings: MetadataLogSettings | None = None,
    voters: Voters | None = None,
) -> RaftDriver:
    clock = SystemClock()
    journal = Journal(
        LogContext(Disk()),
        str(root),
        voters or static_voters([Voter(1)]),
        settings or MetadataLogSettings(),
        clock.now(),
    )
    return RaftDriver(journal, 1, clock, SystemChance(), workers or InlineWorkers())


async def test_what_is_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    raft = open_raft(tmp_path, ThreadWorkers())
    assert raft.load().image == EMPTY
    marks: list[int] = []
    await raft.start(marks.append)
    assert (raft.leading, raft.epoch, raft.leader, raft.high_watermark) == (True, 1, 1, 1)
    await raft.committed(raft.propose([LEVEL, topic(1)], 30))
    await raft.committed(raft.propose([topic(2)], 30))
    await raft.close()
    assert marks == [1, 3, 4]
    again = open_raft(tmp_path)
    image = again.load().image
    assert sorted(image.topics.by_name) == ["t1", "t2"]
    assert (image.offset, image.epoch) == (3, 1)
    await again.start(lambda _: None)
    assert again.epoch == 2
    state = json.loads((tmp_path / "__cluster_metadata-0" / "quorum-state").read_text())
    assert (state["leaderEpoch"], state["leaderId"]) == (2, 1)
    await again.close()


async def test_proposals_that_arrive_during_a_sync_share_the_next(tmp_path: Path) -> None:
    workers = Held()
    raft = open_raft(tmp_path, workers)
    raft.load()
    starting = asyncio.ensure_future(raft.start(lambda _: None))
    await asyncio.sleep(0)
    first = raft.committed(raft.propose([LEVEL], 30))
    others = [raft.committed(raft.propose([topic(n)], 30)) for n in range(5)]
    assert len(workers.held) == 1
    await workers.let_go()
    # The first sync ran after everything was appended, so it made everything durable.
    await asyncio.gather(starting, first, *others)
    late = raft.committed(raft.propose([topic(9)], 30))
    assert not late.done()
    await workers.let_go()
    await late
    assert raft.high_watermark == raft.next_offset


async def test_a_failed_sync_fails_everybody_who_waits_and_is_never_retried(
    tmp_path: Path,
) -> None:
    workers = Held()
    raft = open_raft(tmp_path, workers)
    raft.load()
    failures: list[BaseException] = []
    starting = asyncio.ensure_future(raft.start(lambda _: None, failures.append))
    await asyncio.sleep(0)
    await workers.let_go(OSError(5, "the disk is gone"))
    with pytest.raises(QuorumLost):
        await starting
    assert len(failures) == 1
    assert not raft.leading
    with pytest.raises(NotLeader):
        raft.propose([LEVEL], 30)
    with pytest.raises(QuorumLost):
        await raft.committed(99)
    assert workers.held == []


async def test_commits_are_told_before_those_who_wait_go_on(tmp_path: Path) -> None:
    raft = open_raft(tmp_path)
    raft.load()
    told: list[str] = []
    await raft.start(lambda _: told.append("commit"))
    told.clear()
    future = raft.committed(raft.propose([LEVEL], 30))
    future.add_done_callback(lambda _: told.append("waiter"))
    await future
    await asyncio.sleep(0)
    assert told == ["commit", "waiter"]
    await raft.close()


async def test_a_proposal_beyond_one_batch_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    raft = open_raft(tmp_path)
    raft.load()
    await raft.start(lambda _: None)
    before = raft.next_offset
    with pytest.raises(ProposalTooLarge):
        raft.propose([FeatureLevelRecord(name="x" * 32_000, feature_level=1)] * 300, 30)
    assert raft.next_offset == before
    await raft.close()


async def test_a_restart_reads_the_newest_snapshot_and_the_tail_behind_it(tmp_path: Path) -> None:
    raft = open_raft(tmp_path)
    raft.load()
    await raft.start(lambda _: None)
    records = [LEVEL, *(topic(n) for n in range(10))]
    end = raft.propose(records, 30)
    await raft.committed(end)
    image = MetadataDelta(EMPTY).replay_all(records).apply(end - 1, raft.epoch)
    await raft.snapshot(image)
    await asyncio.sleep(0)
    await raft.committed(raft.propose([topic(77)], 30))
    await raft.close()
    directory = tmp_path / "__cluster_metadata-0"
    assert list_snapshots(Disk(), str(directory)) == [SnapshotId(end, 1)]
    again = open_raft(tmp_path)
    assert again.journal.snapshot_id == SnapshotId(end, 1)
    loaded = again.load().image
    assert len(loaded.topics.by_name) == 11
    await again.start(lambda _: None)
    await again.close()


async def test_snapshots_are_due_by_bytes_and_trim_what_they_stand_for(tmp_path: Path) -> None:
    settings = MetadataLogSettings(segment_bytes=400, snapshot_bytes=1000, retention_bytes=3000)
    raft = open_raft(tmp_path, settings=settings)
    loaded = raft.load()
    await raft.start(lambda _: None)
    image = loaded.image
    for number in range(120):
        records = [LEVEL, topic(number)] if number == 0 else [topic(number)]
        end = raft.propose(records, 30)
        await raft.committed(end)
        image = MetadataDelta(image).replay_all(records).apply(end - 1, raft.epoch)
        raft.snapshot_if_due(image)
        await asyncio.sleep(0)
    await raft.close()
    kept = list_snapshots(Disk(), str(tmp_path / "__cluster_metadata-0"))
    assert kept
    assert raft.journal.log.start > 0
    assert kept[0].end >= raft.journal.log.start
    again = open_raft(tmp_path, settings=settings)
    assert again.load().image == image


async def test_a_corrupt_newest_snapshot_falls_back_to_the_one_before(tmp_path: Path) -> None:
    raft = open_raft(tmp_path)
    raft.load()
    await raft.start(lambda _: None)
    image = EMPTY
    for number in range(2):
        records = [LEVEL, topic(number)]
        end = raft.propose(records, 30)
        await raft.committed(end)
        image = MetadataDelta(image).replay_all(records).apply(end - 1, raft.epoch)
        await raft.snapshot(image)
        await asyncio.sleep(0)
    await raft.close()
    directory = tmp_path / "__cluster_metadata-0"
    newest = directory / list_snapshots(Disk(), str(directory))[-1].name
    newest.write_bytes(newest.read_bytes()[:-10])
    assert open_raft(tmp_path).load().image == image


async def test_a_log_whose_beginning_nothing_covers_is_refused_with_advice(
    tmp_path: Path,
) -> None:
    raft = open_raft(tmp_path)
    raft.load()
    await raft.start(lambda _: None)
    await raft.committed(raft.propose([LEVEL], 30))
    raft.journal.log.roll(0)
    await raft.committed(raft.propose([topic(1)], 30))
    await raft.close()
    directory = tmp_path / "__cluster_metadata-0"
    for path in directory.glob("00000000000000000000.*"):
        path.unlink()
    with pytest.raises(CorruptSnapshot, match="restore the directory"):
        open_raft(tmp_path)


async def test_a_torn_tail_is_cut_and_the_rest_is_kept(tmp_path: Path) -> None:
    raft = open_raft(tmp_path)
    raft.load()
    await raft.start(lambda _: None)
    await raft.committed(raft.propose([LEVEL, topic(1)], 30))
    await raft.close()
    log = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + b"\x00" * 40)
    again = open_raft(tmp_path)
    assert list(again.load().image.topics.by_name) == ["t1"]


async def filled(root: Path) -> Path:
    raft = open_raft(root)
    raft.load()
    await raft.start(lambda _: None)
    await raft.committed(raft.propose([LEVEL], 30))
    for number in range(5):
        await raft.committed(raft.propose([topic(number)], 30))
    await raft.close()
    return root / "__cluster_metadata-0" / "00000000000000000000.log"


@pytest.mark.parametrize("at", [95, 100, 111, 150, 260])
async def test_damage_in_the_middle_is_refused_again_and_again_and_nothing_is_cut(
    tmp_path: Path, at: int
) -> None:
    log = await filled(tmp_path)
    damaged = bytearray(log.read_bytes())
    damaged[at] ^= 0x10
    log.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(DamagedLog, match="truncate -s"):
            open_raft(tmp_path)
        assert log.read_bytes() == damaged


async def test_after_cutting_the_damage_off_by_hand_the_node_starts(tmp_path: Path) -> None:
    log = await filled(tmp_path)
    damaged = bytearray(log.read_bytes())
    damaged[-100] ^= 0x10
    log.write_bytes(damaged)
    with pytest.raises(DamagedLog) as refused:
        open_raft(tmp_path)
    size = re.search(r"truncate -s (\d+)", str(refused.value))
    assert size is not None
    log.write_bytes(damaged[: int(size[1])])
    assert open_raft(tmp_path).load().image.topics.by_name


async def test_a_page_that_power_loss_left_out_is_a_torn_end(tmp_path: Path) -> None:
    log = await filled(tmp_path)
    torn = bytearray(log.read_bytes())
    first = 91 + 12 + int.from_bytes(torn[99:103], "big")
    torn[first : first + 80] = bytes(80)
    log.write_bytes(torn)
    image = open_raft(tmp_path).load().image
    assert dict(image.features.levels) == {"metadata.version": 30}
    assert image.topics.by_name == {}


async def test_a_damaged_last_batch_is_a_torn_one(tmp_path: Path) -> None:
    log = await filled(tmp_path)
    damaged = bytearray(log.read_bytes())
    damaged[-5] ^= 0x10
    log.write_bytes(damaged)
    assert sorted(open_raft(tmp_path).load().image.topics.by_name) == ["t0", "t1", "t2", "t3"]


async def test_a_record_that_this_release_does_not_know_is_not_skipped(tmp_path: Path) -> None:
    log = await filled(tmp_path)
    builder = BatchBuilder(base_offset=7, leader_epoch=1)
    builder.append(None, b"\x01\x7f\x00", 0)  # a frame of record type 127
    log.write_bytes(log.read_bytes() + builder.build())
    with pytest.raises(UnreadableRecord, match="offset 7"):
        open_raft(tmp_path)


async def test_metadata_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    raft = open_raft(tmp_path)
    raft.load()
    await raft.start(lambda _: None)
    newer = FeatureLevelRecord(name="metadata.version", feature_level=31)
    await raft.committed(raft.propose([newer], 30))
    await raft.close()
    with pytest.raises(UnsupportedLevel, match=r"metadata\.version 31"):
        open_raft(tmp_path).load()


async def test_voters_of_a_dynamic_quorum_move_from_the_directory_into_the_log(
    tmp_path: Path,
) -> None:
    voters = Voters({1: Voter(1, b"v" * 16)}, 1)
    write_bootstrap(Disk(), str(tmp_path), 0, voters=voters)
    raft = open_raft(tmp_path, voters=static_voters([]))
    raft.load()
    await raft.start(lambda _: None)
    assert raft.voters == voters
    assert raft.next_offset == 3
    await raft.close()
    (tmp_path / "__cluster_metadata-0" / SnapshotId(0, 0).name).unlink()
    assert open_raft(tmp_path, voters=static_voters([])).voters == voters


async def test_a_transaction_without_its_end_is_seen_as_open(tmp_path: Path) -> None:
    raft = open_raft(tmp_path)
    raft.load()
    await raft.start(lambda _: None)
    await raft.committed(raft.propose([LEVEL], 30))
    await raft.committed(raft.propose([BeginTransactionRecord(), topic(1)], 30))
    await raft.close()
    again = open_raft(tmp_path)
    assert again.load().image.topics.by_name == {}
    assert again.journal.loader.in_transaction

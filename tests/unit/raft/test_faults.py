"""Members whose disk fails, who were lied to, or who were interrupted: what they must not do."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from penstock.model.ids import ZERO_UUID, Millis
from penstock.net.peer import PeerLost, PeerTooOld
from penstock.platform.clock import SystemClock
from penstock.platform.disk import Disk
from penstock.platform.workers import InlineWorkers, Workers
from penstock.protocol.generated.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
)
from penstock.raft.batches import encode_batch, encode_controls
from penstock.raft.driver import NotLeader, QuorumLost, RaftDriver
from penstock.raft.journal import Journal
from penstock.raft.messages import (
    Ask,
    BeginEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Position,
    Replica,
    Reply,
    SnapshotReply,
    Vote,
    VoteReply,
)
from penstock.raft.progress import Progress
from penstock.raft.roles import Role
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.snapshots import (
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    list_snapshots,
    voter_records,
)
from penstock.raft.voters import Voter, Voters, static_voters
from penstock.storage.context import LogContext
from penstock.storage.log import CorruptBatch, Log

from .quorum import Dice, topic
from .test_driver import Held

THREE = static_voters(Voter(number) for number in (1, 2, 3))
LEVEL = 30


class WeakDisk(Disk):
    """A disk that fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def write_atomic(self, path: str, data: Any, **options: Any) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "full", path)
        super().write_atomic(path, data, **options)


class Scripted:
    """Peers that answer as the test says, and remember what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Ask]] = []
        self.replies: dict[type, Reply | Exception] = {}

    async def ask(self, to: Replica, ask: Ask) -> tuple[int, Reply]:
        self.asked.append((to.id, ask))
        reply = self.replies.get(type(ask), PeerLost("nobody is there"))
        if isinstance(reply, Exception):
            raise reply
        return to.id, reply

    def learn(self, node: int, address: tuple[str, int]) -> None:
        pass

    def close(self) -> None:
        pass


class Member:
    """Node 1 of three, and what is around it."""

    def __init__(
        self, root: Path, workers: Workers | None = None, voters: Voters | None = None
    ) -> None:
        self.disk = WeakDisk()
        self.peers = Scripted()
        self.failures: list[BaseException] = []
        self.journal = open_journal(root, self.disk, voters or THREE)
        self.raft = RaftDriver(
            self.journal, 1, SystemClock(), Dice(1), workers or InlineWorkers(), self.peers
        )

    async def start(self) -> RaftDriver:
        self.raft.load()
        await self.raft.start(
            lambda end: self.journal.replay_to(end) and None, self.failures.append
        )
        return self.raft

    async def follow(self, epoch: int = 3) -> RaftDriver:
        raft = await self.start()
        raft.answer(BeginEpoch(epoch, 2))
        return raft

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def open_journal(root: Path, disk: Disk | None = None, voters: Voters = THREE) -> Journal:
    context = LogContext(disk or Disk())
    return Journal(context, str(root), voters, MetadataLogSettings(), 0, sole=False)


def batch(offset: int, epoch: int, name: str = "t") -> bytes:
    return encode_batch([topic(name)], LEVEL, offset, epoch, 0)


# -- the vote -----------------------------------------------------------------------------------


async def test_a_vote_that_could_not_be_stored_is_never_told(tmp_path: Path) -> None:
    member = Member(tmp_path)
    raft = await member.start()
    vote = Vote(5, Replica(2), Position(0, 0), False)
    member.disk.full = True
    with pytest.raises(QuorumLost):
        raft.answer(vote)
    member.disk.full = False
    with pytest.raises(QuorumLost):
        raft.answer(vote)  # the machine believes that it voted, and the disk does not know
    assert [type(each) for each in member.failures] == [OSError]
    await raft.close()
    assert Member(tmp_path).raft.answer(vote._replace(candidate=Replica(3))).epoch == 5


async def test_a_member_that_failed_or_ended_answers_nobody(tmp_path: Path) -> None:
    member = Member(tmp_path)
    raft = await member.start()
    await raft.close()
    with pytest.raises(QuorumLost):
        raft.answer(Vote(5, Replica(2), Position(0, 0), True))
    with pytest.raises(QuorumLost):
        await raft.answer_fetch(Fetch(0, Replica(2), Position(0, 0), -1), 0, 100)
    with pytest.raises(QuorumLost):
        raft.answer_snapshot(FetchSnapshot(0, Replica(2), SnapshotId(1, 1), 0), 100)


async def test_a_peer_that_cannot_be_asked_for_advice_does_not_stop_an_election(
    tmp_path: Path,
) -> None:
    member = Member(tmp_path)
    raft = await member.start()
    member.peers.replies[Vote] = PeerTooOld("from before one could ask so")
    raft._guarded(lambda: raft._machine.tick(Millis(1 << 40), Dice(1)))
    await member.settle()
    assert raft._machine.role is Role.CANDIDATE
    assert raft.epoch == 1, "and a real vote is not taken as granted"
    await raft.close()


async def test_an_error_that_nobody_foresaw_stops_the_member_instead_of_its_fetches(
    tmp_path: Path,
) -> None:
    member = Member(tmp_path)
    member.peers.replies[Fetch] = RuntimeError("a bug")
    raft = await member.follow()
    await member.settle()
    assert [str(each) for each in member.failures] == ["a bug"]
    await raft.close()


# -- the log ------------------------------------------------------------------------------------


async def test_what_a_killed_process_left_is_made_durable_before_it_is_told_of(
    tmp_path: Path,
) -> None:
    first = open_journal(tmp_path)
    first.append_fetched(batch(0, 1), 1, 0)  # and no sync
    again = open_journal(tmp_path)
    assert again.log.end == 1
    assert again.log.is_synced


async def test_a_sync_that_was_overtaken_by_a_truncation_proves_nothing(tmp_path: Path) -> None:
    workers = Held()
    member = Member(tmp_path, workers)
    raft = await member.follow()
    member.journal.append_fetched(batch(0, 1) + batch(1, 1), 3, 0)
    raft._syncer.sync()
    work, done = workers.held.pop()
    end = work()  # in its worker; the loop hears of it later
    member.journal.truncate(1, 0)
    member.journal.append_fetched(batch(1, 2), 3, 0)
    done.set_result(end)
    await member.settle()
    assert raft._machine._synced_end < 2, "the second record is another one by now"
    await workers.let_go()
    assert raft._machine._synced_end == 2


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (batch(0, 1) + batch(1, 1), 2),
        (batch(0, 1) + batch(2, 1), 1),  # a gap
        (batch(0, 2) + batch(1, 1), 1),  # an epoch that goes back
        (batch(0, 1) + batch(1, 4), 1),  # one that the leader of epoch 3 cannot know
        (batch(0, 1) + batch(1, 1)[:-1], 1),  # cut, as fetches cut
        (batch(0, 1) + b"\0" * 100, 1),
    ],
)
def test_only_batches_that_can_follow_are_taken_from_a_leader(
    tmp_path: Path, sent: bytes, kept: int
) -> None:
    journal = open_journal(tmp_path)
    try:
        journal.append_fetched(sent, 3, 0)
    except CorruptBatch:
        assert kept == 1
    assert journal.log.end == kept


@pytest.mark.parametrize("alone", [False, True], ids=["one of three", "alone"])
async def test_a_leader_that_cannot_write_stops_unless_it_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """Else it would keep its followers from electing one who can."""
    member = Member(tmp_path, voters=static_voters([Voter(1)]) if alone else THREE)
    member.peers.replies[Vote] = VoteReply(0, granted=True)
    raft = await member.start()
    raft._guarded(lambda: raft._machine.tick(Millis(1 << 40), Dice(1)))
    await member.settle()
    assert raft.leading

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(Log, "append_batches", refuse)
        with pytest.raises(OSError if alone else NotLeader):
            raft.propose([topic("a")], LEVEL)
    assert [type(each) for each in member.failures] == ([] if alone else [OSError])
    assert raft.leading is alone
    if alone:
        assert raft.propose([topic("a")], LEVEL) == 2
    await raft.close()


async def test_a_commit_that_cannot_be_taken_in_stops_the_leader_not_the_one_who_fetched(
    tmp_path: Path,
) -> None:
    member = Member(tmp_path)
    member.peers.replies[Vote] = VoteReply(0, granted=True)
    raft = member.raft
    raft.load()

    def refuse(end: int) -> None:
        raise RuntimeError(f"cannot take in {end}")

    await raft.start(refuse, member.failures.append)
    raft._guarded(lambda: raft._machine.tick(Millis(1 << 40), Dice(1)))
    await member.settle()
    assert raft.leading
    with pytest.raises(QuorumLost):
        await raft.answer_fetch(Fetch(1, Replica(2), Position(1, 1), -1), 0, 100)
    assert [str(each) for each in member.failures] == ["cannot take in 1"]
    await raft.close()


# -- snapshots ----------------------------------------------------------------------------------


def test_a_piece_of_a_snapshot_is_read_and_not_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal(tmp_path)
    data = encode_snapshot([topic("a")], LEVEL, 1, 0, 0, None)
    journal.install(journal.prepare(SnapshotId(5, 1), data), 0)
    monkeypatch.setattr(Disk, "read_bytes", None)
    assert journal.read_snapshot(SnapshotId(5, 1), 3, 10) == (len(data), data[3:13])
    assert journal.read_snapshot(SnapshotId(5, 1), 1 << 40, 10) == (len(data), b"")
    assert journal.read_snapshot(SnapshotId(5, 1), -1, 10) == (len(data), b"")
    for unknown in (SnapshotId(6, 1), SnapshotId(0, 0), SnapshotId(-5, -1)):
        with pytest.raises(FileNotFoundError):
            journal.read_snapshot(unknown, 0, 10)


async def test_a_snapshot_that_the_disk_does_not_take_stops_the_member(tmp_path: Path) -> None:
    member = Member(tmp_path)
    raft = await member.follow()
    await member.settle()
    data = encode_snapshot([topic("a")], LEVEL, 2, 0, 0, None)
    member.peers.replies[FetchSnapshot] = SnapshotReply(3, 2, len(data), data)
    ask = raft._machine._fetch_asked
    assert ask is not None
    member.disk.full = True
    reply = FetchReply(3, 2, 20, snapshot=SnapshotId(20, 2))
    raft._heard(2, ask, reply)
    await member.settle()
    assert len(member.failures) == 1
    await raft.close()


async def test_a_leaders_snapshot_that_came_while_an_own_one_was_written_stays_the_newest(
    tmp_path: Path,
) -> None:
    workers = Held()
    member = Member(tmp_path, workers)
    raft = await member.follow()
    member.journal.append_fetched(batch(0, 1), 3, 0)
    raft.snapshot(member.journal.replay_to(1).image)
    data = encode_snapshot([topic("a")], LEVEL, 2, 0, 0, None)
    member.journal.install(member.journal.prepare(SnapshotId(20, 2), data), 0)
    await workers.let_go()
    assert member.journal.snapshot_id == SnapshotId(20, 2)


async def test_a_snapshot_names_the_voters_of_its_offset_not_those_to_come(tmp_path: Path) -> None:
    one = Voters({1: Voter(1, b"1" * 16)}, 1)
    two = Voters({**one.by_id, 2: Voter(2, b"2" * 16)}, 1)
    journal = open_journal(tmp_path, voters=static_voters([]))
    journal.append_fetched(encode_controls(voter_records(one), 0, 1, 0), 1, 0)
    journal.append_fetched(batch(2, 1), 1, 0)
    journal.append_fetched(encode_controls(voter_records(two), 3, 1, 0), 1, 0)
    assert journal.voters == two
    raft = RaftDriver(journal, 3, SystemClock(), Dice(1), InlineWorkers(), Scripted())
    await raft.snapshot(journal.replay_to(3).image)
    written = (tmp_path / "__cluster_metadata-0" / SnapshotId(3, 1).name).read_bytes()
    assert decode_snapshot(written).voters == one


async def test_no_snapshot_is_taken_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    member = Member(tmp_path)
    raft = await member.follow()
    raft._snapshots.bytes_since = 1 << 30
    records = [BeginTransactionRecord(), topic("a")]
    member.journal.append_fetched(encode_batch(records, LEVEL, 0, 1, 0), 3, 0)
    raft.snapshot_if_due(member.journal.replay_to(2).image)
    assert list_snapshots(member.disk, member.journal.directory) == []
    ended = encode_batch([EndTransactionRecord()], LEVEL, 2, 1, 0)
    member.journal.append_fetched(ended, 3, 0)
    raft.snapshot_if_due(member.journal.replay_to(3).image)
    assert list_snapshots(member.disk, member.journal.directory) == [SnapshotId(3, 1)]
    await raft.close()


def test_a_restart_knows_the_epochs_of_records_that_a_trim_had_hidden(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for offset, epoch in enumerate((1, 1, 1, 2)):
        journal.append_fetched(batch(offset, epoch), 2, 0)
    journal.log.advance_start(3)  # as a trim does behind a snapshot that ends there
    journal.log.sync()
    data = encode_snapshot([topic("a")], LEVEL, 1, 0, 0, None)
    name = SnapshotId(3, 1).name
    (tmp_path / "__cluster_metadata-0" / name).write_bytes(data)
    again = open_journal(tmp_path)
    assert again.log.start == 0, "only whole segments go"
    # A follower whose log ends there has what the leader has, and must not go back.
    assert again.view.end_of(1) == Position(1, 3)


# -- a new disk ---------------------------------------------------------------------------------


def test_a_voter_with_a_new_disk_does_not_pass_for_the_one_it_was(tmp_path: Path) -> None:
    voters = Voters({n: Voter(n, bytes([n]) * 16) for n in (1, 2, 3)}, 1)
    journal = open_journal(tmp_path, voters=voters)

    def member(directory: bytes) -> RaftDriver:
        workers = InlineWorkers()
        return RaftDriver(
            journal, 1, SystemClock(), Dice(1), workers, Scripted(), directory=directory
        )

    assert member(b"\1" * 16)._machine.is_voter
    assert not member(b"n" * 16)._machine.is_voter
    assert member(b"n" * 16).own == Replica(1, b"n" * 16)


def test_what_a_voters_new_disk_has_does_not_count_as_its_old_one() -> None:
    voters = Voters({n: Voter(n, bytes([n]) * 16) for n in (1, 2, 3)}, 1)
    progress = Progress(1, voters, Millis(0))
    progress.fetched(Replica(1, b"\1" * 16), 9, 9, Millis(0))
    for directory in (b"n" * 16, ZERO_UUID):
        progress.fetched(Replica(2, directory), 9, 9, Millis(0))
        assert progress.agreed() == -1
    progress.fetched(Replica(2, b"\2" * 16), 9, 9, Millis(0))
    assert progress.agreed() == 9


def test_static_voters_are_known_by_their_id_alone() -> None:
    progress = Progress(1, THREE, Millis(0))
    progress.fetched(Replica(1), 9, 9, Millis(0))
    progress.fetched(Replica(2, b"d" * 16), 9, 9, Millis(0))
    assert progress.agreed() == 9

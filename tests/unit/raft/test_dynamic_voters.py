"""Voters come and go while the quorum runs, with real logs on disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.raft.messages import AddVoter, ChangeReply, RemoveVoter, Replica, UpdateVoter
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.snapshots import SnapshotId
from penstock.raft.voters import Voter

from .quorum import Quorum, dynamic, named, play

NONE = ErrorCode.NONE


def remove(voter: Voter) -> RemoveVoter:
    return RemoveVoter(Replica(voter.id, voter.directory))


async def add(quorum: Quorum, number: int) -> ChangeReply:
    """Ask until the new voter has copied the log."""
    for _ in range(50):
        leader = await quorum.leader()
        reply = await leader.change_voters(AddVoter(named(number)))
        if reply.error is not ErrorCode.REQUEST_TIMED_OUT:
            return reply
        await asyncio.sleep(0.1)
    raise AssertionError(reply)


async def until_all_vote_as(quorum: Quorum, *numbers: int) -> None:
    for _ in range(1000):
        if all(member.voters.ids == list(numbers) for member in quorum.members.values()):
            return
        await asyncio.sleep(0.01)
    raise AssertionError({n: m.voters.ids for n, m in quorum.members.items()})


def test_a_quorum_of_one_grows_to_three_and_survives_its_first_member(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1), 1, 2, 3)
        for number in (1, 2, 3):
            await quorum.start(number)
        await quorum.propose("a")
        assert (await add(quorum, 2)).error is NONE
        assert (await add(quorum, 3)).error is NONE
        await until_all_vote_as(quorum, 1, 2, 3)
        await quorum.crash(1)
        await quorum.propose("b")
        leader = await quorum.leader()
        assert leader.node_id in (2, 3)
        await quorum.start(1)
        await quorum.agree(await quorum.propose("c"))
        assert [quorum.names(number) for number in (1, 2, 3)] == [["a", "b", "c"]] * 3

    play(tmp_path, story)


def test_a_leader_of_one_that_got_a_second_voter_misses_it(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1), 1, 2)
        leader = await quorum.start(1)
        await quorum.start(2)
        assert (await add(quorum, 2)).error is NONE
        quorum.alone = {2}
        await asyncio.sleep(10)
        assert not leader.leading, "it could commit nothing, and clients waited there"

    play(tmp_path, story)


def test_a_leader_that_removes_itself_hands_over_when_that_is_committed(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1, 2, 3), 1, 2, 3)
        for number in (1, 2, 3):
            await quorum.start(number)
        await quorum.propose("a")
        old = await quorum.leader()
        assert (await old.change_voters(remove(named(old.node_id)))).error is NONE
        assert not old.leading
        new = await quorum.leader()
        assert new is not old
        await quorum.agree(await quorum.propose("b"))
        rest = [number for number in (1, 2, 3) if number != old.node_id]
        await until_all_vote_as(quorum, *rest)
        assert quorum.names(old.node_id) == ["a", "b"], "it goes on as an observer"
        await asyncio.sleep(20)
        assert await quorum.leader() is new, "who has no vote disturbs nobody"

    play(tmp_path, story)


def test_voters_are_found_again_after_a_restart_from_the_log_and_from_a_snapshot(
    tmp_path: Path,
) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1), 1, 2)
        await quorum.start(1)
        await quorum.start(2)
        assert (await add(quorum, 2)).error is NONE
        await quorum.agree(await quorum.propose("a"))
        member = quorum.members[2]
        await member.snapshot(member.journal.loader.image)
        for number in (1, 2):
            await quorum.crash(number)
        for number in (1, 2):
            assert quorum.open(number).voters == dynamic(1, 2)

    play(tmp_path, story)


def test_who_fetches_a_snapshot_learns_from_it_who_votes(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1), 1, 2)
        leader = await quorum.start(1)
        await quorum.propose("a")
        small = MetadataLogSettings(segment_bytes=200, retention_bytes=1)
        leader.journal.settings = small
        for name in "bcdefgh":
            await quorum.propose(name)
            await leader.snapshot(leader.journal.loader.image)
        assert leader.journal.log.start > 0
        observer = await quorum.start(2)
        await quorum.agree(await quorum.propose("z"))
        assert observer.journal.snapshot_id > SnapshotId(0, 0)
        assert observer.voters == dynamic(1)
        assert (await add(quorum, 2)).error is NONE

    play(tmp_path, story)


def test_a_change_that_only_the_old_leader_had_is_undone_with_its_log(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1, 2, 3), 1, 2, 3)
        for number in (1, 2, 3):
            await quorum.start(number)
        await quorum.propose("a")
        old = await quorum.leader()
        gone = next(number for number in (1, 2, 3) if number != old.node_id)
        quorum.alone = {old.node_id}
        reply = await old.change_voters(remove(named(gone)))
        assert reply.error is ErrorCode.REQUEST_TIMED_OUT
        assert gone not in old.voters.by_id, "what is in the log counts, committed or not"
        while old.leading:
            await asyncio.sleep(0.1)
        await quorum.leader(but=old.node_id)
        await quorum.propose("b")
        quorum.alone = set()
        await quorum.agree(await quorum.propose("c"))
        await until_all_vote_as(quorum, 1, 2, 3)

    play(tmp_path, story)


def test_one_change_at_a_time(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1, 2, 3), 1, 2, 3, 4)
        for number in (1, 2, 3, 4):
            await quorum.start(number)
        await quorum.agree(await quorum.propose("a"))
        leader = await quorum.leader()
        one, other = (number for number in (1, 2, 3) if number != leader.node_id)
        first, second = await asyncio.gather(
            leader.change_voters(remove(named(one))), leader.change_voters(remove(named(other)))
        )
        assert (first.error, second.error) == (NONE, ErrorCode.REQUEST_TIMED_OUT)
        assert other in leader.voters.by_id

    play(tmp_path, story)


def test_what_cannot_be_changed_is_refused(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1), 1, 2)
        leader = await quorum.start(1)
        observer = await quorum.start(2)
        await quorum.agree(await quorum.propose("a"))
        new_disk = named(1)._replace(directory=b"another disk...!")
        errors = [
            (await leader.change_voters(ask)).error
            for ask in (
                AddVoter(named(1)),
                AddVoter(named(9)),
                remove(named(9)),
                remove(new_disk),
                remove(named(1)),
                UpdateVoter(leader.epoch, new_disk),
                UpdateVoter(leader.epoch - 1, named(1)),
            )
        ]
        assert errors == [
            ErrorCode.DUPLICATE_VOTER,
            ErrorCode.REQUEST_TIMED_OUT,  # it cannot be reached
            ErrorCode.VOTER_NOT_FOUND,
            ErrorCode.VOTER_NOT_FOUND,
            ErrorCode.INVALID_REQUEST,  # the last one
            ErrorCode.VOTER_NOT_FOUND,
            ErrorCode.FENCED_LEADER_EPOCH,
        ]
        refused = await observer.change_voters(AddVoter(named(2)))
        assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert leader.voters == dynamic(1)

    play(tmp_path, story)


def test_a_voter_that_moved_tells_the_leader_and_a_leader_that_moved_tells_the_log(
    tmp_path: Path,
) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1, 2, 3), 1, 2, 3)
        for number in (1, 2, 3):
            quorum.known[number] = named(number, port=9999)
            await quorum.start(number)
        for _ in range(100):
            await asyncio.sleep(0.1)
            ports = {
                voter.endpoints[0].port
                for member in quorum.members.values()
                for voter in member.voters.by_id.values()
            }
            if ports == {9999}:
                return
        raise AssertionError(ports)

    play(tmp_path, story)


@pytest.mark.parametrize("lost_its_disk", [False, True])
def test_a_controller_may_join_by_itself_even_with_a_new_disk(
    tmp_path: Path, lost_its_disk: bool
) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.joins = True
        first = dynamic(1, 2, 3) if lost_its_disk else dynamic(1, 2)
        quorum.format(first, 1, 2, 3)
        if lost_its_disk:
            quorum.known[3] = named(3)._replace(directory=b"a new disk......")
        for number in (1, 2, 3):
            await quorum.start(number)
        for _ in range(200):
            await asyncio.sleep(0.1)
            voters = quorum.members[3].voters.by_id
            if 3 in voters and voters[3] == quorum.known[3]:
                break
        await quorum.agree(await quorum.propose("a"))
        assert {m.voters.by_id[3] for m in quorum.members.values()} == {quorum.known[3]}

    play(tmp_path, story)


def test_a_static_quorum_becomes_dynamic_when_every_voter_has_told_of_itself(
    tmp_path: Path,
) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.known = {number: named(number) for number in (1, 2, 3)}
        await quorum.start(1)
        await quorum.start(2)
        leader = await quorum.leader()
        refused = await leader.change_voters(remove(named(2)))
        assert refused.error is ErrorCode.UNSUPPORTED_VERSION
        early = await leader.upgrade_kraft_version(1)
        assert early.error is ErrorCode.INVALID_UPDATE_VERSION
        assert "has not said yet" in (early.message or "")
        await quorum.start(3)
        await quorum.propose("a")
        await asyncio.sleep(5)
        assert (await leader.upgrade_kraft_version(1, only_check=True)).error is NONE
        assert leader.voters.kraft_version == 0
        assert (await leader.upgrade_kraft_version(1)).error is NONE
        await quorum.agree(await quorum.propose("b"))
        assert {m.voters.kraft_version for m in quorum.members.values()} == {1}
        assert leader.voters == dynamic(1, 2, 3)
        assert (await leader.upgrade_kraft_version(0)).error is ErrorCode.INVALID_UPDATE_VERSION
        gone = next(number for number in (1, 2, 3) if number != leader.node_id)
        assert (await leader.change_voters(remove(named(gone)))).error is NONE

    play(tmp_path, story)


def test_where_voters_listen_is_told_to_those_who_ask_them(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        quorum.format(dynamic(1, 2), 1, 2)
        learnt: dict[int, tuple[str, int]] = {}
        member = quorum.open(1)
        member._peers.learn = learnt.__setitem__  # type: ignore[method-assign, assignment]
        await member.start(lambda _: None)
        assert learnt == {2: ("host2", 9093)}
        await member.close()

    play(tmp_path, story)

"""Three members of a quorum, with real logs on disk: elections, losses, returns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.model.ids import Millis
from penstock.protocol.generated.metadata_records import FeatureLevelRecord
from penstock.raft.driver import NotLeader
from penstock.testing.sim.loop import SimulatedClock, SimulatedLoop, simulate

from .quorum import LEVEL, VOTERS, Quorum, play, topic


def test_three_members_elect_one_and_copy_what_it_decides(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        leader = await quorum.leader()
        await quorum.propose("a")
        await quorum.agree(await quorum.propose("b"))
        assert {member.leader for member in quorum.members.values()} == {leader.node_id}
        assert [quorum.names(number) for number in VOTERS.ids] == [["a", "b"]] * 3

    quorum = play(tmp_path, story)
    assert len(quorum.leads) == 1


@pytest.mark.parametrize("seed", range(5))
def test_when_the_leader_dies_another_goes_on_and_nothing_committed_is_lost(
    tmp_path: Path, seed: int
) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        await quorum.propose("a")
        first = (await quorum.leader()).node_id
        await quorum.crash(first)
        await quorum.propose("b")
        await quorum.start(first)
        await quorum.agree(await quorum.propose("c"))
        assert [quorum.names(number) for number in VOTERS.ids] == [["a", "b", "c"]] * 3

    play(tmp_path, story, seed)


def test_a_leader_that_is_cut_off_resigns_and_what_it_alone_wrote_goes(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        await quorum.propose("a")
        old = await quorum.leader()
        quorum.alone.add(old.node_id)
        waits = old.committed(old.propose([topic("lost")], LEVEL))
        with pytest.raises(NotLeader):
            await waits
        await quorum.leader(but=old.node_id)
        await quorum.propose("b")
        quorum.alone.clear()
        await quorum.agree(await quorum.propose("c"))
        assert [quorum.names(number) for number in VOTERS.ids] == [["a", "b", "c"]] * 3
        assert len({member.journal.log.end for member in quorum.members.values()}) == 1

    play(tmp_path, story)


def test_a_leader_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        await quorum.propose("a")
        old = await quorum.leader()
        before = quorum.loop.now
        del quorum.members[old.node_id]
        await old.close()
        await quorum.leader()
        assert quorum.loop.now - before < 1, "the others waited until they missed it"

    play(tmp_path, story)


def test_two_of_three_are_enough_and_one_is_not(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        leader = await quorum.leader()
        one, other = (number for number in VOTERS.ids if number != leader.node_id)
        await quorum.crash(one)
        await quorum.propose("a")
        await quorum.crash(other)
        with pytest.raises(NotLeader):
            await leader.committed(leader.propose([topic("b")], LEVEL))
        assert not leader.leading

    play(tmp_path, story)


def test_a_cluster_that_lost_its_power_begins_where_it_was(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        await quorum.propose("a")
        for number in VOTERS.ids:
            await quorum.crash(number)
        await quorum.start_all()
        await quorum.agree(await quorum.propose("b"))
        assert [quorum.names(number) for number in VOTERS.ids] == [["a", "b"]] * 3

    play(tmp_path, story)


def test_proposals_begin_with_a_level(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        leader = await quorum.leader()
        record = FeatureLevelRecord(name="metadata.version", feature_level=LEVEL)
        await leader.committed(leader.propose([record], LEVEL))
        assert (
            quorum.members[leader.node_id].journal.loader.image.features.metadata_version == LEVEL
        )

    play(tmp_path, story)


def test_time_is_the_loops() -> None:
    loop = SimulatedLoop()
    clock = SimulatedClock(loop, skew_ms=5)

    async def wait() -> None:
        await asyncio.sleep(3600)

    simulate(wait(), loop)
    assert clock.monotonic() == Millis(3_600_000)
    assert clock.now() - clock.monotonic() == 1_700_000_000_005


def test_a_leader_tells_how_far_everybody_is(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        end = await quorum.propose("a")
        await quorum.agree(end)
        leader = await quorum.leader()
        silent = next(number for number in VOTERS.ids if number != leader.node_id)
        await quorum.crash(silent)
        left = quorum.clock.now()
        await asyncio.sleep(1.5)
        told = {each.replica.id: each for each in leader.replicas()}
        assert list(told) == VOTERS.ids
        assert {each.end for each in told.values()} == {end}
        assert told[leader.node_id].fetched_at == quorum.clock.now()
        assert (
            told[silent].fetched_at
            <= left
            < min(each.caught_up_at for number, each in told.items() if number != silent)
        )
        others = [member for member in quorum.members.values() if member is not leader]
        assert [member.replicas() for member in others] == [[]]

    play(tmp_path, story)

"""Each fault by itself, on three real nodes at work: who takes over, and that all is well again.

One cluster and its clients go through all of it; the last test judges what they noted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.nodes import Node
from tests.system.chaos import faults
from tests.system.chaos.disks import why_no_images
from tests.system.chaos.faults import BEYOND_SESSION, Fault
from tests.system.chaos.judge import judge
from tests.system.chaos.load import PLAIN, Load
from tests.system.chaos.run import Game, acknowledgements
from tests.system.chaos.trio import IDS, Trio

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SHORT = 1.0
SILENCE_SECONDS_MAX = 60.0
"""Seconds, the promise says, and it is some five; a machine may have much else to do."""


@pytest.fixture(scope="module")
def game(target: type[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Game]:
    """A cluster at work, on which nothing has been played yet."""
    where = tmp_path_factory.mktemp("trio")
    with Trio(where, target) as trio, Load(trio, where / "load") as load:
        playing = Game(trio, load, seed=6)
        playing.wait_progress(time.time_ns())
        yield playing


@pytest.fixture
def breakable() -> None:
    """Disks that can fail: what is missing is said, and is a failure where all must be there."""
    if (reason := why_no_images()) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI runs every test, but: {reason}", pytrace=False)
        pytest.skip(reason)


def play(game: Game, fault: Fault, lasts_seconds: float = SHORT) -> None:
    """Play a fault to its end; nodes and clients get over it."""
    kind = next(kind for kind, each in faults.possible(game.trio).items() if each is fault)
    before = len(game.problems)
    game.play_one(kind, fault, lasts_seconds)
    assert game.problems[before:] == []


def wait_deposed(game: Game, victim: int) -> None:
    """Until the others say that a node leads nothing."""
    witness = next(number for number in IDS if number != victim)
    deadline = time.monotonic() + SILENCE_SECONDS_MAX
    while victim in (leaders := game.trio.leaders_seen_by(witness, PLAIN)).values():
        assert time.monotonic() < deadline, f"node {victim} still leads: {leaders}"
        time.sleep(0.1)


@pytest.mark.parametrize(
    "fault",
    [faults.kill_leader, faults.kill_follower, faults.kill_controller, faults.kill_all],
    ids=lambda fault: fault.__name__,
)
def test_nodes_that_are_killed_are_replaced_and_come_back(game: Game, fault: Fault) -> None:
    play(game, fault)


def test_a_leader_that_was_stopped_for_longer_than_its_session_comes_back_as_a_follower(
    game: Game,
) -> None:
    victim = game.trio.members[game.trio.leader(game.load.of(PLAIN)[0])]
    began = time.monotonic()
    victim.pause()
    try:
        wait_deposed(game, victim.number)
    finally:
        time.sleep(max(0.0, BEYOND_SESSION - (time.monotonic() - began)))
        victim.resume()
    game.wait_progress(time.time_ns())
    game.trio.wait_settled()


def test_a_rolling_restart_is_hardly_noticed(game: Game) -> None:
    play(game, faults.rolling_restart, 0)


def test_a_leader_cut_from_the_controllers_only_loses_its_partitions(game: Game) -> None:
    harm = faults.cut_leader_from_controllers(game.trio, game.load.of(PLAIN), game.chance)
    told = next(harm)
    try:
        wait_deposed(game, int(told.split()[0].removeprefix("node-")))
    finally:
        next(harm, None)
    game.wait_progress(time.time_ns())
    game.trio.wait_settled()


@pytest.mark.parametrize(
    "fault",
    [faults.unplug, faults.cut_active_controller, faults.cut_clients_from_leader, faults.one_way],
    ids=lambda fault: fault.__name__,
)
def test_cut_wires_cost_seconds_and_nothing_else(game: Game, fault: Fault) -> None:
    play(game, fault, SHORT)


@pytest.mark.usefixtures("breakable")
@pytest.mark.parametrize(
    "fault",
    [faults.full_disk, faults.lost_disk, faults.power_loss],
    ids=lambda fault: fault.__name__,
)
def test_a_disk_that_is_full_or_fails_or_forgets_takes_nothing_with_it(
    game: Game, fault: Fault
) -> None:
    play(game, fault, 2 * SHORT)


def test_a_log_directory_that_is_removed_under_a_node_is_filled_again(game: Game) -> None:
    play(game, faults.lost_directory)


def test_nothing_was_lost_or_doubled_by_all_of_it_and_the_replicas_are_equal(game: Game) -> None:
    history, wrong = judge(game.trio, game.load)
    assert wrong == []
    times = acknowledgements(history)
    silences = {each.kind: round(each.silence(times), 1) for each in game.played}
    print(f"{len(history)} operations; seconds of silence: {silences}")
    served = {kind: each for kind, each in silences.items() if kind not in faults.UNSERVED}
    assert [kind for kind, each in served.items() if each > SILENCE_SECONDS_MAX] == []


@pytest.mark.usefixtures("breakable")
def test_what_was_promised_as_synced_outlives_a_power_loss_of_all_nodes_at_once(
    target: type[Node], tmp_path: Path
) -> None:
    """With flush.messages=1 an acknowledgement waits for the disks of all who are in sync."""
    config = {"log.flush.interval.messages": "1"}
    with Trio(tmp_path, target, config) as trio, Load(trio, tmp_path / "load") as load:
        game = Game(trio, load, seed=0)
        game.wait_progress(time.time_ns())
        time.sleep(SHORT)
        for member in trio.members.values():
            faults.cut_power(member)
        for member in trio.members.values():
            member.node.launch()
        game.wait_progress(time.time_ns())
        _, wrong = judge(trio, load)
    assert wrong == []

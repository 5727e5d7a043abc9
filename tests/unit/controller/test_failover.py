"""Several controllers, of which one decides: what happens when it is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.controller.config_rules import ConfigRules
from penstock.controller.decision import Settings
from penstock.controller.driver import ControllerDriver
from penstock.controller.machine import Controller
from penstock.metadata.levels import DEFAULT_LEVELS
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import describe_quorum as dq
from penstock.protocol.generated.metadata_records import BeginTransactionRecord
from penstock.raft.driver import NotLeader
from penstock.raft.format import feature_records
from tests.unit.raft.quorum import LEVEL, VOTERS, Quorum, play, topic

from .stage import CLUSTER, Stage, node_config


class Controllers:
    """A quorum whose members are controllers."""

    def __init__(self, quorum: Quorum, **settings: Any) -> None:
        self.quorum = quorum
        self.settings = settings
        self.drivers: dict[int, ControllerDriver] = {}
        self.published: dict[int, int] = {}

    async def start(self, number: int) -> ControllerDriver:
        raft = self.quorum.open(number)
        settings = Settings(CLUSTER, number, quorum=tuple(VOTERS.ids), **self.settings)
        machine = Controller(settings, ConfigRules(node_config()))
        driver = ControllerDriver(
            raft, machine, self.quorum.clock, self.quorum.dice, feature_records()
        )
        self.drivers[number] = driver
        driver.subscribe(lambda image, _: self.published.update({number: image.offset}))
        await driver.start()
        return driver

    async def start_all(self) -> None:
        for number in VOTERS.ids:
            await self.start(number)
        await self.active()

    async def active(self) -> ControllerDriver:
        for _ in range(1000):
            for number, driver in self.drivers.items():
                reachable = number not in self.quorum.alone
                if reachable and driver.active and driver.image.features.levels:
                    return driver
            await asyncio.sleep(0.01)
        raise AssertionError("no controller is active")

    async def register(self, broker: int) -> None:
        """As a broker does it: whoever leads may lose the lead before it has committed."""
        request = Stage(0).registration(broker)
        for _ in range(10):
            driver = await self.active()
            try:
                response = await driver.handle(int(ApiKey.BROKER_REGISTRATION), request)
            except NotLeader:
                continue
            assert response.error_code == 0
            return
        raise AssertionError("no controller stays active")

    async def lose(self, number: int) -> None:
        self.quorum.alone.add(number)
        self.quorum.members.pop(number)
        await self.drivers.pop(number).close()
        self.quorum.alone.discard(number)

    async def same(self) -> None:
        """Wait until all controllers have the same image."""
        for _ in range(1000):
            first, *others = (driver.image for driver in self.drivers.values())
            if all(first.offset == other.offset for other in others):
                assert all(first == other for other in others)
                return
            await asyncio.sleep(0.01)
        raise AssertionError({n: d.image for n, d in self.drivers.items()})


def test_standbys_see_what_the_active_controller_decides(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        controllers = Controllers(quorum)
        await controllers.start_all()
        await controllers.register(7)
        await controllers.same()
        for driver in controllers.drivers.values():
            assert dict(driver.image.features.levels) == DEFAULT_LEVELS
            assert list(driver.image.cluster.brokers) == [7]
        assert len(set(controllers.published.values())) == 1

    play(tmp_path, story)


@pytest.mark.parametrize("seed", range(3))
def test_the_next_controller_goes_on_where_the_lost_one_was(tmp_path: Path, seed: int) -> None:
    async def story(quorum: Quorum) -> None:
        controllers = Controllers(quorum)
        await controllers.start_all()
        await controllers.register(7)
        lost = (await controllers.active()).raft.node_id
        await controllers.lose(lost)
        await controllers.register(8)
        await controllers.start(lost)
        await controllers.register(9)
        await controllers.same()
        for driver in controllers.drivers.values():
            assert sorted(driver.image.cluster.brokers) == [7, 8, 9]

    play(tmp_path, story, seed)


def test_a_controller_that_is_cut_off_decides_nothing_and_forgets_what_it_had(
    tmp_path: Path,
) -> None:
    async def story(quorum: Quorum) -> None:
        controllers = Controllers(quorum)
        await controllers.start_all()
        await controllers.register(7)
        old = await controllers.active()
        quorum.alone.add(old.raft.node_id)
        request = Stage(0).registration(8)
        with pytest.raises(NotLeader):
            await old.handle(int(ApiKey.BROKER_REGISTRATION), request)
        assert not old.active
        await controllers.register(9)
        quorum.alone.clear()
        await controllers.register(10)
        await controllers.same()
        assert sorted(old.image.cluster.brokers) == [7, 9, 10]

    play(tmp_path, story)


def test_a_standby_refuses_to_decide(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        controllers = Controllers(quorum)
        await controllers.start_all()
        active = await controllers.active()
        standby = next(it for it in controllers.drivers.values() if it is not active)
        with pytest.raises(NotLeader):
            await standby.handle(int(ApiKey.BROKER_REGISTRATION), Stage(0).registration(7))

    play(tmp_path, story)


def test_the_active_controller_knows_how_far_the_others_are(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        controllers = Controllers(quorum)
        await controllers.start_all()
        await controllers.register(7)
        await controllers.same()
        await asyncio.sleep(1)
        active = await controllers.active()
        partition = dq.DescribeQuorumRequestPartitionData(partition_index=0)
        asked = dq.DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata", partitions=[partition]
        )
        request = dq.DescribeQuorumRequest(topics=[asked])
        answer = await active.handle(int(ApiKey.DESCRIBE_QUORUM), request)
        told = answer.topics[0].partitions[0]
        assert (told.leader_id, told.observers) == (active.raft.node_id, [])
        assert [voter.replica_id for voter in told.current_voters] == VOTERS.ids
        now = quorum.clock.now()
        for voter in told.current_voters:
            assert voter.log_end_offset == told.high_watermark == active.raft.next_offset
            assert now - 5_000 < voter.last_fetch_timestamp <= now
            assert now - 5_000 < voter.last_caught_up_timestamp <= now
        standby = next(it for it in controllers.drivers.values() if it is not active)
        with pytest.raises(NotLeader):
            await standby.handle(int(ApiKey.DESCRIBE_QUORUM), request)

    play(tmp_path, story)


def test_a_controller_that_was_away_for_long_takes_a_snapshot_and_knows_what_changed(
    tmp_path: Path,
) -> None:
    async def story(quorum: Quorum) -> None:
        controllers = Controllers(quorum)
        await controllers.start_all()
        await controllers.register(7)
        await controllers.same()
        away = next(n for n, driver in controllers.drivers.items() if not driver.active)
        await controllers.lose(away)
        await controllers.register(8)
        for driver in controllers.drivers.values():
            await driver.raft.snapshot(driver.image)
            await asyncio.sleep(0.01)  # until the journal has taken note of it
            journal = driver.raft.journal
            journal.log.advance_start(journal.snapshot_id.end)
            journal.start_epoch = journal.snapshot_id.epoch
        await controllers.start(away)
        await controllers.register(9)
        await controllers.same()
        assert sorted(controllers.drivers[away].image.cluster.brokers) == [7, 8, 9]
        assert controllers.drivers[away].raft.journal.log.start > 0

    play(tmp_path, story)


def test_a_transaction_left_open_is_ended_even_if_the_first_who_tries_is_lost_too(
    tmp_path: Path,
) -> None:
    async def story(quorum: Quorum) -> None:
        controllers = Controllers(quorum)
        await controllers.start_all()
        await controllers.register(7)
        first = await controllers.active()
        records = [BeginTransactionRecord(), topic("never")]
        await first.raft.committed(first.raft.propose(records, LEVEL))
        await controllers.same()
        cut: list[int] = []

        def cut_off_when_it_leads(number: int) -> None:
            told = controllers.drivers[number]._on_leadership

            def on_leadership(leads: bool) -> None:
                told(leads)
                if leads and not cut:
                    cut.append(number)
                    quorum.alone.add(number)

            quorum.members[number].on_leadership = on_leadership

        lost = first.raft.node_id
        await controllers.lose(lost)
        for number in controllers.drivers:
            cut_off_when_it_leads(number)
        while not cut:
            await asyncio.sleep(0.1)
        await controllers.start(lost)
        await controllers.register(8)
        quorum.alone.clear()
        await controllers.register(9)
        await controllers.same()
        for driver in controllers.drivers.values():
            assert sorted(driver.image.cluster.brokers) == [7, 8, 9]
            assert not driver.image.topics.by_name
            assert not driver.raft.journal.loader.in_transaction

    play(tmp_path, story)

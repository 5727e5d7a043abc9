from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.controller.config_rules import ConfigRules
from penstock.controller.decision import Decision, Settings
from penstock.controller.driver import ControllerDriver
from penstock.controller.machine import Controller
from penstock.metadata.configs import BROKER
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import MetadataImage
from penstock.metadata.levels import DEFAULT_LEVELS
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.model.invariants import InvariantViolated
from penstock.platform.chance import SystemChance
from penstock.platform.disk import Disk
from penstock.platform.workers import InlineWorkers, ThreadWorkers, Workers
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import create_topics as ct
from penstock.protocol.generated import describe_quorum as dq
from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.generated.metadata_records import (
    BeginTransactionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.raft.driver import NotLeader, QuorumLost, RaftDriver
from penstock.raft.format import read_bootstrap
from penstock.raft.journal import Journal
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.voters import Voter, static_voters
from penstock.storage.context import LogContext

from .stage import CLUSTER, Stage, node_config, topic


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.at = 1_700_000_000_000

    def now(self) -> Millis:
        return Millis(self.at)

    def monotonic(self) -> Millis:
        return Millis(self.at)


class Running:
    """A controller on a directory, and what it published."""

    def __init__(self, root: Path, workers: Workers | None = None, **settings: Any) -> None:
        self.clock = Clock()
        disk = Disk()
        journal = Journal(
            LogContext(disk),
            str(root),
            static_voters([Voter(1)]),
            MetadataLogSettings(**settings),
            self.clock.now(),
        )
        raft = RaftDriver(journal, 1, self.clock, SystemChance(), workers or InlineWorkers())
        machine = Controller(Settings(CLUSTER, 1, quorum=(1,)), ConfigRules(node_config()))
        self.driver = ControllerDriver(
            raft, machine, self.clock, SystemChance(), read_bootstrap(disk, str(root))
        )
        self.published: list[tuple[MetadataImage, MetadataDelta]] = []
        self.driver.subscribe(lambda image, delta: self.published.append((image, delta)))
        self.epoch = -1

    async def start(self, incarnation: bytes = b"i" * 16) -> Running:
        await self.driver.start()
        response = await self.driver.handle(
            int(ApiKey.BROKER_REGISTRATION), Stage(0).registration(1, incarnation_id=incarnation)
        )
        assert response.error_code == 0
        self.epoch = response.broker_epoch
        await self.beat(1, self.epoch)
        return self

    async def beat(self, broker: int, epoch: int, **fields: Any) -> Any:
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=epoch,
            current_metadata_offset=self.driver.image.offset,
            **fields,
        )
        return await self.driver.handle(int(ApiKey.BROKER_HEARTBEAT), request)

    async def create(self, *names: str) -> list[int]:
        request = ct.CreateTopicsRequest(topics=[topic(name) for name in names])
        response = await self.driver.handle(int(ApiKey.CREATE_TOPICS), request)
        return [result.error_code for result in response.topics]


async def test_a_new_cluster_begins_with_its_feature_levels(tmp_path: Path) -> None:
    running = Running(tmp_path)
    await running.driver.start()
    image = running.driver.image
    assert dict(image.features.levels) == DEFAULT_LEVELS
    assert image.configs.of(BROKER, "") == {"min.insync.replicas": "1"}
    await running.driver.close()


async def test_a_cluster_whose_first_leader_died_at_birth_begins_with_the_next(
    tmp_path: Path,
) -> None:
    newborn = Running(tmp_path).driver.raft
    newborn.load()
    await newborn.start(lambda _: None)
    await newborn.close()
    running = Running(tmp_path)
    await running.driver.start()
    assert dict(running.driver.image.features.levels) == DEFAULT_LEVELS
    await running.driver.close()


async def test_a_topic_is_published_before_its_creation_is_answered(tmp_path: Path) -> None:
    running = await Running(tmp_path, ThreadWorkers()).start()
    assert await running.create("a") == [0]
    image, delta = running.published[-1]
    assert image is running.driver.image
    assert list(image.topics.by_name) == ["a"]
    assert delta.topics is not None
    assert [change.name for change in delta.topics.changed.values()] == ["a"]
    await running.driver.close()


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    running = await Running(tmp_path).start()
    await running.create("a", "b")
    before = running.driver.image
    await running.driver.close()
    again = Running(tmp_path)
    await again.driver.start()
    assert again.driver.image == before
    first_image, first_delta = again.published[0]
    assert first_image == before
    assert first_delta.topics is not None
    assert len(first_delta.topics.changed) == 2
    await again.driver.close()
    third = await Running(tmp_path).start(b"n" * 16)
    assert third.driver.image.topics.by_name["a"].partitions[0].leader == 1
    await third.driver.close()


async def test_decisions_are_serial_although_they_wait_together(tmp_path: Path) -> None:
    running = await Running(tmp_path, ThreadWorkers()).start()
    answers = await asyncio.gather(*(running.create("same") for _ in range(20)))
    codes = [code for codes in answers for code in codes]
    assert codes.count(0) == 1
    assert codes.count(ErrorCode.TOPIC_ALREADY_EXISTS) == 19
    await asyncio.gather(*(running.create(f"t-{n}") for n in range(50)))
    assert len(running.driver.image.topics.by_name) == 51
    offsets = [image.offset for image, _ in running.published]
    assert offsets == sorted(offsets)
    await running.driver.close()


async def test_a_late_subscriber_is_told_everything_at_once(tmp_path: Path) -> None:
    running = await Running(tmp_path).start()
    await running.create("a")
    told: list[tuple[MetadataImage, MetadataDelta]] = []
    running.driver.subscribe(lambda image, delta: told.append((image, delta)))
    ((image, delta),) = told
    assert image is running.driver.image
    assert delta.apply(image.offset, image.epoch) == image
    await running.driver.close()


async def test_the_quorum_describes_itself(tmp_path: Path) -> None:
    running = await Running(tmp_path).start()

    async def describe(name: str) -> dq.DescribeQuorumResponse:
        request = dq.DescribeQuorumRequest(
            topics=[
                dq.DescribeQuorumRequestTopicData(
                    topic_name=name,
                    partitions=[dq.DescribeQuorumRequestPartitionData(partition_index=0)],
                )
            ]
        )
        response: dq.DescribeQuorumResponse = await running.driver.handle(
            int(ApiKey.DESCRIBE_QUORUM), request
        )
        return response

    response = await describe("__cluster_metadata")
    (partition,) = response.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch) == (1, 1)
    assert partition.high_watermark == running.driver.raft.next_offset
    assert [voter.replica_id for voter in partition.current_voters] == [1]
    assert partition.current_voters[0].log_end_offset == partition.high_watermark
    other = await describe("a")
    assert other.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await running.driver.close()


async def test_a_transaction_that_a_dead_leader_left_open_is_aborted(tmp_path: Path) -> None:
    running = await Running(tmp_path).start()
    raft = running.driver.raft
    torn = [BeginTransactionRecord(), TopicRecord(name="ghost", topic_id=b"g" * 16)]
    await raft.committed(raft.propose(torn, 30))
    await raft.close()
    again = await Running(tmp_path).start(b"n" * 16)
    assert await again.create("a") == [0]
    await again.driver.close()
    third = Running(tmp_path)
    await third.driver.start()
    assert list(third.driver.image.topics.by_name) == ["a"]
    await third.driver.close()


async def test_snapshots_are_written_when_enough_has_changed(tmp_path: Path) -> None:
    running = await Running(tmp_path, snapshot_bytes=2_000).start()
    for number in range(30):
        await running.create(f"t-{number}")
    await asyncio.sleep(0)
    before = running.driver.image
    assert running.driver.raft.journal.snapshot_id.end > 0
    await running.driver.close()
    again = Running(tmp_path)
    await again.driver.start()
    assert again.driver.image == before
    await again.driver.close()


async def test_a_silent_broker_is_fenced_by_time_alone(tmp_path: Path) -> None:
    running = await Running(tmp_path).start()
    driver = running.driver
    registration = Stage(0).registration(2)
    epoch = (await driver.handle(int(ApiKey.BROKER_REGISTRATION), registration)).broker_epoch
    await running.beat(2, epoch)
    assert driver.image.cluster.active(2)
    running.clock.at += 9_001
    await running.beat(1, running.epoch)  # heard from somebody else: looks again, at once
    await asyncio.sleep(0.1)
    assert not driver.image.cluster.active(2)
    assert driver.image.cluster.active(1)
    await driver.close()


async def test_who_hung_up_and_stays_silent_is_fenced_soon(tmp_path: Path) -> None:
    running = await Running(tmp_path).start()
    driver = running.driver
    registration = Stage(0).registration(2)
    epoch = (await driver.handle(int(ApiKey.BROKER_REGISTRATION), registration)).broker_epoch
    await running.beat(2, epoch)
    driver.hung_up(2)
    running.clock.at += 3_001
    driver._schedule_check()
    await asyncio.sleep(0.1)
    assert not driver.image.cluster.active(2)
    await driver.close()


async def test_the_end_of_an_old_connection_means_nothing(tmp_path: Path) -> None:
    running = await Running(tmp_path).start()
    driver = running.driver
    registration = Stage(0).registration(2)
    epoch = (await driver.handle(int(ApiKey.BROKER_REGISTRATION), registration)).broker_epoch
    await running.beat(2, epoch)
    old, new = object(), object()
    driver.calls_on(2, old)
    driver.calls_on(2, new)
    driver.hung_up(2, old)
    running.clock.at += 3_001
    driver._schedule_check()
    await asyncio.sleep(0.1)
    assert driver.image.cluster.active(2)
    driver.hung_up(2, new)
    running.clock.at += 3_001
    driver._schedule_check()
    await asyncio.sleep(0.1)
    assert not driver.image.cluster.active(2)
    await driver.close()


async def test_a_controller_that_was_held_up_itself_hears_brokers_out_once(tmp_path: Path) -> None:
    running = await Running(tmp_path).start()
    driver = running.driver
    registration = Stage(0).registration(2)
    epoch = (await driver.handle(int(ApiKey.BROKER_REGISTRATION), registration)).broker_epoch

    async def held_up() -> bool:
        """The whole process pauses for long; whether broker 2 is still there after it."""
        due = running.clock.at + 9_001
        running.clock.at += 60_000
        driver._look_for_silent(due)
        await asyncio.sleep(0.1)
        return driver.image.cluster.active(2)

    await running.beat(2, epoch)
    assert await held_up()
    await running.beat(2, epoch)
    assert await held_up()
    assert not await held_up()  # and again, without a word: the broker is dead all the same
    await driver.close()


async def test_a_heartbeat_that_was_not_read_yet_counts(tmp_path: Path) -> None:
    """After a short hold-up timers come first, and then what waits in the sockets."""
    running = await Running(tmp_path).start()
    driver = running.driver
    registration = Stage(0).registration(2)
    epoch = (await driver.handle(int(ApiKey.BROKER_REGISTRATION), registration)).broker_epoch
    await running.beat(2, epoch)
    running.clock.at += 9_500
    driver._look_for_silent(running.clock.at - 499)
    for _ in range(5):  # others are heard from meanwhile, which must not put it off for ever
        await running.beat(1, running.epoch)
    await running.beat(2, epoch)
    await asyncio.sleep(0.1)
    assert driver.image.cluster.active(2)
    running.clock.at += 9_500
    driver._look_for_silent(running.clock.at - 499)
    for _ in range(10):
        await running.beat(1, running.epoch)
        await asyncio.sleep(0.01)
    assert not driver.image.cluster.active(2)
    await driver.close()


async def test_records_that_make_no_sense_never_reach_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await Running(tmp_path).start()
    before = running.driver.raft.next_offset
    nonsense = Decision([RemoveTopicRecord(topic_id=b"?" * 16)], None)
    with monkeypatch.context() as patched:
        patched.setattr(Controller, "decide", lambda *_, **__: nonsense)
        with pytest.raises(InvariantViolated):
            await running.create("a")
    assert running.driver.raft.next_offset == before
    assert await running.create("a") == [0]
    await running.driver.close()


async def test_a_node_that_cannot_follow_its_own_metadata_stops(tmp_path: Path) -> None:
    running = Running(tmp_path)
    failures: list[BaseException] = []
    await running.driver.start(failures.append)

    def stumble(image: MetadataImage, delta: MetadataDelta) -> None:
        raise InvariantViolated("this cannot be")

    running.driver._subscribers.append(stumble)
    async with asyncio.timeout(5):
        with pytest.raises(QuorumLost, match="this cannot be"):
            await running.driver.handle(int(ApiKey.BROKER_REGISTRATION), Stage(0).registration(1))
    assert [str(each) for each in failures] == ["this cannot be"]
    await running.driver.close()


async def test_nothing_is_decided_after_the_end(tmp_path: Path) -> None:
    running = await Running(tmp_path).start()
    await running.driver.close()
    with pytest.raises(NotLeader):
        await running.create("late")

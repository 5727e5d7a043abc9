"""What a controller that runs does without being asked, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from penstock.metadata.topics import PartitionImage
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import alter_partition as ap
from penstock.protocol.generated import create_topics as ct
from penstock.protocol.generated import incremental_alter_configs as iac
from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from tests.unit.raft.quorum import Quorum, play

from .stage import Stage, manual
from .test_failover import Controllers

LONG = {"session_timeout_ms": 1 << 40}
"""Nobody is fenced for being silent: these brokers say what they have to say, and no more."""


class Brokers:
    """Two brokers, 7 and 8, that talk to whichever controller is active."""

    def __init__(self, controllers: Controllers) -> None:
        self.controllers = controllers
        self.epochs: dict[int, int] = {}

    async def ask(self, api: ApiKey, request: Any) -> Any:
        return await (await self.controllers.active()).handle(int(api), request)

    async def start(self) -> None:
        for broker in (7, 8):
            answer = await self.ask(ApiKey.BROKER_REGISTRATION, Stage(0).registration(broker))
            self.epochs[broker] = answer.broker_epoch
            await self.beat(broker)

    async def beat(self, broker: int, **fields: Any) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.epochs[broker],
            current_metadata_offset=1 << 40,
            **fields,
        )
        assert (await self.ask(ApiKey.BROKER_HEARTBEAT, request)).error_code == 0

    async def create(self, *nodes: int) -> None:
        request = ct.CreateTopicsRequest(topics=[manual("t", list(nodes))])
        assert (await self.ask(ApiKey.CREATE_TOPICS, request)).topics[0].error_code == 0

    async def partition(self) -> PartitionImage:
        found = (await self.controllers.active()).image.topics.partition("t", 0)
        assert found is not None
        return found

    async def in_sync(self, leader: int, *isr: int) -> None:
        state = await self.partition()
        image = (await self.controllers.active()).image
        wanted = ap.AlterPartitionRequestPartitionData(
            partition_index=0,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr_with_epochs=[
                ap.BrokerState(broker_id=node, broker_epoch=self.epochs[node]) for node in isr
            ],
        )
        topic = ap.AlterPartitionRequestTopicData(
            topic_id=image.topics.by_name["t"].id, partitions=[wanted]
        )
        request = ap.AlterPartitionRequest(
            broker_id=leader, broker_epoch=self.epochs[leader], topics=[topic]
        )
        answer = await self.ask(ApiKey.ALTER_PARTITION, request)
        assert answer.topics[0].partitions[0].error_code == 0


def told(tmp_path: Path, story: Callable[[Brokers], Awaitable[None]], **settings: Any) -> None:
    async def whole(quorum: Quorum) -> None:
        controllers = Controllers(quorum, **LONG, **settings)
        await controllers.start_all()
        brokers = Brokers(controllers)
        await brokers.start()
        await story(brokers)

    play(tmp_path, whole)


async def away_and_back(brokers: Brokers) -> None:
    """Broker 7 goes and returns: 8 leads, and 7 is in sync."""
    await brokers.create(7, 8)
    await brokers.beat(7, want_fence=True)
    await brokers.beat(7)
    await brokers.in_sync(8, 8, 7)
    assert (await brokers.partition()).leader == 8


def test_leadership_goes_back_to_the_preferred_replica_in_time(tmp_path: Path) -> None:
    async def story(brokers: Brokers) -> None:
        await away_and_back(brokers)
        await asyncio.sleep(299)
        assert (await brokers.partition()).leader == 8
        await asyncio.sleep(5)
        assert (await brokers.partition()).leader == 7

    told(tmp_path, story)


def test_the_next_controller_goes_on_looking_after_leadership(tmp_path: Path) -> None:
    async def story(brokers: Brokers) -> None:
        await away_and_back(brokers)
        lost = (await brokers.controllers.active()).raft.node_id
        await brokers.controllers.lose(lost)
        await asyncio.sleep(310)
        assert (await brokers.partition()).leader == 7

    told(tmp_path, story)


def test_leadership_stays_where_it_is_if_the_operator_says_so(tmp_path: Path) -> None:
    async def story(brokers: Brokers) -> None:
        await away_and_back(brokers)
        await asyncio.sleep(1000)
        assert (await brokers.partition()).leader == 8

    told(tmp_path, story, balance_seconds=None)


def test_a_topic_that_comes_to_allow_unclean_elections_does_not_wait_for_one(
    tmp_path: Path,
) -> None:
    async def story(brokers: Brokers) -> None:
        await brokers.create(7, 8)
        await brokers.beat(8, want_fence=True)
        await brokers.beat(7, want_fence=True)
        await brokers.beat(8)
        assert (await brokers.partition()).leader == -1
        allow = iac.AlterableConfig(name="unclean.leader.election.enable", value="true")
        resource = iac.AlterConfigsResource(resource_type=2, resource_name="t", configs=[allow])
        request = iac.IncrementalAlterConfigsRequest(resources=[resource])
        answer = await brokers.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        assert answer.responses[0].error_code == 0
        await asyncio.sleep(1)
        state = await brokers.partition()
        assert (state.leader, state.recovering) == (8, True)

    told(tmp_path, story)

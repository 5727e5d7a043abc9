"""Both coordinators, Apache's and ours, in one conversation with the members of a streams group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.generated.streams_group_describe import StreamsGroupDescribeRequest
from penstock.protocol.generated.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
)
from tests.unit.coordination.consumer import talk

CONFIG = {
    **talk.CONFIG,
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "4",
}

_GROUP = 32
_SET = 0

LATE_MAX = 20
"""How often Kafka's coordinator is asked again for what it has not heard of yet."""

Owned = dict[str, list[int]]


class Side(talk.Side):
    """One of the two brokers. Of a status its number is compared, its words are not."""

    def facts(self, part: Any) -> Any:
        return part.status_code if isinstance(part, Status) else super().facts(part)


class StreamsConversation(talk.Conversation):
    """A streams group on both sides."""

    async def say(  # type: ignore[override]
        self,
        member_id: str,
        epoch: int,
        active: Owned | None = None,
        standby: Owned | None = None,
        **fields: Any,
    ) -> Any:
        """One heartbeat to both; answers ours when all is equal.

        Ours tells a member again what it should have if it says to have something else.
        """
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 30_000, "process_id": member_id, **fields}
            active = {} if active is None else active
        if active is not None:
            fields = {
                "active_tasks": _ids(active),
                "standby_tasks": _ids(standby or {}),
                "warmup_tasks": [],
                **fields,
            }
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group_id, member_id=member_id, member_epoch=epoch, **fields
        )
        answers = [await side.asker.ask(request, 0) for side in self.sides]
        for _ in range(LATE_MAX):
            if codes(answers[0]) == codes(answers[1]):
                break
            # It has not heard of a topic yet. Who asks again changes nothing.
            await asyncio.sleep(talk.SETTLING_SECONDS)
            answers[0] = await self.sides[0].asker.ask(request, 0)
        if answers[0].active_tasks is None and active is not None:
            for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
                setattr(answers[1], kind, None)
        self._compare(answers)
        self._compare([await self._described(side) for side in self.sides])
        return answers[1]

    async def wait_for_topics(self, *names: str) -> None:
        """Both have made these internal topics, and alike."""
        found: list[Any] = []
        for side in self.sides:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in names],
                allow_auto_topic_creation=False,
            )
            for _ in range(200):
                topics = (await side.asker.ask(request, 12)).topics
                if not any(it.error_code for it in topics):
                    break
                await asyncio.sleep(0.05)
            assert not any(it.error_code for it in topics), topics
            side.ids |= {it.name: it.topic_id for it in topics}
            configs = [await self._configs(side, name) for name in names]
            found.append([{it.name: len(it.partitions) for it in topics}, configs])
        assert found[0] == found[1]
        await asyncio.sleep(talk.SETTLING_SECONDS)

    async def _configs(self, side: talk.Side, topic: str) -> dict[str, str | None]:
        asked = DescribeConfigsResource(
            resource_type=2,
            resource_name=topic,
            configuration_keys=["cleanup.policy", "retention.ms"],
        )
        answer = await side.asker.ask(DescribeConfigsRequest(resources=[asked]), 4)
        return {it.name: it.value for it in answer.results[0].configs}

    async def configure(self, key: str, value: str) -> None:
        """The group gets a configuration of its own."""
        for side in self.sides:
            change = AlterConfigsResource(
                resource_type=_GROUP,
                resource_name=self.group_id,
                configs=[AlterableConfig(name=key, config_operation=_SET, value=value)],
            )
            answer = await side.asker.ask(IncrementalAlterConfigsRequest(resources=[change]), 1)
            assert answer.responses[0].error_code == ErrorCode.NONE, answer
        await asyncio.sleep(talk.SETTLING_SECONDS)

    async def compare_records(self) -> list[Any]:
        """Both have written the same; answers ours."""
        theirs, ours = [await side.records(self.group_id) for side in self.sides]
        assert _kinds(ours) == _kinds(theirs), f"{_kinds(ours)} != {_kinds(theirs)}"
        assert ours == theirs, list(_differences(ours, theirs))
        return ours

    def _compare(self, answers: list[Any]) -> None:
        theirs, ours = (side.facts(it) for side, it in zip(self.sides, answers, strict=True))
        assert ours == theirs, list(_differences(ours, theirs))

    async def _described(self, side: talk.Side) -> Any:
        asked = StreamsGroupDescribeRequest(
            group_ids=[self.group_id], include_authorized_operations=True
        )
        return (await side.asker.ask(asked, 0)).groups


def codes(answer: Any) -> list[int]:
    """What a member is told besides its tasks."""
    return [it.status_code for it in answer.status]


def _ids(tasks: Owned) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    return [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=it, partitions=numbers)
        for it, numbers in tasks.items()
    ]


def _kinds(batches: list[list[Any]]) -> list[list[tuple[str, bool]]]:
    """Which records there are, and whether they have a value."""
    return [[(it[0], it[2] is not None) for it in batch] for batch in batches]


def _differences(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """Where two answers differ, ours first."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for key in ours:
            yield from _differences(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(our, their, f"{where}[{at}]")
    elif ours != theirs:
        yield f"{where}: {ours!r} != {theirs!r}"

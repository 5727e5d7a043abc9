"""Both coordinators, Apache's and ours, in one conversation with the members of a share group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.protocol.generated import alter_share_group_offsets as altering
from penstock.protocol.generated import delete_share_group_offsets as deleting
from penstock.protocol.generated import describe_share_group_offsets as describing
from penstock.protocol.generated.delete_groups import DeleteGroupsRequest
from penstock.protocol.generated.list_groups import ListGroupsRequest
from penstock.protocol.generated.share_group_describe import ShareGroupDescribeRequest
from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.protocol.message import Message
from tests.unit.coordination.consumer import talk
from tests.unit.coordination.consumer.talk import Side

CONFIG = {
    **talk.CONFIG,
    "group.share.assignment.interval.ms": "0",
    "group.share.max.size": "4",
    "share.coordinator.state.topic.num.partitions": "1",
}

READINESS = "ShareGroupStatePartitionMetadataKey"


TRIES_MAX = 100


class ShareConversation(talk.Conversation):
    """A share group on both sides."""

    async def create_in_order(self, name: str) -> None:
        """A topic of two partitions which Java's hash tables walk in their order, as we do.

        Where all members want the same, Apache's assignor takes partitions as they come from a
        table; and how they come depends on the topic's id, which is another each time.
        """
        for _ in range(TRIES_MAX):
            await self.create(name, 2)
            if _comes_first(self.sides[0].ids[name], 0, 1):
                return
            await self.delete(name)
        raise AssertionError("no topic id was to our liking")

    async def say(  # type: ignore[override]
        self, member_id: str, epoch: int, *topics: str, settles: bool = True, **fields: Any
    ) -> Any:
        """One heartbeat to both; answers ours when all is equal, and nothing is begun any more.

        How soon a member shall come again is each side's own affair: ours is in more of a hurry.
        """
        if topics:
            fields["subscribed_topic_names"] = list(topics)
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=member_id, member_epoch=epoch, **fields
        )
        answers = [await side.asker.ask(request, 1) for side in self.sides]
        intervals = [answer.heartbeat_interval_ms for answer in answers]
        answers[1].heartbeat_interval_ms = intervals[0] if intervals[1] else 0
        self._compare(answers)
        if settles:
            for side in self.sides:
                await self._settle(side)
        self._compare([await self._described(side) for side in self.sides])
        answers[1].heartbeat_interval_ms = intervals[1]
        return answers[1]

    async def ask(self, version: int, make: Callable[[Side], Message]) -> Any:
        """One request of any other kind to both."""
        answers = [await side.asker.ask(make(side), version) for side in self.sides]
        self._compare(answers)
        for side in self.sides:
            await self._settle(side)
        return answers[1]

    async def _settle(self, side: Side) -> None:
        for _ in range(200):
            batches = await side.records(self.group_id)
            said = [it for batch in batches for it in batch if it[0] == READINESS]
            if not said or said[-1][2] is None or not said[-1][2]["initializing_topics"]:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"partitions are not ready: {said[-1]}")

    async def _described(self, side: Side) -> Any:
        asked = ShareGroupDescribeRequest(
            group_ids=[self.group_id], include_authorized_operations=True
        )
        return (await side.asker.ask(asked, 1)).groups

    async def describe_offsets(self, topics: dict[str, list[int]] | None = None) -> Any:
        """DescribeShareGroupOffsets of all that is known, or of these."""
        group = describing.DescribeShareGroupOffsetsRequestGroup(
            group_id=self.group_id, topics=None
        )
        if topics is not None:
            group.topics = [
                describing.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=some)
                for name, some in topics.items()
            ]
        request = describing.DescribeShareGroupOffsetsRequest(groups=[group])
        await self.ask(0, lambda _: request)
        return await self.ask(1, lambda _: request)

    async def alter_offsets(self, topics: dict[str, dict[int, int]]) -> Any:
        """AlterShareGroupOffsets."""
        request = altering.AlterShareGroupOffsetsRequest(
            group_id=self.group_id,
            topics=[
                altering.AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=[
                        altering.AlterShareGroupOffsetsRequestPartition(
                            partition_index=number, start_offset=offset
                        )
                        for number, offset in starts.items()
                    ],
                )
                for name, starts in topics.items()
            ],
        )
        return await self.ask(0, lambda _: request)

    async def delete_offsets(self, *topics: str) -> Any:
        """DeleteShareGroupOffsets."""
        request = deleting.DeleteShareGroupOffsetsRequest(
            group_id=self.group_id,
            topics=[deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=it) for it in topics],
        )
        return await self.ask(0, lambda _: request)

    async def delete_group(self) -> Any:
        return await self.ask(2, lambda _: DeleteGroupsRequest(groups_names=[self.group_id]))

    async def list_groups(self) -> None:
        """Both list the group alike."""
        request = ListGroupsRequest(types_filter=["Share"])
        listed = [(await side.asker.ask(request, 5)).groups for side in self.sides]
        self._compare([[it for it in some if it.group_id == self.group_id] for some in listed])
        assert listed[1]


def _comes_first(topic_id: bytes, some: int, other: int) -> bool:
    """Whether Java finds one partition before another, in small tables."""
    high, low = (int.from_bytes(half) for half in (topic_id[:8], topic_id[8:]))
    mixed = high ^ low
    of_topic = (mixed >> 32 ^ mixed) & 0xFFFFFFFF
    codes = [(31 * of_topic + partition) & 0xFFFFFFFF for partition in (some, other)]
    first, second = (code ^ code >> 16 for code in codes)
    return all(first % size < second % size for size in (4, 16))

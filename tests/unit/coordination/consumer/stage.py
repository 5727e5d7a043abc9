"""A shard on a stage: its log is a list, its time moves when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from penstock.coordination.effects import Effects, Moment, NewRecord
from penstock.coordination.group.classic.heartbeats import heartbeat as classic_heartbeat
from penstock.coordination.group.classic.joining import Join, join
from penstock.coordination.group.classic.leaving import leave
from penstock.coordination.group.classic.syncing import Sync, sync
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.heartbeat import Client, heartbeat
from penstock.coordination.group.consumer.regexes import Resolution, on_resolved
from penstock.coordination.group.settings import GroupSettings
from penstock.coordination.group.shard import GroupShard
from penstock.coordination.runtime import TIMER_RETRY_MS
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY, MetadataImage
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from penstock.protocol.generated.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from penstock.protocol.generated.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.protocol.record_frames import GROUP
from tests.unit.coordination.driving import Counting

NOON = 1_700_000_000_000
SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 45_000, 5_000, 30_000
CLIENT = Client("client", "/127.0.0.1")
GROUP_ID = "group"
GROUP_CONFIG = 32


def topic_id(name: str) -> bytes:
    return name.encode().rjust(16, b".")


class Waiting:
    """A request and, sooner or later, its reply."""

    def __init__(self) -> None:
        self.reply: Any = None


class Stage:
    """Runs steps as the runtime does, but for the waiting: what is appended is committed."""

    def __init__(self, config: dict[str, str] | None = None) -> None:
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "group.consumer.assignment.interval.ms": "0",
            "group.initial.rebalance.delay.ms": "0",
            **(config or {}),
        }
        self.settings = GroupSettings.of(NodeConfig.of(properties))
        self.image: MetadataImage = EMPTY
        self.mono = 1_000
        self.log: list[NewRecord] = []
        self.refusing: ErrorCode | None = None
        """Set: the log takes nothing."""
        self.resolves = True
        """Whether regular expressions are resolved at once."""
        self.sees: Callable[[str], bool] | None = None
        """Which topics those who speak from now on may know of."""
        self.errands: list[Resolution] = []
        self.chance = Counting()
        self._open()

    def _open(self) -> None:
        self.shard = GroupShard(0, self.settings, self.chance)
        self.timers: dict[Hashable, Millis] = {}

    def restart(self) -> None:
        """Another coordinator takes over, and knows what the log knows."""
        self._open()
        for offset, record in enumerate(self.log):
            self.shard.replay(offset, record.key, record.value, -1)
        self.step(self.shard.on_loaded)
        self.step(lambda at, out: self.shard.on_image(self.image, None, at, out))

    @property
    def at(self) -> Moment:
        return Moment(Millis(NOON + self.mono), Millis(self.mono))

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.groups[GROUP_ID]
        assert isinstance(group, ConsumerGroup)
        return group

    def step(self, act: Callable[[Moment, Effects], None]) -> Effects:
        """Decide, append, replay, let the effects out."""
        out = Effects()
        act(self.at, out)
        if out.records and self.refusing is not None:
            amends = Effects()
            if out.undo is not None:
                out.undo(self.refusing, amends)
            return out
        for record in out.records:
            GROUP.write_key(record.key)
            if record.value is not None:
                GROUP.write_value(record.value, record.version)
            self.shard.replay(len(self.log), record.key, record.value, -1)
            self.log.append(record)
        for key in out.cancelled:
            self.timers.pop(key, None)
        self.timers |= out.timers
        for ticket, response in out.replies:
            assert isinstance(ticket, Waiting)
            ticket.reply = response
        self.errands += out.errands
        while self.errands and self.resolves:
            self.resolve()
        return out

    def resolve(self) -> None:
        """Run an errand, as a worker does."""
        errand = self.errands.pop(0)
        found = errand.shown(errand.run())
        self.step(lambda at, out: on_resolved(self.shard, found, errand.group_id, at, out))

    def advance(self, span_ms: int) -> None:
        """Let time pass, timers and all."""
        end = self.mono + span_ms
        while True:
            due = [(at, key) for key, at in self.timers.items() if at <= end]
            if not due:
                break
            when, key = min(due, key=lambda it: it[0])
            del self.timers[key]
            self.mono = max(self.mono, when)
            out = self.step(lambda at, out, key=key: self.shard.on_timer(key, at, out))  # type: ignore[misc]
            if out.records and self.refusing is not None:
                self.timers[key] = Millis(self.mono + TIMER_RETRY_MS)
        self.mono = end

    # -- the cluster around it --------------------------------------------------------------------

    def change(self, *records: Any) -> None:
        """Metadata records are committed."""
        delta = MetadataDelta(self.image).replay_all(records)
        self.image = image = delta.apply(self.image.offset + 1, 1)
        self.step(lambda at, out: self.shard.on_image(image, delta, at, out))

    def topic(self, name: str, partitions: int, first: int = 0) -> None:
        """A topic is made, or grows."""
        made = [] if first else [TopicRecord(name=name, topic_id=topic_id(name))]
        more = [
            PartitionRecord(
                partition_id=number, topic_id=topic_id(name), replicas=[1], isr=[1], leader=1
            )
            for number in range(first, partitions)
        ]
        self.change(*made, *more)

    def delete_topic(self, name: str) -> None:
        self.change(RemoveTopicRecord(topic_id=topic_id(name)))

    def configure(self, key: str, value: str) -> None:
        """The group gets a configuration of its own."""
        self.change(
            ConfigRecord(resource_type=GROUP_CONFIG, resource_name=GROUP_ID, name=key, value=value)
        )

    # -- members ----------------------------------------------------------------------------------

    def say(
        self, member_id: str, epoch: int, owned: dict[str, list[int]] | None = None, **fields: Any
    ) -> Any:
        """A heartbeat, and its answer; None if there is none as the log refuses."""
        if epoch == 0:
            owned = owned or {}
            fields = {"rebalance_timeout_ms": REBALANCE_MS, **fields}
        topics = None
        if owned is not None:
            topics = [
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=topic_id(name), partitions=numbers
                )
                for name, numbers in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP_ID,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=topics,
            **fields,
        )
        ticket = Waiting()
        client = CLIENT._replace(sees=self.sees)
        self.step(lambda at, out: heartbeat(self.shard, at, out, ticket, request, client))
        return ticket.reply

    def join(self, member_id: str, *topics: str, **fields: Any) -> Any:
        """A first heartbeat, which must succeed."""
        answer = self.say(member_id, 0, subscribed_topic_names=list(topics), **fields)
        assert answer.error_code == 0, answer
        return answer

    def settle(self, *member_ids: str) -> None:
        """Members send heartbeats, and let go of what they must, until nothing changes."""
        for _ in range(8):
            for member_id in member_ids or tuple(self.group.members):
                member = self.group.members[member_id]
                owned = {
                    topic.lstrip(b".").decode(): list(numbers)
                    for topic, numbers in member.assigned.items()
                }
                answer = self.say(member_id, member.epoch, owned, instance_id=member.instance_id)
                assert answer.error_code == 0, answer

    def held(self, member_id: str) -> dict[str, list[int]]:
        """What a member holds."""
        assigned = self.group.members[member_id].assigned
        return {name.lstrip(b".").decode(): sorted(has) for name, has in assigned.items()}

    # -- members that speak the classic protocol --------------------------------------------------

    def classic_join(
        self,
        member_id: str,
        *topics: str,
        owned: dict[str, list[int]] | None = None,
        instance_id: str | None = None,
        said: bytes | None = None,
        names: tuple[str, ...] = ("range",),
    ) -> Waiting:
        if said is None:
            data = bytearray(b"\0\1")
            ConsumerProtocolSubscription(
                topics=list(topics),
                owned_partitions=[
                    ConsumerProtocolSubscriptionTopicPartition(topic=name, partitions=numbers)
                    for name, numbers in (owned or {}).items()
                ],
            ).write(1, data)
            said = bytes(data)
        asked = Join(
            group_id=GROUP_ID,
            member_id=member_id,
            instance_id=instance_id,
            client_id=CLIENT.client_id,
            client_host=CLIENT.host,
            protocol_type="consumer",
            protocols=tuple((name, said) for name in names),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            id_first=False,
            can_skip=True,
            sees=self.sees,
        )
        ticket = Waiting()
        self.step(lambda at, out: join(self.shard, at, out, ticket, asked))
        self.advance(0)  # a new group does not wait for others
        return ticket

    def classic_sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None
    ) -> Waiting:
        ticket = Waiting()
        asked = Sync(GROUP_ID, member_id, None, generation, "consumer", None, assignments or {})
        self.step(lambda at, out: sync(self.shard, at, out, ticket, asked))
        return ticket

    def classic_beat(self, member_id: str, generation: int) -> ErrorCode:
        errors: list[ErrorCode] = []
        self.step(
            lambda at, out: errors.append(
                classic_heartbeat(self.shard, at, out, GROUP_ID, member_id, None, generation)
            )
        )
        return errors[0]

    def classic_leave(self, *member_ids: str) -> list[ErrorCode]:
        errors: list[ErrorCode] = []
        leavers = [(it, None) for it in member_ids]
        self.step(lambda at, out: errors.extend(leave(self.shard, at, out, GROUP_ID, leavers)))
        return errors

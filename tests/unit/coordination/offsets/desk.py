"""A shard to ask about offsets: steps are decided, replayed, and looked at."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from penstock.coordination.effects import Effects, Moment, Producer
from penstock.coordination.group.offsets.committed import Committed, unpack
from penstock.coordination.group.offsets.committing import Commit, Entry, commit_offsets
from penstock.coordination.group.settings import GroupSettings
from penstock.coordination.group.shard import GroupShard
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated import offset_commit
from penstock.protocol.generated.offset_commit import OffsetCommitResponse

DAY_MS = 24 * 60 * 60 * 1000
NOON = 1_700_000_000_000
TOPIC_ID = b"t" * 16

CONFIG = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/nowhere",
}


class Desk:
    """One shard, its clock and its log."""

    def __init__(self, **config: str) -> None:
        named = {key.replace("_", "."): value for key, value in config.items()}
        self.settings = GroupSettings.of(NodeConfig.of(CONFIG | named))
        self.shard = GroupShard(0, self.settings, None)  # type: ignore[arg-type]
        self.now = NOON
        self.end = 0
        self.timers: dict[Hashable, Millis] = {}

    # -- steps ------------------------------------------------------------------------------------

    def step(self, act: Callable[..., None]) -> Any:
        """Decide, append, replay; answers the reply."""
        out = self.decide(act)
        self.replay(out)
        self.timers.update(out.timers)
        return out.replies[0][1] if out.replies else None

    def decide(self, act: Callable[..., None]) -> Effects:
        out = Effects()
        act(self.shard, Moment(Millis(self.now), Millis(self.now)), out, "ticket")
        return out

    def replay(self, out: Effects) -> None:
        producer_id = -1 if out.producer is None else out.producer.id
        for record in out.records:
            self.shard.replay(self.end, record.key, record.value, producer_id)
            self.end += 1

    def end_txn(self, producer_id: int, is_commit: bool) -> None:
        self.shard.replay_end_txn(producer_id, 0, is_commit)
        self.end += 1

    def fire(self, *key: str) -> int:
        """A timer comes due; answers how many records that led to."""
        out = self.decide(lambda shard, at, out, _: shard.on_timer(key, at, out))
        self.replay(out)
        self.timers.update(out.timers)
        return len(out.records)

    # -- offsets ----------------------------------------------------------------------------------

    def commit(
        self,
        group: str,
        offset: int,
        topic: str = "t",
        partition: int = 0,
        *,
        producer: int | None = None,
        **options: Any,
    ) -> ErrorCode:
        """Commit one offset; answers the error at its partition."""
        answer = offset_commit.OffsetCommitResponsePartition(partition_index=partition)
        topic_id, metadata = options.pop("topic_id", TOPIC_ID), options.pop("metadata", "")
        commit = Commit(
            group_id=group,
            member_id=options.pop("member_id", ""),
            instance_id=None,
            generation=options.pop("generation", -1),
            version=options.pop("version", 9),
            entries=[Entry(topic, topic_id, partition, offset, -1, metadata, answer)],
            response=_response(answer),
            producer=None if producer is None else Producer(producer, 0),
            **options,
        )
        response = self.step(
            lambda shard, at, out, ticket: commit_offsets(shard, at, out, ticket, commit)
        )
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def committed(self, group: str, topic: str = "t", partition: int = 0) -> Committed | None:
        packed = self.shard.offsets.find(group, topic, partition)
        return None if packed is None else unpack(packed)

    def offset(self, group: str, topic: str = "t", partition: int = 0) -> int | None:
        found = self.committed(group, topic, partition)
        return None if found is None else found.offset


def _response(answer: offset_commit.OffsetCommitResponsePartition) -> OffsetCommitResponse:
    topic = offset_commit.OffsetCommitResponseTopic(name="t", partitions=[answer])
    return OffsetCommitResponse(topics=[topic])

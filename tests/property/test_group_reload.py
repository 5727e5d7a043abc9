"""Whatever happens to groups and offsets, who loads the log knows what its writer knew.

After every step a second shard is made of the log's bytes, and a third of what compaction would
leave of them; in all that is meant to last they equal the shard that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.coordination.effects import Effects, Moment, Producer
from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.states import State
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.deleting import delete_group, delete_offsets
from penstock.coordination.group.offsets.committing import Commit, Entry, commit_offsets
from penstock.coordination.group.shard import GroupShard
from penstock.protocol.generated import offset_commit
from penstock.protocol.generated.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.record_frames import GROUP
from tests.unit.coordination.consumer.stage import GROUP_ID, Stage, Waiting, topic_id
from tests.unit.coordination.driving import Counting

DAY_MS = 24 * 60 * 60 * 1000
MEMBERS = st.sampled_from(["a", "b", "c"])
GROUPS = st.sampled_from([GROUP_ID, "other"])
TOPICS = st.sampled_from(["t", "u"])
PRODUCERS = st.sampled_from([None, None, 7, 8])


class Entered(NamedTuple):
    """A record in the log, as bytes; or, without a key, the end of a producer's transaction."""

    offset: int
    producer_id: int
    key: bytes = b""
    value: bytes | None = None
    is_commit: bool = False


class Writer(Stage):
    """A stage whose log is bytes, and knows of transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.entered: list[Entered] = []

    def step(self, act: Callable[[Moment, Effects], None]) -> Effects:
        out = Effects()
        act(self.at, out)
        producer_id = -1 if out.producer is None else out.producer.id
        for record in out.records:
            value = record.value
            data = None if value is None else GROUP.write_value(value, record.version)
            offset = len(self.entered)
            self.entered.append(Entered(offset, producer_id, GROUP.write_key(record.key), data))
            self.shard.replay(offset, record.key, record.value, producer_id)
        for key in out.cancelled:
            self.timers.pop(key, None)
        self.timers |= out.timers
        for ticket, response in out.replies:
            ticket.reply = response  # type: ignore[attr-defined]
        self.errands += out.errands
        while self.errands:
            self.resolve()
        return out

    def end_txn(self, producer_id: int, is_commit: bool) -> None:
        self.entered.append(Entered(len(self.entered), producer_id, is_commit=is_commit))
        self.shard.replay_end_txn(producer_id, 0, is_commit)

    def load(self, entered: list[Entered]) -> GroupShard:
        """As the loader does, short cut included."""
        shard = GroupShard(0, self.settings, Counting())
        quick = shard.quick_replay()
        for it in entered:
            if not it.key:
                shard.replay_end_txn(it.producer_id, 0, it.is_commit)
                continue
            data = None if it.value is None else memoryview(it.value)
            if it.producer_id >= 0 or not quick.replay(memoryview(it.key), data):
                key = GROUP.read_key(it.key)
                value = None if data is None else GROUP.read_value(key.API_KEY, data)[0]
                shard.replay(it.offset, key, value, it.producer_id)
                quick.forget()
        return shard


def compacted(entered: list[Entered]) -> list[Entered]:
    """What is left when everything that may go is gone: up to the first open transaction, only
    the last record of each key, nothing aborted, no tombstones, no markers of nothing."""
    open_since: dict[int, int] = {}
    aborted: set[int] = set()
    in_txn: dict[int, list[int]] = {}
    for it in entered:
        if it.key and it.producer_id >= 0:
            open_since.setdefault(it.producer_id, it.offset)
            in_txn.setdefault(it.producer_id, []).append(it.offset)
        elif not it.key:
            open_since.pop(it.producer_id, None)
            ended = in_txn.pop(it.producer_id, [])
            aborted.update(() if it.is_commit else ended)
    stable_end = min(open_since.values(), default=len(entered))
    newest = {
        it.key: it.offset for it in entered[:stable_end] if it.key and it.offset not in aborted
    }
    kept = []
    has_data: set[int] = set()
    for it in entered:
        if it.key:
            stays = newest.get(it.key) == it.offset and it.value is not None
            if it.offset >= stable_end or stays:
                kept.append(it)
                has_data.add(it.producer_id)
        elif it.offset >= stable_end or it.producer_id in has_data:
            kept.append(it)
            has_data.discard(it.producer_id)
    return kept


# -- what lasts -----------------------------------------------------------------------------------


def facts(shard: GroupShard) -> dict[str, Any]:
    """All that the log is to tell."""
    table = shard.offsets
    return {
        "groups": {
            name: _consumer(group) if isinstance(group, ConsumerGroup) else _classic(group)
            for name, group in shard.groups.items()
            if not _is_nothing(shard, group)
        },
        "offsets": table.by_group,
        "pending": table._pending,
        "open": table._open,
    }


def _is_nothing(shard: GroupShard, group: Any) -> bool:
    """A name without members or offsets, of which the log may know nothing."""
    if not isinstance(group, ClassicGroup) or group.members or group.protocol_type:
        return False
    table = shard.offsets
    return not table.topics(group.group_id) and not table.has_open_transactions(group.group_id)


def _consumer(group: ConsumerGroup) -> dict[str, Any]:
    return {
        "members": group.members,
        "epochs": (group.epoch, group.target_epoch, group.metadata_hash),
        "target": group.target,
        "holders": group.holders,
        "names": group.subscriptions.names,
        "regexes": group.subscriptions.regexes,
        "resolved": group.subscriptions.resolved,
        "static": group.static_ids,
    }


def _classic(group: Any) -> dict[str, Any]:
    assert isinstance(group, ClassicGroup)
    return {
        "generation": (group.generation, group.state, group.since),
        "protocol": (group.protocol_type, group.protocol_name, group.leader_id),
        "topics": group.topics,
        "static": group.static_ids,
        "timeouts": [
            (it.session_timeout_ms, it.rebalance_timeout_ms) for it in group.members.values()
        ],
        "members": [
            (it.member_id, it.instance_id, it.client_id, it.client_host, it.assignment)
            for it in group.members.values()
        ],
    }


def forget_moving(told: dict[str, Any], live: GroupShard) -> dict[str, Any]:
    """Without groups on their way from one generation to the next: the log has the last one."""
    for name, group in live.groups.items():
        moving = isinstance(group, ClassicGroup) and group.state not in (State.STABLE, State.EMPTY)
        if moving:
            told["groups"].pop(name, None)
    return told


class Walk(RuleBasedStateMachine):
    """Members of both protocols, commits in and out of transactions, deletions, and time."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Writer()
        self.classic_ids: list[str] = []
        self.joins: list[Waiting] = []

    @initialize()
    def topics(self) -> None:
        self.stage.topic("t", 2)
        self.stage.topic("u", 3)
        self.stage.step(self.stage.shard.on_loaded)

    # -- members of consumer groups -----------------------------------------------------------

    @rule(member=MEMBERS, topic=TOPICS, instance=st.sampled_from([None, None, "one"]))
    def come(self, member: str, topic: str, instance: str | None) -> None:
        self.stage.say(member, 0, subscribed_topic_names=[topic], instance_id=instance)

    @rule(member=MEMBERS, regex=st.sampled_from(["t|u", "u.*", "nothing"]))
    def come_with_a_regex(self, member: str, regex: str) -> None:
        self.stage.say(member, 0, subscribed_topic_names=[], subscribed_topic_regex=regex)

    @rule(member=MEMBERS, epoch=st.sampled_from([-1, -1, -2]))
    def leave(self, member: str, epoch: int) -> None:
        group = self.stage.shard.groups.get(GROUP_ID)
        if isinstance(group, ConsumerGroup) and member in group.members:
            self.stage.say(member, epoch, instance_id=group.members[member].instance_id)

    @rule()
    def settle(self) -> None:
        group = self.stage.shard.groups.get(GROUP_ID)
        for _ in range(3):
            for member in list(group.members.values()) if isinstance(group, ConsumerGroup) else ():
                owned = {
                    it.lstrip(b".").decode(): list(numbers)
                    for it, numbers in member.assigned.items()
                }
                instance = member.instance_id
                self.stage.say(member.member_id, member.epoch, owned, instance_id=instance)

    # -- members of classic groups ------------------------------------------------------------

    @rule(topic=TOPICS, instance=st.sampled_from([None, None, "one"]))
    def classic_come(self, topic: str, instance: str | None) -> None:
        self.joins.append(self.stage.classic_join("", topic, instance_id=instance))

    @rule(topic=TOPICS)
    def classic_rejoin(self, topic: str) -> None:
        for member_id, instance in self._classic_members():
            self.joins.append(self.stage.classic_join(member_id, topic, instance_id=instance))

    @rule()
    def classic_sync(self) -> None:
        group = self.stage.shard.groups.get(GROUP_ID)
        for member_id, _ in self._classic_members():
            if isinstance(group, ClassicGroup):
                work = {it: b"work of " + it.encode() for it in group.members}
                self.stage.classic_sync(member_id, group.generation, work)
            elif isinstance(group, ConsumerGroup) and member_id in group.members:
                self.stage.classic_sync(member_id, group.members[member_id].epoch)

    @rule()
    def classic_leave(self) -> None:
        for member_id, _ in self._classic_members()[:1]:
            self.stage.classic_leave(member_id)

    def _classic_members(self) -> list[tuple[str, str | None]]:
        group: Any = self.stage.shard.groups.get(GROUP_ID)
        if isinstance(group, ClassicGroup):
            return [(it.member_id, it.instance_id) for it in group.members.values()]
        if isinstance(group, ConsumerGroup):
            found = [it for it in group.members.values() if it.classic is not None]
            return [(it.member_id, it.instance_id) for it in found]
        return []

    # -- offsets ------------------------------------------------------------------------------

    @rule(
        group=GROUPS,
        topic=TOPICS,
        partition=st.integers(0, 1),
        offset=st.integers(0, 99),
        producer=PRODUCERS,
        metadata=st.sampled_from(["", "", "some"]),
        retention_ms=st.sampled_from([-1, -1, 1000]),
    )
    def commit(
        self,
        group: str,
        topic: str,
        partition: int,
        offset: int,
        producer: int | None,
        metadata: str,
        retention_ms: int,
    ) -> None:
        answer = offset_commit.OffsetCommitResponsePartition(partition_index=partition)
        commit = Commit(
            group_id=group,
            member_id="",
            instance_id=None,
            generation=-1,
            version=9,
            entries=[Entry(topic, topic_id(topic), partition, offset, -1, metadata, answer)],
            response=offset_commit.OffsetCommitResponse(),
            retention_ms=retention_ms,
            producer=None if producer is None else Producer(producer, 0),
        )
        shard = self.stage.shard
        self.stage.step(lambda at, out: commit_offsets(shard, at, out, Waiting(), commit))

    @rule(producer=st.sampled_from([7, 8]), is_commit=st.booleans())
    def end_txn(self, producer: int, is_commit: bool) -> None:
        self.stage.end_txn(producer, is_commit)

    @rule(group=GROUPS, topic=TOPICS, partition=st.integers(0, 1))
    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        each = OffsetDeleteRequestPartition(partition_index=partition)
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=[each])]
        shard = self.stage.shard
        self.stage.step(lambda at, out: delete_offsets(shard, at, out, Waiting(), group, topics))

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        shard = self.stage.shard
        self.stage.step(lambda at, out: delete_group(shard, at, out, Waiting(), group))

    @rule(name=TOPICS)
    def delete_topic_and_make_it_anew(self, name: str) -> None:
        self.stage.delete_topic(name)
        self.stage.advance(0)
        self.stage.topic(name, 2)

    @rule(span_ms=st.sampled_from([0, 1000, 20_000, 50_000, 700_000, 8 * DAY_MS]))
    def wait(self, span_ms: int) -> None:
        if span_ms >= DAY_MS:  # all sessions end first; the rest is one look at what has expired
            self.stage.advance(700_000)
            self.stage.mono += span_ms
        self.stage.advance(min(span_ms, 700_000))

    # -- the promise --------------------------------------------------------------------------

    @invariant()
    def who_loads_the_log_knows_the_same(self) -> None:
        stage = self.stage
        live = forget_moving(facts(stage.shard), stage.shard)
        assert forget_moving(facts(stage.load(stage.entered)), stage.shard) == live

    @invariant()
    def compaction_takes_nothing_away(self) -> None:
        stage = self.stage
        live = forget_moving(facts(stage.shard), stage.shard)
        loaded = stage.load(compacted(stage.entered))
        assert forget_moving(facts(loaded), stage.shard) == live


Walk.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
test_walks = Walk.TestCase

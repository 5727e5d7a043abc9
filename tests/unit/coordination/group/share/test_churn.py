"""Members come, go, fall silent and change their minds, topics too, and coordinators fail over."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.timers import LOOK_AFTER_MS
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata_records import PartitionRecord, TopicRecord
from tests.unit.coordination.consumer.stage import GROUP_ID, topic_id
from tests.unit.coordination.group.share.stage import HEARTBEAT_MS, SESSION_MS, ShareStage, named

NAMES = ("t", "u", "v")
WANTS = st.sets(st.sampled_from(NAMES), min_size=1)
SECOND_MS = 1_000


class Client:
    """A member as it sees itself."""

    def __init__(self, member_id: str, wants: set[str]) -> None:
        self.member_id = member_id
        self.wants = wants
        self.epoch = 0
        self.has: dict[str, list[int]] = {}
        self.says_all = True
        """As it does when it joins, wants something else, or has lost an answer."""

    def beat(self, stage: ShareStage, lost: bool = False) -> None:
        """A heartbeat, whose answer may be lost."""
        topics = sorted(self.wants) if self.says_all else ()
        answer = stage.say(self.member_id, self.epoch, *topics)
        self.says_all = lost or answer is None or answer.error_code != 0
        if lost or answer is None:
            return
        if answer.error_code:
            assert answer.error_code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), answer
            self.epoch, self.has = 0, {}
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topic_partitions = answer.assignment.topic_partitions
            self.has = named({it.topic_id: it.partitions for it in topic_partitions})


class Churn(RuleBasedStateMachine):
    """Nothing is assigned that is not ready; with patience all is shared by those who want it."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = ShareStage({"group.share.assignment.interval.ms": str(SECOND_MS)})
        self.clients: dict[str, Client] = {}
        self.count = 0
        self.topics: dict[str, tuple[str, int]] = {}
        """By name: the topic of this name that there is now, and how many partitions it has."""
        self.make("t", 3)

    def _another(self) -> str:
        self.count += 1
        return f"m{self.count}"

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 5))
    def make(self, name: str, partitions: int) -> None:
        """A topic is made, perhaps once more under an old name; or it grows."""
        label, first = self.topics.get(name, (f"{name}{self._another()}", 0))
        end = max(first, partitions)
        made = [] if first else [TopicRecord(name=name, topic_id=topic_id(label))]
        self.stage.change(
            *made,
            *(
                PartitionRecord(
                    partition_id=number, topic_id=topic_id(label), replicas=[1], isr=[1], leader=1
                )
                for number in range(first, end)
            ),
        )
        self.topics[name] = label, end

    @rule(name=st.sampled_from(NAMES))
    def unmake(self, name: str) -> None:
        if name in self.topics:
            self.stage.delete_topic(self.topics.pop(name)[0])

    @rule(wants=WANTS)
    def come(self, wants: set[str]) -> None:
        if len(self.clients) < 6:
            client = Client(self._another(), wants)
            self.clients[client.member_id] = client
            client.beat(self.stage)

    def _draw(self, data: st.DataObject) -> Client:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), lost=st.booleans())
    def beat(self, data: st.DataObject, lost: bool) -> None:
        self._draw(data).beat(self.stage, lost)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), wants=WANTS)
    def want(self, data: st.DataObject, wants: set[str]) -> None:
        client = self._draw(data)
        client.wants = wants
        client.says_all = True
        client.beat(self.stage)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), silently=st.booleans())
    def go(self, data: st.DataObject, silently: bool) -> None:
        client = self._draw(data)
        del self.clients[client.member_id]
        if not silently and client.epoch:
            self.stage.say(client.member_id, -1)

    @rule(span_ms=st.sampled_from((100, SECOND_MS, HEARTBEAT_MS, SESSION_MS)))
    def wait(self, span_ms: int) -> None:
        self.stage.advance(span_ms)

    @rule(answers=st.booleans(), fails=st.booleans())
    def coordinate(self, answers: bool, fails: bool) -> None:
        """Share coordinators are there, or silent, or have trouble."""
        self.stage.resolves, self.stage.fails = answers, fails

    @rule()
    def answer(self) -> None:
        if self.stage.errands:
            self.stage.resolve()

    @rule()
    def fail_over(self) -> None:
        """Another coordinator takes over; what the one before had begun comes to nothing."""
        before = _facts(self.stage)
        self.stage.errands.clear()
        self.stage.restart()
        assert _facts(self.stage) == before

    @rule(takes=st.booleans())
    def refuse(self, takes: bool) -> None:
        self.stage.refusing = None if takes else ErrorCode.NOT_ENOUGH_REPLICAS

    @invariant()
    def only_what_share_coordinators_know_is_assigned(self) -> None:
        group = self.stage.shard.groups.get(GROUP_ID)
        if isinstance(group, ShareGroup):
            assigned = [it.assigned for it in group.members.values()]
            for partitions in (*group.target.values(), *assigned):
                for topic, numbers in partitions.items():
                    assert {(topic, number) for number in numbers} <= self.stage.known

    def teardown(self) -> None:
        """When all is well again, everything is shared evenly by those who want it."""
        stage = self.stage
        stage.refusing, stage.resolves, stage.fails = None, True, False
        while stage.errands:
            stage.resolve()
        for _ in range((LOOK_AFTER_MS + SESSION_MS) // HEARTBEAT_MS):
            for client in self.clients.values():
                client.beat(stage)
            stage.advance(HEARTBEAT_MS)
        wanted = {name for client in self.clients.values() for name in client.wants}
        shared = Counter(
            (topic, number)
            for client in self.clients.values()
            for topic, numbers in client.has.items()
            for number in numbers
        )
        due = {self.topics[name] for name in wanted if name in self.topics}
        assert shared.keys() == {(label, it) for label, count in due for it in range(count)}
        for client in self.clients.values():
            assert client.has.keys() <= {
                self.topics[it][0] for it in client.wants & self.topics.keys()
            }
            member = stage.shares.members[client.member_id]
            assert named(member.assigned) == client.has
        if self.clients:
            ready = stage.shares.readiness
            assert not ready.deleting
            assert {topic_id(label) for label, _ in due}.isdisjoint(ready.initializing)
            assert ready.initialized.keys() <= {
                topic_id(label) for label, _ in self.topics.values()
            }
            assert set(stage.shares.members) == set(self.clients)
            epoch, written = stage.shares.epoch, len(stage.log)
            for client in self.clients.values():
                client.beat(stage)
            assert (stage.shares.epoch, len(stage.log)) == (epoch, written), "it does not settle"
            assert not stage.shares.must_look, "heartbeats are dearer than they need to be"


def _facts(stage: ShareStage) -> object:
    """What the log has to know of the group."""
    group = stage.shard.groups.get(GROUP_ID)
    if not isinstance(group, ShareGroup):
        return None
    durable = (group.epoch, group.metadata_hash, group.target_epoch, group.target_at, group.target)
    return durable, group.members, dict(group.names), group.ready


Churn.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestChurn = Churn.TestCase

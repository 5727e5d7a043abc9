"""Groups whose members, topics, log and coordinator all change under each other."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata_records import PartitionRecord, TopicRecord
from tests.unit.coordination.consumer.stage import HEARTBEAT_MS, SESSION_MS, Stage, topic_id

NAMES = ("t", "u")
SECOND_MS = 1_000
WANTS = st.sets(st.sampled_from(NAMES), min_size=1)
EXPRESSIONS = ("", "t|u", ".*")


class Client:
    """A consumer that does as it is told, when it hears of it. It may be a static one."""

    def __init__(self, member_id: str, instance_id: str | None, wants: set[str]) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.wants = wants
        self.regex = ""
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()
        self.says_all = True
        """Whether an answer was lost, or its wishes changed."""

    def reported(self) -> dict[str, list[int]]:
        owned: dict[str, list[int]] = {}
        for topic, number in sorted(self.owned):
            owned.setdefault(topic, []).append(number)
        return owned

    def beat(self, stage: Stage, lost: bool, silent: bool) -> None:
        if self.epoch == 0:
            self.owned.clear()
        fields: dict[str, Any] = {"instance_id": self.instance_id}
        owned = None if silent and not self.says_all else self.reported()
        if self.says_all or self.epoch == 0:
            fields["subscribed_topic_names"] = [] if self.regex else sorted(self.wants)
            fields["subscribed_topic_regex"] = self.regex
            fields["rebalance_timeout_ms"] = 30_000
        answer = stage.say(self.member_id, self.epoch, owned, **fields)
        self.says_all = lost or answer is None
        if self.says_all:
            return
        if answer.error_code:
            assert answer.error_code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.UNRELEASED_INSTANCE_ID,
            ), answer
            self.owned.clear()
            self.epoch = 0
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {
                (it.topic_id.lstrip(b".").decode(), number)
                for it in answer.assignment.topic_partitions
                for number in it.partitions
            }


class WildChurn(RuleBasedStateMachine):
    """Whatever happens, no partition has two owners, and with patience all are assigned."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage({"group.consumer.assignment.interval.ms": str(SECOND_MS)})
        self.clients: dict[str, Client] = {}
        self.away: dict[str, Client] = {}
        self.count = 0
        self.topics: dict[str, tuple[str, int]] = {}
        """By name: the topic of this name that there is now, and how many partitions it has."""
        self.make("t", 5)

    def _another(self) -> str:
        self.count += 1
        return f"m{self.count}"

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 6))
    def make(self, name: str, partitions: int) -> None:
        """A topic is made, perhaps once more under an old name; or it grows."""
        label, count = self.topics.get(name, (f"{name}{self._another()}", 0))
        self._write_topic(name, label, count, max(count, partitions))

    def _write_topic(self, name: str, label: str, first: int, end: int) -> None:
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

    @rule(wants=WANTS, static=st.booleans())
    def come(self, wants: set[str], static: bool) -> None:
        if len(self.clients) + len(self.away) < 5:
            name = self._another()
            client = Client(name, f"i-{name}" if static else None, wants)
            self.clients[name] = client
            client.beat(self.stage, lost=False, silent=False)

    def _draw(self, data: st.DataObject) -> Client:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), lost=st.booleans(), silent=st.booleans())
    def beat(self, data: st.DataObject, lost: bool, silent: bool) -> None:
        self._draw(data).beat(self.stage, lost, silent)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), wants=WANTS, regex=st.sampled_from(EXPRESSIONS), silent=st.booleans())
    def want(self, data: st.DataObject, wants: set[str], regex: str, silent: bool) -> None:
        """It subscribes to something else. What it must let go then, it lets go when told."""
        client = self._draw(data)
        client.wants, client.regex, client.says_all = wants, regex, True
        client.beat(self.stage, lost=False, silent=silent)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = self._draw(data)
        del self.clients[client.member_id]
        epoch = -1 if client.instance_id is None else -2
        self.stage.say(client.member_id, epoch, instance_id=client.instance_id)
        if client.instance_id is not None:
            self.away[client.instance_id] = client

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """A static member, as another process."""
        old = self.away.pop(data.draw(st.sampled_from(sorted(self.away))))
        client = Client(self._another(), old.instance_id, old.wants)
        self.clients[client.member_id] = client
        client.beat(self.stage, lost=False, silent=False)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        del self.clients[self._draw(data).member_id]

    @rule(span_ms=st.sampled_from((SECOND_MS, HEARTBEAT_MS, 4 * HEARTBEAT_MS)))
    def pass_time(self, span_ms: int) -> None:
        """All who live say so, and what they have."""
        for _ in range(2):
            self._all_beat()
            self.stage.advance(span_ms)
        self._all_beat()

    def _all_beat(self) -> None:
        for client in list(self.clients.values()):
            client.beat(self.stage, lost=False, silent=False)

    @rule()
    def fail_over(self) -> None:
        self.stage.restart()

    @rule(refuses=st.booleans())
    def refuse(self, refuses: bool) -> None:
        self.stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE if refuses else None

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [it for client in self.clients.values() for it in client.owned]
        assert len(owned) == len(set(owned))

    def teardown(self) -> None:
        self.stage.refusing = None
        for _ in range(2 * SESSION_MS // HEARTBEAT_MS + 4):
            self._all_beat()
            self.stage.advance(HEARTBEAT_MS)
        wanted: set[tuple[str, int]] = set()
        for client in self.clients.values():
            names = NAMES if client.regex else client.wants
            mine = {
                (label, number)
                for label, count in (self.topics[it] for it in names if it in self.topics)
                for number in range(count)
            }
            assert client.owned <= mine
            wanted |= mine
        assert {it for client in self.clients.values() for it in client.owned} == wanted
        timers = {key[2] for key in self.stage.timers if isinstance(key, tuple) and len(key) > 2}
        assert timers == set(self.clients), "one each, and none of the dead"


WildChurn.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestWildChurn = WildChurn.TestCase

"""Streams groups whose members, topics, log and coordinator all change under each other."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.streams_group_heartbeat import Topology
from tests.unit.coordination.group.streams.applications import stateful
from tests.unit.coordination.group.streams.stage import HEARTBEAT_MS, SESSION_MS, StreamsStage

SECOND_MS = 1_000
PROCESSES = ("p", "q", "r")
TOPIC, CHANGELOG = "t", "t-changelog"

Tasks = set[tuple[str, int]]


class Instance:
    """A thread of an application that does as it is told, when it hears of it."""

    def __init__(self, member_id: str, process_id: str, topology: Topology) -> None:
        self.member_id = member_id
        self.process_id = process_id
        self.topology = topology
        self.epoch = 0
        self.active: Tasks = set()
        self.standby: Tasks = set()
        self.says_all = True
        """Whether an answer was lost."""

    def beat(self, stage: StreamsStage, lost: bool, silent: bool) -> None:
        fields: dict[str, Any] = {}
        if self.epoch == 0:
            self.active.clear()
            self.standby.clear()
            fields = {"topology": self.topology, "process_id": self.process_id}
        says = self.says_all or not silent
        active = _numbers(self.active) if says else None
        standby = _numbers(self.standby) if says else None
        result = stage.beat(self.member_id, self.epoch, active, standby, **fields)
        self.says_all = lost or result is None
        if lost or result is None:
            return
        answer = result.response
        if answer.error_code:
            assert answer.error_code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.INVALID_REQUEST,  # of a task that is no more
            ), answer
            self.epoch = 0
            self.active.clear()
            self.standby.clear()
            return
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.active = _tasks(answer.active_tasks)
            self.standby = _tasks(answer.standby_tasks or [])
            self.says_all = True


def _tasks(ids: list[Any]) -> Tasks:
    return {(it.subtopology_id, number) for it in ids for number in it.partitions}


def _numbers(tasks: Tasks) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for subtopology, number in sorted(tasks):
        found.setdefault(subtopology, []).append(number)
    return found


class Churn(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = StreamsStage({"group.streams.num.standby.replicas": "1"})
        self.partitions = 3
        self.stage.topic(TOPIC, self.partitions)
        self.stage.topic(CHANGELOG, self.partitions)
        self.instances: dict[str, Instance] = {}
        self.made = 0
        for process in PROCESSES[:2]:
            self.come(process)

    @rule(process=st.sampled_from(PROCESSES))
    def come(self, process: str) -> None:
        if len(self.instances) < 5:
            member_id = f"m{self.made}"
            self.made += 1
            self.instances[member_id] = Instance(member_id, process, stateful(TOPIC))

    @precondition(lambda self: self.instances)
    @rule(data=st.data(), lost=st.booleans(), silent=st.booleans())
    def beat(self, data: st.DataObject, lost: bool, silent: bool) -> None:
        self._any(data).beat(self.stage, lost, silent)

    @precondition(lambda self: self.instances)
    @rule(data=st.data(), silent=st.booleans())
    def all_but_one_hear(self, data: st.DataObject, silent: bool) -> None:
        deaf = self._any(data)
        for it in self.instances.values():
            it.beat(self.stage, lost=it is deaf, silent=silent)

    @rule(rounds=st.integers(1, 4))
    def all_hear(self, rounds: int) -> None:
        for _ in range(rounds):
            for it in self.instances.values():
                it.beat(self.stage, lost=False, silent=False)

    @precondition(lambda self: self.instances)
    @rule(data=st.data(), politely=st.booleans())
    def go(self, data: st.DataObject, politely: bool) -> None:
        it = self._any(data)
        del self.instances[it.member_id]
        if politely and it.epoch > 0:
            self.stage.beat(it.member_id, -1)

    @rule(span_ms=st.sampled_from([SECOND_MS, HEARTBEAT_MS, SESSION_MS]))
    def wait(self, span_ms: int) -> None:
        self.stage.advance(span_ms)

    @rule()
    def fail_over(self) -> None:
        self.stage.restart()

    @rule(refuses=st.booleans())
    def trouble_the_log(self, refuses: bool) -> None:
        self.stage.refusing = ErrorCode.NOT_ENOUGH_REPLICAS if refuses else None

    @precondition(lambda self: self.partitions < 6)
    @rule()
    def grow(self) -> None:
        for name in (TOPIC, CHANGELOG):
            self.stage.topic(name, self.partitions + 1, first=self.partitions)
        self.partitions += 1

    @rule(standbys=st.sampled_from(["0", "1", "2"]))
    def configure(self, standbys: str) -> None:
        self.stage.configure("streams.num.standby.replicas", standbys)

    def _any(self, data: st.DataObject) -> Instance:
        return self.instances[data.draw(st.sampled_from(sorted(self.instances)))]

    @invariant()
    def nobody_runs_what_another_runs(self) -> None:
        seen: Tasks = set()
        for it in self._members():
            assert seen.isdisjoint(it.active), f"{it.member_id} runs another's {seen & it.active}"
            seen |= it.active

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        has = [
            (it.process_id, task)
            for it in self._members()
            for task in (*sorted(it.active), *sorted(it.standby))
        ]
        assert len(has) == len(set(has)), has

    def _members(self) -> list[Instance]:
        """Those that the coordinator takes to be members: others will hear that they are not."""
        members = self.stage.group.members if self.stage.shard.groups else {}
        return [
            it
            for it in self.instances.values()
            if (known := members.get(it.member_id)) is not None
            and it.epoch in (known.epoch, known.previous_epoch)
        ]

    def teardown(self) -> None:
        """When all is well again, everything runs, once and evenly."""
        self.stage.refusing = None
        for _ in range(12):
            for it in self.instances.values():
                it.beat(self.stage, lost=False, silent=False)
            self.stage.advance(HEARTBEAT_MS)
        if not self.instances:
            return
        assert self.stage.group.state_name == "Stable"
        wanted = {("0", number) for number in range(self.partitions)}
        runs = [task for it in self.instances.values() for task in it.active]
        assert sorted(runs) == sorted(wanted)


TestChurn = Churn.TestCase
TestChurn.settings = settings(max_examples=50, stateful_step_count=30)

"""Whatever members do, in whatever order, a classic group stays in one piece and comes to rest."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.rebalancing import JOIN, SYNC
from penstock.coordination.group.classic.sessions import session_key
from penstock.coordination.group.classic.states import State
from penstock.model.errors import ErrorCode
from tests.unit.coordination.classic.stage import BOTH, RANGE, Stage, Waiting

PROTOCOLS = st.sampled_from([RANGE, BOTH, BOTH[1:], (("range", b"something else"),)])
INSTANCES = st.sampled_from([None, None, "one", "two"])
LONG_MS = 2_000_000


class Walk(RuleBasedStateMachine):
    """Members that join, sync, beat, leave, fall silent; a log that refuses; a node that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(initial_rebalance_delay_ms=3000, size_max=5)
        self.tickets: list[Waiting] = []
        self.ids: list[str] = []

    @property
    def group(self) -> ClassicGroup | None:
        group = self.stage.shard.groups.get("g")
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def _pick(self, choice: int) -> str:
        known = [*self.ids, "stranger"]
        return known[choice % len(known)]

    def _instance_of(self, member_id: str) -> str | None:
        member = self.group.members.get(member_id) if self.group else None
        return member.instance_id if member else None

    def _learn(self, *tickets: Waiting) -> None:
        self.tickets += tickets
        for ticket in self.tickets:
            known = getattr(ticket.reply, "member_id", "")
            if known and known not in self.ids:
                self.ids.append(known)

    @rule(protocols=PROTOCOLS, instance=INSTANCES, id_first=st.booleans())
    def come(self, protocols: Any, instance: str | None, id_first: bool) -> None:
        ticket = self.stage.join(protocols=protocols, instance_id=instance, id_first=id_first)
        self._learn(ticket)

    @rule(choice=st.integers(0, 20), protocols=PROTOCOLS)
    def join_again(self, choice: int, protocols: Any) -> None:
        member_id = self._pick(choice)
        instance = self._instance_of(member_id)
        self._learn(self.stage.join(member_id, protocols=protocols, instance_id=instance))

    @rule()
    def all_join_again(self) -> None:
        for member in list(self.group.members.values()) if self.group else []:
            self._learn(
                self.stage.join(
                    member.member_id, protocols=member.protocols, instance_id=member.instance_id
                )
            )

    @rule(choice=st.integers(0, 20))
    def sync(self, choice: int) -> None:
        group = self.group
        if group is not None:
            member_id = self._pick(choice)
            work = {it: it.encode() for it in group.members}
            self._learn(self.stage.sync(member_id, work, protocol_name=group.protocol_name))

    @rule()
    def all_sync(self) -> None:
        for choice in range(len(self.ids)):
            self.sync(choice)

    @rule(choice=st.integers(0, 20))
    def beat(self, choice: int) -> None:
        if self.group is not None:
            self.stage.beat(self._pick(choice))

    @rule(choice=st.integers(0, 20))
    def leave(self, choice: int) -> None:
        self.stage.leave((self._pick(choice), None))

    @rule(span_ms=st.sampled_from([0, 100, 3000, 9000, 60_000]))
    def wait(self, span_ms: int) -> None:
        self.stage.advance(span_ms)
        self._learn()

    @rule(refuses=st.booleans())
    def the_log(self, refuses: bool) -> None:
        self.stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE if refuses else None

    @rule()
    def fail_over(self) -> None:
        before = self.group
        self.stage.reload()
        # Who waited was sent away by the runtime.
        self.tickets = [it for it in self.tickets if it.answered]
        after = self.group
        if before is not None and before.state is State.STABLE and after is not None:
            assert self.stage.settings.size_max >= len(after.members)
            assert _work(after) == _work(before)
            assert after.generation == before.generation

    @invariant()
    def the_group_is_in_one_piece(self) -> None:
        group = self.group
        if group is None:
            return
        members = set(group.members)
        assert members >= set(group.joins) | set(group.syncs) | group.unsynced
        assert not members & group.pending
        assert group.leader_id is None if not members else group.leader_id in members
        statics = {it.instance_id: it.member_id for it in group.members.values() if it.is_static}
        assert group.static_ids == statics
        assert group.proposed is None
        timers = self.stage.timers
        if group.state is State.EMPTY:
            assert not members
        elif group.state is State.PREPARING:
            assert not group.syncs and (JOIN, "g") in timers
        else:
            assert not group.joins
            assert not group.unsynced or (SYNC, "g") in timers
            assert group.state is State.COMPLETING or not group.syncs

    @invariant()
    def somebody_looks_after_every_member(self) -> None:
        group, timers = self.group, self.stage.timers
        for member in group.members.values() if group else []:
            waits = member.member_id in group.joins or member.member_id in group.syncs  # type: ignore[union-attr]
            due = timers.get(session_key("g", member.member_id))
            assert due == member.armed
            assert member.deadline is not None
            assert due is not None or (waits and not member.is_new)
            assert due is None or due <= member.deadline
        for member_id in group.pending if group else ():
            assert session_key("g", member_id) in timers

    def teardown(self) -> None:
        """Everyone is silent from now on: all are answered, and nothing is left to wait for."""
        self.stage.refusing = None
        self.stage.advance(LONG_MS)
        group = self.group
        assert group is None or group.state is State.EMPTY
        assert not [it for it in self.stage.timers if str(it).startswith("('classic")]
        assert all(it.answered for it in self.tickets)


def _work(group: ClassicGroup) -> dict[str, bytes]:
    return {it.member_id: it.assignment for it in group.members.values()}


Walk.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
test_walks = Walk.TestCase

"""Members on their way to the target, however messages get lost or come late."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.coordination.group.consumer.member import Member, State
from penstock.coordination.group.consumer.reconcile import NEXT, Finding, Goal, reconcile
from penstock.model.errors import ErrorCode
from tests.unit.coordination.consumer.stage import SESSION_MS, Stage

TOPIC = b"t" * 16
OTHER = b"o" * 16


def test_every_finding_leads_somewhere_from_every_state() -> None:
    assert set(NEXT) == set(product(State, Finding))


def _goal(*numbers: int, held: tuple[int, ...] = (), topics: tuple[bytes, ...] = (TOPIC,)) -> Goal:
    partitions = {TOPIC: frozenset(numbers)} if numbers else {}
    return Goal(5, partitions, topics, lambda _, number: number in held)


def _member(*numbers: int, **fields: Any) -> Member:
    assigned = {TOPIC: dict.fromkeys(numbers, 4)} if numbers else {}
    return Member("a", **{"epoch": 4, "previous_epoch": 3, "assigned": assigned, **fields})


def test_what_is_free_comes_at_once_and_the_rest_later() -> None:
    moved = reconcile(_member(0), _goal(0, 1, 2, held=(0, 2)), False, None)
    assert moved is not None
    assert (moved.state, moved.epoch, moved.previous_epoch) == (State.UNRELEASED_PARTITIONS, 5, 4)
    assert moved.assigned == {TOPIC: {0: 4, 1: 5}}
    moved = reconcile(moved, _goal(0, 1, 2, held=(0, 1)), False, None)
    assert moved is not None and moved.state is State.STABLE
    assert moved.assigned == {TOPIC: {0: 4, 1: 5, 2: 5}}


def test_a_member_stays_at_its_epoch_until_it_has_let_go() -> None:
    moved = reconcile(_member(0, 1), _goal(0), False, None)
    assert moved is not None
    assert (moved.state, moved.epoch) == (State.UNREVOKED_PARTITIONS, 4)
    assert (moved.assigned, moved.revoking) == ({TOPIC: {0: 4}}, {TOPIC: {1: 4}})
    assert reconcile(moved, _goal(0), False, {TOPIC: [0, 1]}) is moved
    assert reconcile(moved, _goal(0), False, None) is moved
    done = reconcile(moved, _goal(0), False, {TOPIC: [0]})
    assert done is not None
    assert (done.state, done.epoch, done.revoking) == (State.STABLE, 5, {})


def test_who_has_said_already_that_it_let_go_need_not_say_so_again() -> None:
    done = reconcile(_member(0, 1), _goal(0), False, {TOPIC: [0]})
    assert done is not None and (done.state, done.epoch) == (State.STABLE, 5)


def test_what_a_member_gives_back_may_be_its_own_again() -> None:
    member = _member(0, state=State.UNREVOKED_PARTITIONS, revoking={TOPIC: {1: 4}})
    done = reconcile(member, _goal(0, 1, held=(0, 1)), False, {TOPIC: [0]})
    assert done is not None and done.assigned == {TOPIC: {0: 4, 1: 5}}


def test_what_nobody_wants_any_more_goes_before_the_target_follows() -> None:
    settled = _member(0, 1, epoch=5)
    dropped = reconcile(settled, _goal(0, 1, topics=()), True, None)
    assert dropped is not None
    assert (dropped.state, dropped.assigned) == (State.UNREVOKED_PARTITIONS, {})
    assert dropped.revoking == {TOPIC: {0: 4, 1: 4}}
    assert reconcile(settled, _goal(0, 1), True, None) is settled


def test_what_goes_is_added_to_what_is_being_let_go_already() -> None:
    member = _member(0, state=State.UNREVOKED_PARTITIONS, revoking={TOPIC: {1: 3}, OTHER: {7: 2}})
    dropped = reconcile(member, _goal(0, topics=()), True, {TOPIC: [0, 1], OTHER: [7]})
    assert dropped is not None
    assert (dropped.state, dropped.epoch, dropped.assigned) == (State.UNREVOKED_PARTITIONS, 4, {})
    assert dropped.revoking == {TOPIC: {0: 4, 1: 3}, OTHER: {7: 2}}


def test_what_nobody_wants_any_more_and_the_client_does_not_have_is_free_at_once() -> None:
    settled = _member(0, 1, epoch=5)
    dropped = reconcile(settled, _goal(0, 1, topics=()), True, {})
    assert dropped is not None
    assert (dropped.state, dropped.assigned, dropped.revoking) == (State.STABLE, {}, {})


def test_a_target_that_is_older_than_the_subscription_gives_nothing_unwanted() -> None:
    moved = reconcile(_member(0), _goal(0, 1, topics=()), False, None)
    assert moved is not None and (moved.assigned, moved.revoking) == ({}, {TOPIC: {0: 4}})
    moved = reconcile(moved, _goal(0, 1, topics=()), False, {})
    assert moved is not None and (moved.state, moved.assigned) == (State.STABLE, {})


def test_a_member_waits_for_others_in_whichever_topic_it_is() -> None:
    wanted = {TOPIC: frozenset([0]), OTHER: frozenset([0])}
    for held in (TOPIC, OTHER):
        goal = Goal(5, wanted, (TOPIC, OTHER), lambda topic_id, _, held=held: topic_id == held)  # type: ignore[misc]
        moved = reconcile(_member(), goal, False, None)
        assert moved is not None and moved.state is State.UNRELEASED_PARTITIONS


def test_a_state_that_nobody_knows_fences_all_but_the_empty_handed() -> None:
    member = _member(0, state=State.UNKNOWN)
    assert reconcile(member, _goal(0), False, None) is None
    assert reconcile(member, _goal(0), False, {TOPIC: [0]}) is None
    done = reconcile(member, _goal(0), False, {})
    assert done is not None and done.state is State.STABLE


class Client:
    """A consumer that does as it is told, when it hears of it."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.owned: set[int] = set()
        self.missed = False
        """Whether an answer was lost: then it says all that there is, to hear all."""


class Churn(RuleBasedStateMachine):
    """Members come, go, die, miss answers and forget to report; the coordinator fails over.

    Whatever happens, no partition has two owners, and with patience all are assigned.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.partitions = 7
        self.stage.topic("t", self.partitions)
        self.clients: dict[str, Client] = {}
        self.count = 0

    def _beat(self, client: Client, lost: bool, silent: bool) -> None:
        owned = None if silent and not client.missed else {"t": sorted(client.owned)}
        if client.epoch == 0:
            client.owned.clear()
            answer = self.stage.say(client.member_id, 0, subscribed_topic_names=["t"])
        else:
            more: dict[str, Any] = {}
            if client.missed:
                more = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 30_000}
            answer = self.stage.say(client.member_id, client.epoch, owned, **more)
        client.missed = lost
        if lost:
            return
        if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            client.owned.clear()
            client.epoch = 0
            return
        assert answer.error_code == ErrorCode.NONE
        client.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            client.owned = set(topics[0].partitions) if topics else set()

    @rule()
    def come(self) -> None:
        if len(self.clients) < 5:
            self.count += 1
            client = self.clients[f"m{self.count}"] = Client(f"m{self.count}")
            self._beat(client, lost=False, silent=False)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), lost=st.booleans(), silent=st.booleans())
    def beat(self, data: st.DataObject, lost: bool, silent: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.clients)))
        self._beat(self.clients[name], lost, silent)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.clients)))
        self.clients.pop(name)
        self.stage.say(name, -1)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        """It stops, and its session ends; so do those of all who are silent as well."""
        self.clients.pop(data.draw(st.sampled_from(sorted(self.clients))))
        for _ in range(2):
            self.stage.advance(SESSION_MS // 2)
            for client in self.clients.values():
                self._beat(client, lost=False, silent=False)

    @rule()
    def grow(self) -> None:
        if self.partitions < 12:
            self.stage.topic("t", self.partitions + 1, first=self.partitions)
            self.partitions += 1

    @rule()
    def fail_over(self) -> None:
        self.stage.restart()

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [number for client in self.clients.values() for number in client.owned]
        assert len(owned) == len(set(owned))

    def teardown(self) -> None:
        for _ in range(8):
            for client in self.clients.values():
                self._beat(client, lost=False, silent=False)
        if self.clients:
            owned = [number for client in self.clients.values() for number in client.owned]
            assert sorted(owned) == list(range(self.partitions))
            shares = [len(client.owned) for client in self.clients.values()]
            assert max(shares) - min(shares) <= 1


Churn.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestChurn = Churn.TestCase

"""Who is in sync, and what all of them have: tables of the rules, and what must always hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.cluster import BrokerImage
from penstock.model.errors import ErrorCode
from penstock.replica.in_sync import (
    UNBOUNDED,
    UNKNOWN,
    Decided,
    Follower,
    InSync,
    Peers,
    Proposal,
)

LEADER, ALICE, BOB = 1, 2, 3
LAG = 1000
ALL = (LEADER, ALICE, BOB)


def broker(node_id: int, epoch: int | None = None, **state: Any) -> BrokerImage:
    state.setdefault("fenced", False)
    return BrokerImage(
        node_id, b"i" * 16, 10 * node_id if epoch is None else epoch, (), {}, **state
    )


def peers(**changes: BrokerImage | None) -> Peers:
    """Three brokers whose epochs are ten times their ids, but for those that are named."""
    brokers = {node_id: broker(node_id) for node_id in ALL}
    for name, change in changes.items():
        node_id = {"leader": LEADER, "alice": ALICE, "bob": BOB}[name]
        if change is None:
            del brokers[node_id]
        else:
            brokers[node_id] = change
    return Peers(brokers, LAG)


def machine(
    isr: tuple[int, ...] = ALL,
    *,
    others: Peers | None = None,
    leader_start: int = 0,
    recovering: bool = False,
    now: int = 0,
) -> InSync:
    return InSync(
        LEADER,
        others or peers(),
        leader_epoch=5,
        leader_start=leader_start,
        partition_epoch=7,
        isr=isr,
        replicas=ALL,
        recovering=recovering,
        now=now,
    )


def fetch(
    in_sync: InSync, node_id: int, end: int, leader_end: int, now: int = 0, start: int = 0
) -> None:
    assert not in_sync.fetched(node_id, 10 * node_id, end, start, leader_end, now)


# -- what all have ----------------------------------------------------------------------------


def test_nothing_is_known_of_followers_before_they_fetch() -> None:
    in_sync = machine()
    assert in_sync.end_of_all(100, 0) == UNKNOWN
    fetch(in_sync, ALICE, 100, 100)
    assert in_sync.end_of_all(100, 0) == UNKNOWN
    fetch(in_sync, BOB, 90, 100)
    assert in_sync.end_of_all(100, 0) == 90


def test_who_is_not_in_sync_does_not_hold_up_the_others() -> None:
    in_sync = machine((LEADER, ALICE))
    fetch(in_sync, ALICE, 100, 100)
    fetch(in_sync, BOB, 10, 100)
    assert in_sync.end_of_all(100, 0) == 100


def test_a_leader_alone_in_sync_waits_for_nobody() -> None:
    assert machine((LEADER,)).end_of_all(100, 0) == UNBOUNDED


def test_who_keeps_up_counts_before_it_has_joined_or_it_never_could() -> None:
    in_sync = machine((LEADER,))
    fetch(in_sync, BOB, 100, 100, now=50)
    assert in_sync.end_of_all(120, 60) == 100
    assert in_sync.end_of_all(120, 50 + LAG) == 100
    assert in_sync.end_of_all(120, 51 + LAG) == UNBOUNDED


def test_who_keeps_up_but_may_not_join_does_not_count() -> None:
    in_sync = machine((LEADER,), others=peers(bob=broker(BOB, fenced=True)))
    fetch(in_sync, BOB, 100, 100)
    assert in_sync.end_of_all(120, 0) == UNBOUNDED


# -- who keeps up -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fetches", "caught_up_at"),
    [
        # Each fetch: time, offset, the leader's end.
        ([(10, 100, 100)], 10),
        ([(10, 50, 100)], 0),
        # It never gets to the end, but always to where the end was when it last asked.
        ([(10, 50, 100), (20, 100, 200)], 10),
        ([(10, 50, 100), (20, 100, 200), (30, 200, 300)], 20),
        ([(10, 50, 100), (20, 99, 200)], 0),
        ([(10, 100, 100), (20, 90, 100)], 10),
    ],
)
def test_a_follower_keeps_up_if_it_has_what_the_leader_had_when_it_last_asked(
    fetches: list[tuple[int, int, int]], caught_up_at: int
) -> None:
    follower = Follower(ALICE, caught_up_at=0)
    for now, end, leader_end in fetches:
        follower.fetched(20, end, 0, leader_end, now)
    assert follower.caught_up_at == caught_up_at


def test_a_follower_at_the_end_keeps_up_however_long_nobody_writes() -> None:
    in_sync = machine()
    fetch(in_sync, ALICE, 100, 100)
    fetch(in_sync, BOB, 90, 100)
    proposal = in_sync.propose_leaving(100, 10 * LAG)
    assert proposal == Proposal(5, 7, ((LEADER, 10), (ALICE, 20)))


def test_who_was_never_heard_of_leaves_after_the_same_time() -> None:
    in_sync = machine(now=100)
    assert in_sync.propose_leaving(0, 100 + LAG) is None
    proposal = in_sync.propose_leaving(0, 101 + LAG)
    assert proposal is not None and proposal.isr == ((LEADER, 10),)


# -- joining ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "high_watermark", "leader_start", "joins"),
    [
        (100, 100, 0, True),
        (99, 100, 0, False),
        (100, 50, 100, True),
        (99, 50, 100, False),  # what lies between may be committed, though nobody knows yet
        (UNKNOWN, 0, 0, False),
    ],
)
def test_joining_takes_all_that_may_be_committed(
    end: int, high_watermark: int, leader_start: int, joins: bool
) -> None:
    in_sync = machine((LEADER, ALICE), leader_start=leader_start)
    if end != UNKNOWN:
        fetch(in_sync, BOB, end, 200)
    proposal = in_sync.propose_joining(BOB, high_watermark)
    assert (proposal is not None) == joins
    if proposal is not None:
        assert proposal.isr == ((LEADER, 10), (ALICE, UNKNOWN), (BOB, 30))


@pytest.mark.parametrize(
    "bob",
    [
        None,
        broker(BOB, fenced=True),
        broker(BOB, shutting_down=True),
        broker(BOB, epoch=29),  # it has registered anew, but that is not known here yet
    ],
)
def test_a_broker_that_the_controller_would_refuse_is_not_proposed(
    bob: BrokerImage | None,
) -> None:
    in_sync = machine((LEADER,), others=peers(bob=bob))
    fetch(in_sync, BOB, 100, 100)
    assert in_sync.propose_joining(BOB, 100) is None


def test_a_fetch_from_an_earlier_life_of_a_broker_does_not_count() -> None:
    in_sync = machine((LEADER,), others=peers(bob=broker(BOB, epoch=31)))
    told = in_sync.fetched(BOB, 30, 100, 0, 100, 0)
    assert told is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert in_sync.followers[BOB].end == UNKNOWN


def test_who_does_not_say_which_life_it_is_in_does_not_count() -> None:
    in_sync = machine()
    assert in_sync.fetched(BOB, UNKNOWN, 100, 0, 100, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert in_sync.fetched(9, 90, 100, 0, 100, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_one_proposal_at_a_time() -> None:
    in_sync = machine((LEADER,))
    fetch(in_sync, ALICE, 100, 100)
    fetch(in_sync, BOB, 100, 100)
    assert in_sync.propose_joining(ALICE, 0) is not None
    assert in_sync.propose_joining(BOB, 0) is None
    assert in_sync.propose_leaving(200, 10 * LAG) is None


def test_who_could_join_is_known_without_a_fetch() -> None:
    in_sync = machine((LEADER, ALICE))
    assert in_sync.candidates(0) == []
    fetch(in_sync, BOB, 100, 100)
    assert in_sync.candidates(101) == []
    assert in_sync.candidates(100) == [BOB]
    in_sync.propose_joining(BOB, 100)
    assert in_sync.candidates(100) == []


# -- what the controller says -----------------------------------------------------------------


def joining_bob() -> tuple[InSync, Proposal]:
    in_sync = machine((LEADER, ALICE))
    fetch(in_sync, ALICE, 100, 100)
    fetch(in_sync, BOB, 80, 100)
    proposal = in_sync.propose_joining(BOB, 80)
    assert proposal is not None
    return in_sync, proposal


def test_who_is_proposed_counts_at_once() -> None:
    in_sync, _ = joining_bob()
    assert in_sync.isr == (LEADER, ALICE)
    assert in_sync.maximal == ALL
    assert in_sync.end_of_all(100, 10 * LAG) == 80


def test_who_is_proposed_to_leave_counts_until_it_has_left() -> None:
    in_sync = machine()
    fetch(in_sync, ALICE, 100, 100)
    fetch(in_sync, BOB, 80, 100)
    proposal = in_sync.propose_leaving(100, 2 * LAG)
    assert proposal is not None
    assert in_sync.end_of_all(100, 2 * LAG) == 80
    assert not in_sync.answered(proposal, Decided(5, 8, (LEADER, ALICE)))
    assert in_sync.end_of_all(100, 2 * LAG) == 100


def test_a_set_that_the_controller_decided_is_true_at_once() -> None:
    in_sync, proposal = joining_bob()
    assert not in_sync.answered(proposal, Decided(5, 8, ALL))
    assert (in_sync.isr, in_sync.partition_epoch, in_sync.proposed) == (ALL, 8, None)


@pytest.mark.parametrize(
    ("error", "again", "waits"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False, False),
        (ErrorCode.INVALID_UPDATE_VERSION, False, True),
        (ErrorCode.FENCED_LEADER_EPOCH, False, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, False, True),
        (ErrorCode.INVALID_REQUEST, False, True),
        (ErrorCode.NEW_LEADER_ELECTED, False, True),
        (ErrorCode.NOT_CONTROLLER, True, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True, True),
    ],
)
def test_what_each_error_means(error: ErrorCode, again: bool, waits: bool) -> None:
    in_sync, proposal = joining_bob()
    assert in_sync.answered(proposal, error) == again
    assert (in_sync.proposed is proposal) == waits
    # As long as nobody knows whether it was applied, both sets count.
    assert in_sync.maximal == (ALL if waits else (LEADER, ALICE))


def test_an_answer_that_the_metadata_overtook_changes_nothing() -> None:
    in_sync, proposal = joining_bob()
    in_sync.follow_metadata(9, (LEADER,), ALL, False)
    assert not in_sync.answered(proposal, Decided(5, 8, ALL))
    assert not in_sync.answered(proposal, ErrorCode.NOT_CONTROLLER)
    assert (in_sync.isr, in_sync.partition_epoch) == ((LEADER,), 9)


@pytest.mark.parametrize("answer", [Decided(4, 8, ALL), Decided(5, 6, ALL)])
def test_an_answer_about_another_epoch_is_not_believed(answer: Decided) -> None:
    in_sync, proposal = joining_bob()
    assert not in_sync.answered(proposal, answer)
    assert (in_sync.isr, in_sync.partition_epoch) == ((LEADER, ALICE), 7)
    assert in_sync.maximal == ALL


def test_metadata_that_adds_a_replica_keeps_what_is_known_of_the_others() -> None:
    in_sync = machine()
    fetch(in_sync, ALICE, 100, 100)
    in_sync.follow_metadata(8, ALL, (LEADER, ALICE, 4), False)
    assert {node: each.end for node, each in in_sync.followers.items()} == {ALICE: 100, 4: UNKNOWN}


def test_an_unclean_leader_says_that_it_has_recovered() -> None:
    in_sync = machine((LEADER,), recovering=True)
    proposal = in_sync.propose_leaving(0, 0)
    assert proposal == Proposal(5, 7, ((LEADER, 10),))
    assert not in_sync.answered(proposal, Decided(5, 8, (LEADER,)))
    assert in_sync.propose_leaving(0, 0) is None


def test_the_low_watermark_is_that_of_replicas_that_live() -> None:
    in_sync = machine(others=peers(bob=broker(BOB, fenced=True)))
    assert in_sync.start_of_all(10) == UNKNOWN
    fetch(in_sync, ALICE, 100, 100, start=7)
    fetch(in_sync, BOB, 100, 100, start=3)
    assert in_sync.start_of_all(10) == 7


# -- what always holds ------------------------------------------------------------------------

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("fetch"), st.sampled_from((ALICE, BOB))),
        st.tuples(st.just("copy"), st.sampled_from((ALICE, BOB))),
        st.tuples(st.just("wait"), st.sampled_from((1, LAG // 2, LAG + 1))),
        st.tuples(st.just("review"), st.just(0)),
        st.tuples(st.just("answer"), st.sampled_from(("yes", "lost", "refused", "outdated"))),
        st.tuples(st.just("metadata"), st.just(0)),
    ),
    max_size=60,
)


class World:
    """A leader, two followers, and a controller that holds the true set."""

    def __init__(self) -> None:
        self.machine = machine()
        self.now = 0
        self.end = 0
        self.watermark = 0
        self.held = {ALICE: 0, BOB: 0}
        self.truth = Decided(5, 7, ALL)
        self.sent: Proposal | None = None
        self.applied = False

    def step(self, kind: str, what: Any) -> None:
        in_sync = self.machine
        proposal: Proposal | None = None
        if kind == "append":
            self.end += what
        elif kind == "copy":
            self.held[what] = min(self.end, self.held[what] + 3)
        elif kind == "fetch":
            fetch(in_sync, what, self.held[what], self.end, self.now)
            proposal = in_sync.propose_joining(what, self.watermark)
        elif kind == "wait":
            self.now += what
        elif kind == "review":
            proposal = in_sync.propose_leaving(self.end, self.now)
        elif kind == "metadata" and self.truth.partition_epoch > in_sync.partition_epoch:
            in_sync.follow_metadata(self.truth.partition_epoch, self.truth.isr, ALL, False)
        elif kind == "answer" and self.sent is not None:
            self.answer(self.sent, what)
        if proposal is not None:
            self.sent, self.applied = proposal, False
        self.watermark = max(self.watermark, min(self.end, in_sync.end_of_all(self.end, self.now)))

    def answer(self, sent: Proposal, how: str) -> None:
        current = sent.partition_epoch == self.truth.partition_epoch
        if how in ("yes", "lost") and current:
            isr = tuple(node for node, _ in sent.isr)
            self.truth = Decided(5, sent.partition_epoch + 1, isr)
            if how == "yes":
                self.machine.answered(sent, self.truth)
        elif how == "refused" and current:
            self.machine.answered(sent, ErrorCode.INELIGIBLE_REPLICA)
        elif not current:
            self.machine.answered(sent, ErrorCode.INVALID_UPDATE_VERSION)


@settings(max_examples=300)
@given(EVENTS)
def test_everybody_who_could_be_elected_has_all_that_is_committed(
    events: list[tuple[str, Any]],
) -> None:
    world = World()
    for kind, what in events:
        before = world.watermark
        world.step(kind, what)
        assert world.watermark >= before
        for node_id in world.truth.isr:
            assert node_id == LEADER or world.held[node_id] >= world.watermark
        for node_id in world.machine.isr:
            assert node_id == LEADER or world.held[node_id] >= world.watermark

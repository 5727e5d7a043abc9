"""What a follower takes from its leader, and what it does without one."""

from __future__ import annotations

import pytest

from penstock.model.ids import NO_NODE, Millis
from penstock.model.invariants import InvariantViolated
from penstock.raft.effects import (
    AppendFetched,
    Commit,
    Send,
    TakeSnapshot,
    Truncate,
)
from penstock.raft.election_state import ElectionState
from penstock.raft.machine import Raft
from penstock.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    Position,
    Replica,
    Vote,
)
from penstock.raft.roles import Role
from penstock.raft.snapshots import SnapshotId

from .machines import (
    EMPTY,
    LOW,
    T0,
    THREE,
    Log,
    fetched,
    follower,
    make,
    role_of,
    sent,
    started,
)


def test_a_follower_fetches_again_only_when_what_it_got_is_durable() -> None:
    log = Log()
    raft = follower(log)
    assert fetched(raft, FetchReply(3, 2, 1, b"batch")) == [Commit(0), AppendFetched(b"batch")]
    log.ends.append(Position(3, 1))
    assert raft.tick(Millis(T0 + 100), LOW) == []
    assert raft.synced(1, T0) == [Send(2, Fetch(3, Replica(1), Position(3, 1), 0))]


def test_a_follower_commits_what_the_leader_has_committed_and_it_has_itself() -> None:
    log = Log([Position(3, 5)])
    raft = follower(log)
    assert fetched(raft, FetchReply(3, 2, 9))[0] == Commit(5)


def test_a_follower_goes_back_to_where_its_log_and_the_leaders_part() -> None:
    raft = follower(Log([Position(1, 5), Position(2, 9)]))
    assert fetched(raft, FetchReply(3, 2, 0, diverging=Position(1, 7))) == [Truncate(5)]
    raft.log.ends.pop()  # type: ignore[attr-defined]
    assert sent(raft.log_replaced()) == [(2, Fetch(3, Replica(1), Position(1, 5), -1))]


def test_a_leader_without_what_is_committed_stops_the_node() -> None:
    raft = follower(Log([Position(3, 5)]))
    fetched(raft, FetchReply(3, 2, 5))
    with pytest.raises(InvariantViolated, match="lacks what was committed"):
        fetched(raft, FetchReply(3, 2, 5, diverging=Position(3, 4)))


def test_a_follower_takes_a_snapshot_when_it_is_told_to() -> None:
    wanted = SnapshotId(20, 2)
    assert fetched(follower(), FetchReply(3, 2, 20, snapshot=wanted)) == [TakeSnapshot(2, wanted)]


def test_only_the_newest_fetch_is_followed_by_the_next() -> None:
    raft = follower(Log([Position(3, 5)]))
    old = raft._fetch_asked
    assert old is not None
    raft.tick(Millis(T0 + 2000), LOW)
    raft.on_begin_epoch(BeginEpoch(3, 2), T0, LOW)  # it was only late: a second fetch
    assert fetched(raft, FetchReply(3, 2, 5, b"record 5"), old) == []
    assert raft.lost(2, old, T0, LOW) == []
    assert raft.due > T0 + 100, "the lost one is not sent again"
    assert fetched(raft, FetchReply(3, 2, 5))[1:] == [Send(2, Fetch(3, raft.own, raft.position, 5))]


def test_an_answer_to_a_log_that_has_changed_since_is_not_taken() -> None:
    log = Log([Position(3, 5)])
    raft = follower(log)
    log.ends[-1] = Position(3, 4)
    raft._synced_end = 4
    effects = fetched(raft, FetchReply(3, 2, 5, b"record 5"))
    assert effects == [Send(2, Fetch(3, Replica(1), Position(3, 4), -1))]


def test_nobody_is_told_of_records_that_are_not_durable_yet_whoever_is_asked() -> None:
    log = Log()
    raft = follower(log)
    fetched(raft, FetchReply(3, 2, 0, b"batch"))
    log.ends.append(Position(3, 1))
    raft.on_vote(Vote(4, Replica(3), EMPTY, False), T0, LOW)
    assert raft.role is Role.UNATTACHED
    assert sent(raft.tick(T0, LOW)) == [], "whoever leads epoch 4 would count on them"
    assert raft.synced(1, T0) == [Send(NO_NODE, Fetch(4, Replica(1), Position(3, 1), 0))]


def test_what_a_snapshot_holds_is_committed_even_if_nobody_has_said_so_since_the_start() -> None:
    kept = SnapshotId(20, 2)
    log = Log([Position(2, 25)], start=Position(2, 20), snapshot=kept)
    with pytest.raises(InvariantViolated, match="lacks what was committed"):
        fetched(follower(log), FetchReply(3, 2, 5, diverging=Position(1, 19)))
    with pytest.raises(InvariantViolated, match="lacks what was committed"):
        fetched(follower(log), FetchReply(3, 2, 5, snapshot=SnapshotId(19, 2)))


def test_the_first_successor_stands_as_soon_as_all_can_know_that_the_leader_leaves() -> None:
    raft = follower()
    fetched(raft, FetchReply(3, 2, 0))
    raft.on_end_epoch(EndEpoch(3, 2, (Replica(1), Replica(3))), T0, LOW)
    raft.tick(T0, LOW)
    assert role_of(raft) is Role.FOLLOWER, "the third might not have heard it yet"
    raft.tick(Millis(T0 + raft.timeouts.retry), LOW)
    assert raft.role is Role.PROSPECTIVE


def test_an_answer_that_a_leader_gave_before_it_left_does_not_make_it_stay() -> None:
    raft = follower()
    fetched(raft, FetchReply(3, 2, 0))
    raft.on_end_epoch(EndEpoch(3, 2, (Replica(3), Replica(1))), T0, LOW)
    fetched(raft, FetchReply(3, 2, 0))  # it comes by another connection, and late
    reply, _ = raft.on_vote(Vote(3, Replica(3), raft.position, True), T0, LOW)
    assert reply.granted, "nobody leads this epoch any more"
    raft.tick(Millis(T0 + 100), LOW)
    assert raft.role is Role.PROSPECTIVE, "nor does it wait for that leader's silence"


def test_the_next_one_gives_the_first_a_chance() -> None:
    raft = follower()
    raft.on_end_epoch(EndEpoch(3, 2, (Replica(3), Replica(1))), T0, LOW)
    raft.tick(Millis(T0 + 99), LOW)
    assert role_of(raft) is Role.FOLLOWER
    raft.tick(Millis(T0 + 100), LOW)
    assert raft.role is Role.PROSPECTIVE


def gone(raft: Raft, now: Millis = T0) -> None:
    ask = raft._fetch_asked
    assert ask is not None
    raft.gone(2, ask, now, LOW)


def test_a_leader_whose_process_has_ended_is_not_waited_for() -> None:
    raft = follower()
    fetched(raft, FetchReply(3, 2, 0))
    gone(raft)
    reply, _ = raft.on_vote(Vote(3, Replica(3), raft.position, True), T0, LOW)
    assert reply.granted, "another one that cannot reach it either may try"
    raft.tick(Millis(T0 + 10 * raft.timeouts.retry), LOW)
    assert raft.role is Role.PROSPECTIVE


def test_a_leader_that_answers_again_is_believed_again() -> None:
    raft = follower()
    fetched(raft, FetchReply(3, 2, 0))
    gone(raft)
    raft.tick(raft._fetch_due, LOW)
    fetched(raft, FetchReply(3, 2, 0))
    raft.tick(Millis(T0 + 1000), LOW)
    assert raft.role is Role.FOLLOWER
    reply, _ = raft.on_vote(Vote(3, Replica(3), raft.position, True), T0, LOW)
    assert not reply.granted


def test_another_node_that_is_gone_says_nothing_of_the_leader() -> None:
    raft = follower()
    fetched(raft, FetchReply(3, 2, 0))
    raft.gone(3, BeginEpoch(3, 2), T0, LOW)
    raft.tick(Millis(T0 + 1000), LOW)
    assert raft.role is Role.FOLLOWER


def test_an_observer_never_stands() -> None:
    raft = Raft(Replica(9), THREE, ElectionState(), Log())
    started(raft)
    raft.on_begin_epoch(BeginEpoch(3, 2), T0, LOW)
    raft.tick(Millis(T0 + 2000), LOW)
    assert raft.role is Role.UNATTACHED
    assert raft.tick(Millis(T0 + 60_000), LOW)[-1] == Send(NO_NODE, Fetch(3, raft.own, EMPTY, -1))


def test_a_node_with_a_new_disk_does_not_follow_its_own_past() -> None:
    raft = started(make())
    ask = Fetch(0, raft.own, EMPTY, -1)
    raft.on_fetch_reply(NO_NODE, ask, FetchReply(7, 1), T0, LOW)
    assert (raft.role, raft.epoch) == (Role.UNATTACHED, 7)

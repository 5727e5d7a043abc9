"""What a leader commits, whom it serves, and when it leaves; a sole voter first."""

from __future__ import annotations

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, Millis
from penstock.model.invariants import InvariantViolated
from penstock.raft.effects import (
    AppendLeaderChange,
    Commit,
    SaveElection,
)
from penstock.raft.election_state import ElectionState
from penstock.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    Position,
    Replica,
)
from penstock.raft.roles import Role
from penstock.raft.snapshots import SnapshotId

from .machines import (
    ALONE,
    EMPTY,
    LOW,
    T0,
    Log,
    follower,
    leader,
    make,
    role_of,
    sent,
    started,
)


def test_a_sole_voter_leads_at_once_and_remembers_it_before_it_writes() -> None:
    raft = make(ALONE)
    assert raft.start(T0, LOW) == [
        SaveElection(ElectionState(1, 1)),
        AppendLeaderChange(1, (1,)),
    ]
    assert (raft.role, raft.epoch, raft.leader) == (Role.LEADER, 1, 1)
    assert raft.high_watermark == -1


def test_each_start_opens_a_new_epoch() -> None:
    raft = make(ALONE, Log([Position(4, 9)]), ElectionState(4, 1))
    assert raft.role is Role.RESIGNED
    assert started(raft).epoch == 5


def test_an_epoch_in_the_log_counts_even_if_the_vote_was_lost() -> None:
    assert started(make(ALONE, Log([Position(7, 9)]))).epoch == 8


def test_nothing_is_committed_before_a_record_of_the_own_epoch_is_durable() -> None:
    raft = started(make(ALONE, Log([Position(1, 10)])))
    raft.epoch_began(10)
    assert raft.synced(10, T0) == []
    assert raft.synced(11, T0) == [Commit(11)]
    assert raft.high_watermark == 11


def test_the_high_watermark_never_goes_back() -> None:
    raft = started(make(ALONE))
    raft.epoch_began(0)
    assert raft.synced(5, T0) == [Commit(5)]
    assert raft.synced(5, T0) == []
    assert raft.synced(3, T0) == []
    assert raft.high_watermark == 5


def test_a_leader_that_stops_does_not_commit_any_more() -> None:
    raft = started(make(ALONE))
    raft.epoch_began(0)
    raft.stop(T0)
    assert raft.synced(5, T0) == []
    with pytest.raises(InvariantViolated):
        raft.epoch_began(5)


# -- with others --------------------------------------------------------------------------------


def test_what_most_voters_have_is_committed() -> None:
    raft = leader()
    assert raft.synced(1, T0) == []
    reply, effects = raft.on_fetch(Fetch(1, Replica(2), Position(1, 1), -1), T0)
    assert effects == [Commit(1)]
    assert reply.high_watermark == 1


def test_records_of_an_older_epoch_are_not_committed_by_counting() -> None:
    raft = leader(Log([Position(4, 9)]))
    raft.synced(10, T0)
    assert raft.on_fetch(Fetch(5, Replica(2), Position(4, 9), -1), T0)[1] == []
    assert raft.on_fetch(Fetch(5, Replica(2), Position(5, 10), -1), T0)[1] == [Commit(10)]


def test_an_observer_counts_for_nothing() -> None:
    raft = leader()
    raft.synced(1, T0)
    assert raft.on_fetch(Fetch(1, Replica(9), Position(1, 1), -1), T0)[1] == []


def test_another_node_with_the_leaders_id_does_not_make_its_log_durable() -> None:
    raft = leader()
    raft.on_fetch(Fetch(1, Replica(2), Position(1, 1), -1), T0)
    reply, effects = raft.on_fetch(Fetch(1, Replica(1), Position(1, 1), -1), T0)
    assert (reply.error, effects) == (ErrorCode.INVALID_REQUEST, [])
    assert raft.high_watermark == -1


def test_a_consumer_that_reads_the_log_is_no_observer() -> None:
    raft = leader()
    reply, _ = raft.on_fetch(Fetch(1, Replica(NO_NODE), EMPTY, -1), T0)
    assert reply.error is ErrorCode.NONE
    assert raft.progress is not None
    assert {replica.id for replica in raft.progress.copies} == {1, 2, 3}


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_of_another_epoch_is_refused(epoch: int, error: ErrorCode) -> None:
    reply, _ = leader().on_fetch(Fetch(epoch, Replica(2), EMPTY, -1), T0)
    assert (reply.error, reply.epoch, reply.leader) == (error, 1, 1)


def test_who_does_not_lead_says_who_does() -> None:
    reply, _ = follower().on_fetch(Fetch(3, Replica(3), EMPTY, -1), T0)
    assert (reply.error, reply.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


SEVERAL = [Position(2, 10), Position(4, 20)]


@pytest.mark.parametrize(
    ("theirs", "diverging"),
    [
        (Position(4, 20), None),
        (Position(2, 10), None),
        (Position(2, 7), None),
        (Position(0, 0), None),
        (Position(2, 12), Position(2, 10)),
        (Position(3, 12), Position(2, 10)),
        (Position(4, 25), Position(4, 20)),
        (Position(9, 5), Position(5, 21)),
    ],
)
def test_a_log_that_parted_from_the_leaders_is_told_where(
    theirs: Position, diverging: Position | None
) -> None:
    reply, _ = leader(Log(list(SEVERAL))).on_fetch(Fetch(5, Replica(2), theirs, -1), T0)
    assert (reply.diverging, reply.snapshot, reply.error) == (diverging, None, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("theirs", "needed"),
    [
        (Position(0, 0), True),
        (Position(4, 19), True),
        (Position(3, 20), True),  # as long as what the snapshot stands for, and something else
        (Position(3, 22), True),
        (Position(4, 20), False),
    ],
)
def test_who_lacks_what_only_a_snapshot_holds_is_sent_to_it(theirs: Position, needed: bool) -> None:
    kept = SnapshotId(20, 4)
    log = Log([Position(4, 22)], start=Position(4, 20), snapshot=kept)
    reply, _ = leader(log).on_fetch(Fetch(5, Replica(2), theirs, -1), T0)
    assert reply.snapshot == (kept if needed else None)


def test_a_leader_that_most_voters_left_resigns() -> None:
    raft = leader()
    began = T0 + 1000
    raft.on_fetch(Fetch(1, Replica(2), EMPTY, -1), Millis(began + 500))
    raft.tick(Millis(began + 3000), LOW)
    assert role_of(raft) is Role.LEADER
    effects = raft.tick(Millis(began + 3500), LOW)
    assert raft.role is Role.RESIGNED
    successors = (Replica(2), Replica(3))
    assert sent(effects)[:2] == [(2, EndEpoch(1, 1, successors)), (3, EndEpoch(1, 1, successors))]


def test_a_leader_follows_a_later_one() -> None:
    raft = leader()
    reply, effects = raft.on_begin_epoch(BeginEpoch(4, 3), T0, LOW)
    assert (reply.error, raft.role, raft.leader) == (ErrorCode.NONE, Role.FOLLOWER, 3)
    assert effects[0] == SaveElection(ElectionState(4, 3))


def test_a_second_leader_of_one_epoch_is_not_believed() -> None:
    raft = leader()
    reply, effects = raft.on_begin_epoch(BeginEpoch(1, 3), T0, LOW)
    assert (reply.error, effects) == (ErrorCode.INVALID_REQUEST, [])
    assert raft.role is Role.LEADER

"""Asking for votes, and granting them."""

from __future__ import annotations

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, Millis
from penstock.raft.effects import (
    AppendLeaderChange,
    SaveElection,
    Send,
)
from penstock.raft.election_state import ElectionState
from penstock.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    Position,
    Replica,
    Vote,
    VoteReply,
)
from penstock.raft.roles import Role

from .machines import (
    EMPTY,
    LOW,
    T0,
    Log,
    asked,
    fetched,
    follower,
    make,
    sent,
    started,
)


def test_one_of_several_voters_looks_for_a_leader_first() -> None:
    raft = make()
    assert raft.start(T0, LOW) == []
    assert raft.role is Role.UNATTACHED
    assert sent(raft.tick(T0, LOW)) == [(NO_NODE, Fetch(0, Replica(1), EMPTY, -1))]


def test_silence_makes_a_voter_ask_without_spending_an_epoch() -> None:
    raft = started(make(log=Log([Position(4, 9)])))
    effects = raft.tick(Millis(T0 + 1000), LOW)
    ask = Vote(4, Replica(1), Position(4, 9), True)
    assert effects == [Send(2, ask), Send(3, ask)]
    assert (raft.role, raft.epoch) == (Role.PROSPECTIVE, 4)


def test_a_majority_of_would_be_votes_starts_the_election_and_the_vote_is_durable_first() -> None:
    raft = started(make())
    raft.tick(Millis(T0 + 1000), LOW)
    effects = raft.on_vote_reply(3, asked(raft, pre=True), VoteReply(0, granted=True), T0, LOW)
    ask = Vote(1, Replica(1), EMPTY, False)
    assert effects == [SaveElection(ElectionState(1, -1, 1)), Send(2, ask), Send(3, ask)]


def test_a_majority_of_votes_makes_a_leader_who_tells_the_others() -> None:
    raft = started(make())
    raft.tick(Millis(T0 + 1000), LOW)
    raft.on_vote_reply(3, asked(raft, pre=True), VoteReply(0, granted=True), T0, LOW)
    effects = raft.on_vote_reply(2, asked(raft, pre=False), VoteReply(1, granted=True), T0, LOW)
    begin = BeginEpoch(1, 1)
    assert effects == [
        SaveElection(ElectionState(1, 1)),
        AppendLeaderChange(1, (1, 2)),
        Send(2, begin),
        Send(3, begin),
    ]


def test_who_is_refused_by_most_goes_back_to_looking_for_a_leader() -> None:
    raft = started(make())
    raft.tick(Millis(T0 + 1000), LOW)
    for voter in (2, 3):
        raft.on_vote_reply(voter, asked(raft, pre=True), VoteReply(0), Millis(T0 + 1000), LOW)
    assert raft.role is Role.UNATTACHED
    assert sent(raft.tick(Millis(T0 + 1000), LOW)) == [(NO_NODE, Fetch(0, Replica(1), EMPTY, -1))]


def test_a_candidate_that_most_refuse_waits_a_little_and_asks_around_again() -> None:
    raft = started(make())
    now = Millis(T0 + 1000)
    raft.tick(now, LOW)
    raft.on_vote_reply(3, asked(raft, pre=True), VoteReply(0, granted=True), now, LOW)
    for voter in (2, 3):
        raft.on_vote_reply(voter, asked(raft, pre=False), VoteReply(1), now, LOW)
    assert raft.role is Role.CANDIDATE
    assert now < raft.due <= now + 100, "long before its election times out"
    assert sent(raft.tick(raft.due, LOW)) == [(voter, asked(raft, pre=True)) for voter in (2, 3)]
    assert raft.epoch == 1


def test_answers_to_an_earlier_question_do_not_count() -> None:
    raft = started(make())
    raft.tick(Millis(T0 + 1000), LOW)
    old = asked(raft, pre=True)
    raft.on_vote_reply(3, old, VoteReply(0, granted=True), T0, LOW)
    assert raft.role is Role.CANDIDATE
    assert raft.on_vote_reply(2, old, VoteReply(0, granted=True), T0, LOW) == []
    assert raft.role is Role.CANDIDATE


def test_a_voter_that_could_not_be_asked_is_asked_again_after_a_while() -> None:
    raft = started(make())
    now = Millis(T0 + 1000)
    raft.tick(now, LOW)
    assert raft.lost(3, asked(raft, pre=True), now, LOW) == []
    assert raft.tick(Millis(now + 19), LOW) == []
    assert sent(raft.tick(Millis(now + 20), LOW)) == [(3, asked(raft, pre=True))]


@pytest.mark.parametrize(
    ("mine", "theirs", "granted"),
    [
        (Position(3, 9), Position(3, 9), True),
        (Position(3, 9), Position(3, 10), True),
        (Position(3, 9), Position(4, 1), True),
        (Position(3, 9), Position(3, 8), False),
        (Position(3, 9), Position(2, 99), False),
    ],
)
def test_a_vote_goes_only_to_a_log_that_lacks_nothing(
    mine: Position, theirs: Position, granted: bool
) -> None:
    raft = started(make(log=Log([mine])))
    reply, effects = raft.on_vote(Vote(5, Replica(2), theirs, False), T0, LOW)
    assert reply == VoteReply(5, NO_NODE, granted)
    states = [effect.state for effect in effects if isinstance(effect, SaveElection)]
    assert states[-1] == ElectionState(5, -1, 2 if granted else -1)


@pytest.mark.parametrize("epoch", [5 + (1 << 20) + 1, (1 << 31) - 1])
def test_a_request_cannot_use_up_the_epochs(epoch: int) -> None:
    raft = started(make(stored=ElectionState(5)))
    vote, effects = raft.on_vote(Vote(epoch, Replica(9), EMPTY, False), T0, LOW)
    assert (vote.epoch, vote.error, effects) == (5, ErrorCode.INVALID_REQUEST, [])
    begun, effects = raft.on_begin_epoch(BeginEpoch(epoch, 9), T0, LOW)
    assert (begun.error, effects) == (ErrorCode.INVALID_REQUEST, [])
    ended, effects = raft.on_end_epoch(EndEpoch(epoch, 9, ()), T0, LOW)
    assert (ended.error, effects) == (ErrorCode.INVALID_REQUEST, [])
    assert raft.epoch == 5


def test_who_was_away_for_a_million_epochs_hears_it_from_whom_it_asks() -> None:
    raft = started(make())
    raft.tick(T0, LOW)
    assert raft._fetch_asked is not None
    raft.on_fetch_reply(NO_NODE, raft._fetch_asked, FetchReply(1 << 25, 2), T0, LOW)
    assert (raft.epoch, raft.leader) == (1 << 25, 2)


def test_an_epoch_after_which_there_is_none_is_not_believed_of_anybody() -> None:
    raft = started(make())
    raft.tick(T0, LOW)
    assert raft._fetch_asked is not None
    raft.on_fetch_reply(NO_NODE, raft._fetch_asked, FetchReply((1 << 31) - 1, 2), T0, LOW)
    assert (raft.epoch, raft.leader) == (0, NO_NODE)


def test_an_answer_with_an_error_is_no_refusal() -> None:
    raft = started(make())
    now = Millis(T0 + 1000)
    raft.tick(now, LOW)
    for voter in (2, 3):
        reply = VoteReply(-1, error=ErrorCode.INVALID_VOTER_KEY)
        raft.on_vote_reply(voter, asked(raft, pre=True), reply, now, LOW)
    assert raft.role is Role.PROSPECTIVE
    again = sent(raft.tick(Millis(now + 20), LOW))
    assert again == [(2, asked(raft, pre=True)), (3, asked(raft, pre=True))]


def test_an_epoch_with_a_record_in_the_log_has_a_leader_even_if_the_vote_was_lost() -> None:
    raft = started(make(log=Log([Position(7, 9)])))
    assert not raft.on_vote(Vote(7, Replica(2), Position(7, 9), False), T0, LOW)[0].granted
    assert raft.on_vote(Vote(8, Replica(2), Position(7, 9), False), T0, LOW)[0].granted


def test_one_vote_per_epoch_and_the_same_answer_when_asked_again() -> None:
    raft = started(make())
    ask = Vote(5, Replica(2), EMPTY, False)
    assert raft.on_vote(ask, T0, LOW)[0].granted
    assert raft.on_vote(ask, T0, LOW) == (VoteReply(5, NO_NODE, True), [])
    assert not raft.on_vote(ask._replace(candidate=Replica(3)), T0, LOW)[0].granted


def test_a_vote_survives_a_restart() -> None:
    raft = started(make(stored=ElectionState(5, -1, 2)))
    assert not raft.on_vote(Vote(5, Replica(3), EMPTY, False), T0, LOW)[0].granted
    assert raft.on_vote(Vote(5, Replica(2), EMPTY, False), T0, LOW)[0].granted


def test_a_candidate_of_an_older_epoch_is_told_the_newer() -> None:
    raft = started(make(stored=ElectionState(5, -1, 2)))
    reply, effects = raft.on_vote(Vote(4, Replica(3), EMPTY, False), T0, LOW)
    assert (reply.error, reply.epoch, effects) == (ErrorCode.FENCED_LEADER_EPOCH, 5, [])


def test_who_hears_its_leader_encourages_nobody() -> None:
    raft = follower()
    ask = Vote(3, Replica(3), EMPTY, True)
    assert raft.on_vote(ask, T0, LOW)[0].granted, "the leader has not answered yet"
    fetched(raft, FetchReply(3, 2, 0))
    assert not raft.on_vote(ask, T0, LOW)[0].granted


def test_others_who_still_believe_in_a_silent_leader_do_not_send_a_voter_back_to_it() -> None:
    raft = follower()
    now = Millis(T0 + 2000)
    raft.tick(now, LOW)
    raft.on_vote_reply(3, asked(raft, pre=True), VoteReply(3, 2, granted=True), now, LOW)
    assert (raft.role, raft.epoch) == (Role.CANDIDATE, 4)


def test_a_leader_that_was_only_late_is_followed_again_when_it_speaks_for_itself() -> None:
    raft = follower()
    raft.tick(Millis(T0 + 2000), LOW)
    raft.on_begin_epoch(BeginEpoch(3, 2), Millis(T0 + 2001), LOW)
    assert (raft.role, raft.leader) == (Role.FOLLOWER, 2)


def test_no_vote_in_an_epoch_that_somebody_leads() -> None:
    raft = follower()
    raft.tick(Millis(T0 + 2000), LOW)
    assert raft.role is Role.PROSPECTIVE
    assert not raft.on_vote(Vote(3, Replica(3), EMPTY, False), T0, LOW)[0].granted

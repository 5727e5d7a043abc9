from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, Millis, Uuid
from penstock.model.invariants import InvariantViolated
from penstock.raft.effects import (
    AppendFetched,
    AppendLeaderChange,
    Commit,
    Effect,
    SaveElection,
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
    VoteReply,
)
from penstock.raft.roles import Role
from penstock.raft.snapshots import SnapshotId
from penstock.raft.voters import Voter, Voters, static_voters

ALONE = static_voters([Voter(1)])
THREE = static_voters([Voter(1), Voter(2), Voter(3)])
EMPTY = Position(0, 0)
T0 = Millis(1000)


class Lowest:
    """Chance that always draws the lowest: an election timeout is then 1000 ms."""

    def between(self, low: int, high: int) -> int:
        return low

    def uuid(self) -> Uuid:
        return Uuid(b"u" * 16)


LOW = Lowest()


@dataclass
class Log:
    """A log by its epochs' ends alone."""

    ends: list[Position] = field(default_factory=list)
    start: Position = EMPTY
    snapshot: SnapshotId = field(default_factory=lambda: SnapshotId(0, 0))

    @property
    def end(self) -> int:
        return self.ends[-1].end if self.ends else self.start.end

    @property
    def last_epoch(self) -> int:
        return self.ends[-1].epoch if self.ends else self.start.epoch

    def end_of(self, epoch: int) -> Position:
        return max((each for each in self.ends if each.epoch <= epoch), default=self.start)


def make(
    voters: Voters = THREE, log: Log | None = None, stored: ElectionState | None = None
) -> Raft:
    return Raft(Replica(1), voters, stored or ElectionState(), log or Log())


def started(raft: Raft) -> Raft:
    raft.start(T0, LOW)
    return raft


def sent(effects: list[Effect]) -> list[tuple[int, object]]:
    return [(effect.to, effect.ask) for effect in effects if isinstance(effect, Send)]


def follower(log: Log | None = None, epoch: int = 3) -> Raft:
    """Node 1 follows node 2, and was answered."""
    raft = started(make(log=log))
    raft.on_begin_epoch(BeginEpoch(epoch, 2), T0, LOW)
    return raft


def leader(log: Log | None = None) -> Raft:
    """Node 1 was elected by node 2; its leader change stands at the end of its log."""
    raft = started(make(log=log))
    now = Millis(T0 + 1000)
    raft.tick(now, LOW)
    raft.on_vote_reply(2, asked(raft, pre=True), VoteReply(raft.epoch, granted=True), now, LOW)
    raft.on_vote_reply(2, asked(raft, pre=False), VoteReply(raft.epoch, granted=True), now, LOW)
    assert raft.role is Role.LEADER
    raft.epoch_began(raft.log.end)
    assert isinstance(raft.log, Log)
    raft.log.ends.append(Position(raft.epoch, raft.log.end + 1))
    return raft


def asked(raft: Raft, *, pre: bool) -> Vote:
    return Vote(raft.epoch, raft.own, raft.position, pre)


def role_of(raft: Raft) -> Role:
    """For mypy, which takes a role that was looked at once for the role for ever."""
    return raft.role


def fetched(raft: Raft, reply: FetchReply, ask: Fetch | None = None) -> list[Effect]:
    """The newest fetch is answered, or another one."""
    ask = ask or raft._fetch_asked
    assert ask is not None
    return raft.on_fetch_reply(2, ask, reply, T0, LOW)


# -- alone --------------------------------------------------------------------------------------


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


# -- elections ----------------------------------------------------------------------------------


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


# -- leading ------------------------------------------------------------------------------------


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


# -- following ----------------------------------------------------------------------------------


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

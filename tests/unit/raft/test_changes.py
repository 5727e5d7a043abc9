"""When a leader may change who votes, and when it must wait: as tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.metadata.cluster import Endpoint
from penstock.metadata.levels import LevelRange
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.raft.effects import AppendVoters, Commit, Conclude, Effect, Send
from penstock.raft.election_state import ElectionState
from penstock.raft.machine import Raft
from penstock.raft.messages import (
    AddVoter,
    BeginEpoch,
    Change,
    ChangeReply,
    Fetch,
    FetchReply,
    Position,
    Probe,
    ProbeReply,
    RemoveVoter,
    Replica,
    UpdateVoter,
    VoteReply,
)
from penstock.raft.roles import Role
from penstock.raft.voters import Voter, Voters

from .machines import LOW, T0, Log, asked, sent
from .quorum import dynamic, named

NOW = Millis(T0 + 1000)
KNOWN = ProbeReply(LevelRange(0, 1))
THREE = dynamic(1, 2, 3)
NONE, LATER = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT


def key(voter: Voter) -> Replica:
    return Replica(voter.id, voter.directory)


def remove(voter: Voter) -> RemoveVoter:
    return RemoveVoter(key(voter))


def fetch(raft: Raft, voter: Voter) -> list[Effect]:
    """A replica says that it has all of the leader's log."""
    ask = Fetch(raft.epoch, key(voter), raft.position, raft.high_watermark)
    return raft.on_fetch(ask, NOW)[1]


def append(raft: Raft, effect: AppendVoters) -> list[Effect]:
    """What the driver does with it."""
    assert isinstance(raft.log, Log)
    at = raft.log.end
    raft.log.ends.append(Position(raft.epoch, at + 1))
    return raft.set_voters(effect.voters, at, raft.voters, NOW)


def new_leader(voters: Voters = THREE) -> Raft:
    """Node 1 has won; nothing of its epoch is committed yet."""
    raft = Raft(key(named(1)), voters, ElectionState(), Log())
    raft.endpoints = named(1).endpoints
    raft.start(T0, LOW)
    if raft.role is not Role.LEADER:
        raft.tick(NOW, LOW)
        for pre in (True, False):
            reply = VoteReply(raft.epoch, granted=True)
            raft.on_vote_reply(2, asked(raft, pre=pre), reply, NOW, LOW)
    assert raft.role is Role.LEADER
    raft.epoch_began(0)
    assert isinstance(raft.log, Log)
    raft.log.ends.append(Position(raft.epoch, 1))
    return raft


def leader(voters: Voters = THREE) -> Raft:
    raft = new_leader(voters)
    raft.synced(1, NOW)
    for number in voters.ids[1:]:
        fetch(raft, named(number))
    assert raft.established
    return raft


def changed(raft: Raft, ask: Change) -> ErrorCode | None:
    reply, _ = raft.on_change(ask, 7, NOW)
    return None if reply is None else reply.error


def concluded(effects: list[Effect]) -> list[tuple[int, ErrorCode]]:
    return [(each.ticket, each.reply.error) for each in effects if isinstance(each, Conclude)]


def follower() -> Raft:
    raft = new_leader()
    raft.on_begin_epoch(BeginEpoch(raft.epoch + 1, 2), NOW, LOW)
    return raft


def busy() -> Raft:
    raft = leader()
    raft.on_change(AddVoter(named(4)), 1, NOW)
    return raft


def uncommitted() -> Raft:
    raft = leader()
    _, [effect] = raft.on_change(remove(named(3)), 1, NOW)
    assert isinstance(effect, AppendVoters)
    append(raft, effect)
    raft.change = None  # whoever asked has been told to look again
    return raft


@pytest.mark.parametrize(
    ("state", "ask", "error"),
    [
        (follower, AddVoter(named(4)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (new_leader, AddVoter(named(4)), LATER),
        (new_leader, remove(named(3)), LATER),
        (busy, AddVoter(named(5)), LATER),
        (busy, remove(named(3)), LATER),
        (uncommitted, remove(named(2)), LATER),
        (leader, AddVoter(named(2)), ErrorCode.DUPLICATE_VOTER),
        (leader, remove(named(4)), ErrorCode.VOTER_NOT_FOUND),
        (
            leader,
            remove(named(2)._replace(directory=b"another disk...!")),
            ErrorCode.VOTER_NOT_FOUND,
        ),
        (leader, UpdateVoter(9, named(2)), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (leader, UpdateVoter(0, named(2)), ErrorCode.FENCED_LEADER_EPOCH),
        (leader, UpdateVoter(1, named(4)), ErrorCode.VOTER_NOT_FOUND),
        (leader, UpdateVoter(1, named(2)), NONE),
        (
            leader,
            UpdateVoter(1, named(2)._replace(kraft_versions=LevelRange(0, 0))),
            ErrorCode.INVALID_REQUEST,
        ),
        (leader, AddVoter(named(4)), None),
        (leader, remove(named(1)), None),
    ],
)
def test_a_change_is_begun_or_refused(
    state: Callable[[], Raft], ask: Change, error: ErrorCode | None
) -> None:
    assert changed(state(), ask) == error


@pytest.mark.parametrize(
    ("copies", "reply", "error"),
    [
        (True, KNOWN, None),
        (False, KNOWN, LATER),
        (True, ProbeReply(None), ErrorCode.INVALID_REQUEST),
        (True, ProbeReply(LevelRange(0, 0)), ErrorCode.INVALID_REQUEST),
        (True, ProbeReply(None, ErrorCode.UNSUPPORTED_VERSION), LATER),
    ],
)
def test_who_shall_vote_must_be_able_to(
    copies: bool, reply: ProbeReply, error: ErrorCode | None
) -> None:
    raft = leader()
    if copies:
        fetch(raft, named(4))
    ask = AddVoter(named(4))
    assert raft.on_change(ask, 7, NOW) == (None, [Send(4, Probe(ask.voter))])
    effects = raft.on_probe_reply(Probe(ask.voter), reply, NOW)
    assert concluded(effects) == ([] if error is None else [(7, error)])
    assert any(isinstance(effect, AppendVoters) for effect in effects) == (error is None)
    assert (raft.change is None) == (error is not None)


def test_the_new_voter_counts_as_soon_as_it_is_written_down_and_the_answer_waits() -> None:
    raft = leader()
    fetch(raft, named(4))
    ask = AddVoter(named(4))
    raft.on_change(ask, 7, NOW)
    [effect] = raft.on_probe_reply(Probe(ask.voter), KNOWN, NOW)
    assert isinstance(effect, AppendVoters)
    append(raft, effect)
    assert raft.voters.majority == 3
    assert raft.synced(2, NOW) == []
    assert fetch(raft, named(2)) == [], "two of four are not enough"
    effects = fetch(raft, named(4))
    assert effects[0] == Commit(2)
    assert concluded(effects) == [(7, NONE)]


def test_who_asks_for_itself_is_answered_before_it_is_committed() -> None:
    raft = leader()
    fetch(raft, named(4))
    ask = AddVoter(named(4), when_committed=False)
    raft.on_change(ask, 7, NOW)
    effects = raft.on_probe_reply(Probe(ask.voter), KNOWN, NOW)
    assert [type(effect) for effect in effects] == [AppendVoters, Conclude]
    assert concluded(effects) == [(7, NONE)]


def test_a_voter_that_cannot_be_reached_is_not_added() -> None:
    raft = leader()
    ask = AddVoter(named(4))
    raft.on_change(ask, 7, NOW)
    assert concluded(raft.lost(4, Probe(ask.voter), NOW, LOW)) == [(7, LATER)]
    assert raft.lost(4, Probe(ask.voter), NOW, LOW) == []


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    raft = leader()
    fetch(raft, named(4))
    ask = AddVoter(named(4))
    raft.on_change(ask, 7, NOW)
    assert concluded(raft.tick(Millis(NOW + 2000), LOW)) == [(7, LATER)]
    assert raft.on_probe_reply(Probe(ask.voter), KNOWN, Millis(NOW + 2001)) == []


def test_whoever_waits_hears_of_the_end_of_a_leadership() -> None:
    raft = busy()
    _, effects = raft.on_begin_epoch(BeginEpoch(raft.epoch + 1, 2), NOW, LOW)
    assert concluded(effects) == [(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_a_leader_that_removes_itself_does_not_count_and_goes_when_it_is_committed() -> None:
    raft = leader()
    _, [effect] = raft.on_change(remove(named(1)), 7, NOW)
    assert isinstance(effect, AppendVoters)
    append(raft, effect)
    assert raft.synced(2, NOW) == []
    assert fetch(raft, named(2)) == [], "itself and one of the two: not enough"
    effects = fetch(raft, named(3))
    assert effects[0] == Commit(2)
    assert concluded(effects) == [(7, NONE)]
    assert [to for to, _ in sent(effects)] == [2, 3], "they hear that they should stand"
    assert raft.role is Role.RESIGNED
    assert not raft.may_stand


def test_who_removed_itself_and_was_not_heard_may_lead_once_more() -> None:
    raft = leader(dynamic(1, 2))
    _, [effect] = raft.on_change(remove(named(1)), 7, NOW)
    assert isinstance(effect, AppendVoters)
    append(raft, effect)
    raft.synced(2, NOW)
    raft.on_begin_epoch(BeginEpoch(raft.epoch + 1, 2), NOW, LOW)
    assert not raft.is_voter
    assert raft.may_stand, "its log may be the longest, and then nobody else can win"
    ask = raft._fetch_asked
    assert ask is not None
    raft.on_fetch_reply(2, ask, FetchReply(raft.epoch, 2, high_watermark=2), NOW, LOW)
    assert not raft.may_stand, "the others have it now, and committed it"


def test_a_leader_writes_down_where_it_listens_now() -> None:
    raft = leader()
    assert raft.unwritten_voters == dynamic(1, 2, 3), "only formatting has named them so far"
    raft.voters_at = 0
    assert raft.unwritten_voters is None
    raft.endpoints = named(1, port=1).endpoints
    assert raft.unwritten_voters == dynamic(1, 2, 3).with_voter(named(1, port=1))


def test_a_reply_without_an_error_says_who_leads() -> None:
    raft = leader()
    reply, effects = raft.on_change(UpdateVoter(raft.epoch, named(2, port=1)), 7, NOW)
    assert reply == ChangeReply(raft.epoch, 1)
    assert effects == [AppendVoters(dynamic(1, 2, 3).with_voter(named(2, port=1)))]


def test_a_voter_whose_addresses_were_only_turned_round_has_not_moved() -> None:
    one, other = Endpoint("ONE", "host2", 1, 0), Endpoint("other", "host2", 2, 0)
    raft = leader(dynamic(1, 2, 3).with_voter(named(2)._replace(endpoints=(one, other))))
    turned = named(2)._replace(endpoints=(other._replace(name="OTHER"), one))
    reply, effects = raft.on_change(UpdateVoter(raft.epoch, turned), 7, NOW)
    assert reply is not None and (reply.error, effects) == (NONE, [])

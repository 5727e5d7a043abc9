"""Share sessions: opened, carried on, closed, and lost with their connections."""

from __future__ import annotations

import pytest

from penstock.model.errors import ErrorCode
from penstock.security.principal import Principal
from penstock.server.share_sessions import EPOCH_LAST, Key, Member, ShareSession, ShareSessions

ANNA = Member("workers", "anna")
BERT = Member("workers", "bert")
ONE: Key = (b"1" * 16, 0)
TWO: Key = (b"1" * 16, 1)
LINE = "a connection"


def opened(
    sessions: ShareSessions, member: Member = ANNA, *keys: Key, line: object = LINE
) -> ShareSession:
    session = sessions.begin(member, 0, keys, (), line)
    assert isinstance(session, ShareSession)
    return session


def test_partitions_are_named_once_and_then_only_what_changes() -> None:
    sessions = ShareSessions(10)
    session = opened(sessions, ANNA, ONE)
    assert sessions.begin(ANNA, 1, [TWO], (), LINE) is session
    assert list(session.partitions) == [ONE, TWO]
    assert sessions.begin(ANNA, 2, (), [ONE], LINE) is session
    assert list(session.partitions) == [TWO]


def test_a_partition_that_is_named_again_keeps_its_place() -> None:
    sessions = ShareSessions(10)
    session = opened(sessions, ANNA, ONE, TWO)
    sessions.begin(ANNA, 1, [ONE], (), LINE)
    assert list(session.partitions) == [ONE, TWO]


def test_a_partition_that_gave_records_comes_last() -> None:
    session = opened(ShareSessions(10), ANNA, ONE, TWO)
    session.send_to_back(ONE)
    assert list(session.partitions) == [TWO, ONE]
    session.send_to_back((b"2" * 16, 7))  # forgotten meanwhile: it does not come back
    assert list(session.partitions) == [TWO, ONE]


@pytest.mark.parametrize("epoch", [1, -1])
def test_nothing_is_carried_on_or_closed_that_was_not_opened(epoch: int) -> None:
    sessions = ShareSessions(10)
    assert sessions.begin(ANNA, epoch, (), (), LINE) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.carry_on(ANNA, epoch) is ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 7, -2, EPOCH_LAST])
def test_an_epoch_that_is_not_expected_is_refused_and_changes_nothing(epoch: int) -> None:
    sessions = ShareSessions(10)
    session = opened(sessions, ANNA, ONE)
    assert sessions.begin(ANNA, epoch, [TWO], (), LINE) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert list(session.partitions) == [ONE]
    assert session.epoch == 1


def test_acknowledgements_move_a_session_on_and_never_open_one() -> None:
    sessions = ShareSessions(10)
    session = opened(sessions)
    assert sessions.carry_on(ANNA, 1) is session
    assert sessions.carry_on(ANNA, 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.carry_on(ANNA, 2) is session
    assert sessions.carry_on(ANNA, 0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_an_epoch_never_comes_back_to_the_one_that_opens() -> None:
    session = opened(ShareSessions(10))
    session.epoch = EPOCH_LAST
    session.advance()
    assert session.epoch == 1


def test_a_session_that_is_being_closed_stays_until_its_end_is_told() -> None:
    sessions = ShareSessions(10)
    session = opened(sessions)
    assert sessions.begin(ANNA, -1, (), (), LINE) is session
    assert len(sessions) == 1
    sessions.end(session)
    assert len(sessions) == 0
    sessions.end(session)  # and once is enough


def test_a_member_that_lost_count_begins_anew() -> None:
    sessions = ShareSessions(1)
    before = opened(sessions, ANNA, ONE)
    after = opened(sessions, ANNA, TWO)
    assert after is not before
    assert list(after.partitions) == [TWO]
    sessions.end(before)  # its place is taken: this ends nothing
    assert sessions.carry_on(ANNA, 1) is after


def test_the_table_has_a_bound() -> None:
    sessions = ShareSessions(1)
    opened(sessions, ANNA)
    refused = sessions.begin(BERT, 0, (), (), LINE)
    assert refused is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(sessions) == 1


def test_partitions_have_a_bound_over_all_sessions() -> None:
    sessions = ShareSessions(10, partitions_max=3)
    opened(sessions, ANNA, ONE, TWO)
    refused = sessions.begin(BERT, 0, [ONE, TWO], (), LINE)
    assert refused is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    opened(sessions, BERT, ONE)
    many = [(b"3" * 16, index) for index in range(4)]
    assert sessions.begin(BERT, 1, many, (), LINE) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert len(sessions) == 1


def test_sessions_end_with_the_connection_that_they_were_opened_on() -> None:
    sessions = ShareSessions(10)
    anna, bert = opened(sessions, ANNA, line="a"), opened(sessions, BERT, line="b")
    assert sessions.begin(ANNA, 1, (), (), "b") is anna  # carried on elsewhere, and still bound
    assert sessions.end_of_line("a") == [anna]
    assert sessions.end_of_line("a") == []
    assert sessions.carry_on(BERT, 1) is bert


def test_a_session_is_its_owners_alone() -> None:
    sessions = ShareSessions(10)
    owner, other = Principal("User", "owner"), Principal("User", "other")
    session = sessions.begin(ANNA, 0, (), (), LINE, owner)
    assert isinstance(session, ShareSession)
    for epoch in (0, 1, -1):
        refused = sessions.begin(ANNA, epoch, (), (), LINE, other)
        assert refused is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.carry_on(ANNA, 1, other) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.carry_on(ANNA, 1, owner) is session

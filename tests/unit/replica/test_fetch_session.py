"""A fetch session as the one who asks keeps it."""

from __future__ import annotations

import pytest

from penstock.model.errors import ErrorCode
from penstock.replica.fetch_session import EPOCH_LAST, Key, LeaderSession
from penstock.replica.fetching import Ask


def key(index: int) -> Key:
    return b"t" * 16, index


def ask(offset: int = 0) -> Ask:
    return Ask(offset, -1, 0, 0)


def opened(count: int = 3) -> LeaderSession:
    session = LeaderSession()
    session.plan({key(index): ask() for index in range(count)}, [])
    assert session.answered(77, 0)
    return session


def test_a_session_begins_with_all_and_goes_on_with_what_changed() -> None:
    session = LeaderSession()
    named, forgotten = session.plan({key(0): ask(), key(1): ask()}, [])
    assert (list(named), forgotten, session.id, session.epoch) == ([key(0), key(1)], [], 0, 0)
    assert session.answered(77, 0)
    named, forgotten = session.plan({key(1): ask(5)}, [])
    assert (dict(named), forgotten) == ({key(1): ask(5)}, [])
    assert (session.id, session.epoch) == (77, 1)
    assert session.answered(77, 0)
    named, forgotten = session.plan({key(2): ask()}, [key(0), key(9)])
    assert (dict(named), forgotten, session.epoch) == ({key(2): ask()}, [key(0)], 2)
    assert dict(session.told) == {key(1): ask(5), key(2): ask()}


def test_who_left_and_came_back_before_the_leader_heard_of_it_stays() -> None:
    session = opened()
    named, forgotten = session.plan({key(1): ask(5)}, [key(0), key(1)])
    assert (dict(named), forgotten) == ({key(1): ask(5)}, [key(0)])
    assert session.told[key(1)] == ask(5)


def test_without_a_session_all_is_named_each_time_and_who_had_news_comes_last() -> None:
    session = LeaderSession()
    session.plan({key(index): ask() for index in range(3)}, [])
    assert session.answered(0, 0)
    named, _ = session.plan({key(0): ask(5)}, [])
    assert list(named) == [key(1), key(2), key(0)]
    assert (session.id, session.epoch) == (0, 0)


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77),  # told again, so that the leader drops it
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 77),
    ],
)
def test_a_session_that_the_leader_does_not_know_begins_anew(
    error: ErrorCode, session_id: int
) -> None:
    session = opened()
    assert not session.answered(0, error)
    named, _ = session.plan({}, [])
    assert (len(named), session.id, session.epoch) == (3, session_id, 0)


def test_after_a_loss_everything_is_said_again_and_the_old_session_is_closed() -> None:
    session = opened()
    session.plan({key(1): ask(5)}, [key(0)])
    session.lost()
    named, forgotten = session.plan({}, [])
    assert (dict(named), forgotten) == ({key(2): ask(), key(1): ask(5)}, [])
    assert (session.id, session.epoch) == (77, 0)


def test_a_session_that_the_leader_closes_is_over() -> None:
    session = opened()
    session.plan({}, [])
    assert session.answered(0, 0)
    assert (session.id, session.epoch) == (0, 0)


def test_epochs_go_round_and_leave_out_the_one_that_begins_sessions() -> None:
    session = opened()
    session.epoch = EPOCH_LAST
    assert session.answered(77, 0)
    assert session.epoch == 1

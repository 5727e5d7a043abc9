"""Fetch sessions as a table: what a request with this id and this epoch gets."""

from __future__ import annotations

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from penstock.security.principal import Principal
from penstock.server.fetch_sessions import EPOCH_LAST, EVICTION_MS_MIN, FetchPlan, FetchSessions

VERSION = 12
VERSION_BY_ID = 13


def sessions(count_max: int = 10, **bounds: int) -> FetchSessions:
    ids = iter(range(1, 1000))
    return FetchSessions(count_max, lambda: next(ids), **bounds)


def request(
    session_id: int = 0,
    epoch: int = 0,
    asked: dict[int, int] | None = None,
    forgotten: list[int] | None = None,
) -> FetchRequest:
    """A fetch of topic "t": offsets by partition, and partitions to forget."""
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic="t",
                topic_id=b"t" * 16,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset)
                    for index, offset in (asked or {}).items()
                ],
            )
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic="t", topic_id=b"t" * 16, partitions=forgotten or [])
        ],
    )


def planned(plan: FetchPlan | ErrorCode) -> dict[int, int]:
    """What a plan reads: offsets by partition, in its order."""
    assert isinstance(plan, FetchPlan), plan
    return {wanted.key[1]: wanted.fetch_offset for wanted in plan.wanted}


def opened(cache: FetchSessions, asked: dict[int, int], now: int = 0) -> int:
    plan = cache.begin(request(asked=asked), VERSION, now)
    assert isinstance(plan, FetchPlan) and plan.session is not None
    return plan.session_id


def test_epoch_zero_opens_a_session_and_answers_in_full() -> None:
    cache = sessions()
    plan = cache.begin(request(asked={0: 5, 1: 6}), VERSION, 0)
    assert isinstance(plan, FetchPlan)
    assert (plan.session_id, plan.incremental) == (1, False)
    assert planned(plan) == {0: 5, 1: 6}
    assert len(cache) == 1


def test_the_next_epoch_names_only_what_changed() -> None:
    cache = sessions()
    session_id = opened(cache, {0: 5, 1: 6, 2: 7})
    plan = cache.begin(request(session_id, 1, {1: 60, 3: 8}, [2]), VERSION, 0)
    assert isinstance(plan, FetchPlan) and plan.incremental
    assert planned(plan) == {0: 5, 1: 60, 3: 8}
    plan = cache.begin(request(session_id, 2), VERSION, 0)
    assert planned(plan) == {0: 5, 1: 60, 3: 8}


@pytest.mark.parametrize(
    ("known", "epoch", "version", "error"),
    [
        (False, 1, VERSION, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (True, 2, VERSION, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (True, -7, VERSION, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (True, 1, VERSION_BY_ID, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        (True, 2, VERSION_BY_ID, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_a_session_is_refused(known: bool, epoch: int, version: int, error: ErrorCode) -> None:
    cache = sessions()
    session_id = opened(cache, {0: 5})
    asked = request(session_id if known else session_id + 1, epoch)
    assert cache.begin(asked, version, 0) == error


def test_a_refused_request_changes_nothing() -> None:
    cache = sessions()
    session_id = opened(cache, {0: 5})
    assert isinstance(cache.begin(request(session_id, 9, {0: 99}), VERSION, 0), ErrorCode)
    assert planned(cache.begin(request(session_id, 1), VERSION, 0)) == {0: 5}


def test_epoch_minus_one_closes_the_session_and_is_answered_in_full() -> None:
    cache = sessions()
    session_id = opened(cache, {0: 5})
    plan = cache.begin(request(session_id, -1, {1: 6}), VERSION, 0)
    assert isinstance(plan, FetchPlan)
    assert (plan.session_id, plan.incremental, planned(plan)) == (0, False, {1: 6})
    assert len(cache) == 0


def test_opening_anew_drops_the_old_session() -> None:
    cache = sessions()
    old = opened(cache, {0: 5})
    plan = cache.begin(request(old, 0, {1: 6}), VERSION, 0)
    assert isinstance(plan, FetchPlan) and plan.session_id not in (0, old)
    assert len(cache) == 1


def test_a_session_without_partitions_ends() -> None:
    cache = sessions()
    session_id = opened(cache, {0: 5})
    plan = cache.begin(request(session_id, 1, forgotten=[0]), VERSION, 0)
    assert isinstance(plan, FetchPlan)
    assert (plan.session_id, plan.wanted) == (0, [])
    assert len(cache) == 0


def test_versions_with_topic_ids_know_partitions_by_id() -> None:
    cache = sessions()
    plan = cache.begin(request(asked={0: 5}), VERSION_BY_ID, 0)
    assert isinstance(plan, FetchPlan)
    assert [wanted.key for wanted in plan.wanted] == [(b"t" * 16, 0)]


def test_a_full_cache_gives_no_session_while_all_are_in_use() -> None:
    cache = sessions(2)
    opened(cache, {0: 5}), opened(cache, {0: 5})
    plan = cache.begin(request(asked={0: 5}), VERSION, EVICTION_MS_MIN - 1)
    assert isinstance(plan, FetchPlan)
    assert (plan.session_id, plan.incremental, planned(plan)) == (0, False, {0: 5})


def test_a_full_cache_lets_the_longest_unused_session_go() -> None:
    cache = sessions(2)
    first, second = opened(cache, {0: 5}), opened(cache, {0: 5})
    assert planned(cache.begin(request(first, 1), VERSION, 1000)) == {0: 5}
    third = opened(cache, {0: 5}, EVICTION_MS_MIN + 1)
    assert len(cache) == 2
    assert isinstance(cache.begin(request(second, 1), VERSION, EVICTION_MS_MIN + 2), ErrorCode)
    for session_id, epoch in ((first, 2), (third, 1)):
        assert planned(cache.begin(request(session_id, epoch), VERSION, EVICTION_MS_MIN + 2))


def test_a_cache_of_no_size_gives_no_sessions() -> None:
    plan = sessions(0).begin(request(asked={0: 5}), VERSION, 0)
    assert isinstance(plan, FetchPlan) and plan.session_id == 0


def test_epochs_begin_again_at_one_and_never_pass_zero() -> None:
    cache = sessions()
    plan = cache.begin(request(asked={0: 5}), VERSION, 0)
    assert isinstance(plan, FetchPlan) and plan.session is not None
    plan.session.epoch = EPOCH_LAST
    assert planned(cache.begin(request(plan.session_id, EPOCH_LAST), VERSION, 0)) == {0: 5}
    assert planned(cache.begin(request(plan.session_id, 1), VERSION, 0)) == {0: 5}


def test_a_partition_that_gave_data_comes_last_next_time() -> None:
    cache = sessions()
    plan = cache.begin(request(asked={0: 5, 1: 6, 2: 7}), VERSION, 0)
    assert isinstance(plan, FetchPlan) and plan.session is not None
    plan.session.send_to_back(("t", 0))
    assert list(planned(cache.begin(request(plan.session_id, 1), VERSION, 0))) == [1, 2, 0]


def test_a_partition_that_is_asked_for_twice_is_read_once_as_asked_last() -> None:
    for epoch in (0, -1):
        twice = request(epoch=epoch, asked={0: 5, 1: 6})
        twice.topics += request(asked={0: 9}).topics
        plan = sessions().begin(twice, VERSION, 0)
        assert isinstance(plan, FetchPlan)
        assert [(it.key[1], it.fetch_offset) for it in plan.wanted] == [(0, 9), (1, 6)]


def test_the_partitions_of_all_sessions_together_are_bounded() -> None:
    cache = sessions(partitions_max=5)
    first = opened(cache, {0: 0, 1: 0, 2: 0})
    plan = cache.begin(request(asked={0: 0, 1: 0, 2: 0}), VERSION, 0)
    assert isinstance(plan, FetchPlan) and plan.session is None
    assert planned(plan) == {0: 0, 1: 0, 2: 0}
    assert len(cache) == 1
    # The one that grows beyond the bound is given up, and what it held is free again.
    more = dict.fromkeys(range(10), 0)
    grown = cache.begin(request(first, 1, asked=more), VERSION, 0)
    assert grown == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 0
    second = opened(cache, {0: 0, 1: 0, 2: 0, 3: 0, 4: 0})
    cache.begin(request(second, 1, forgotten=[0, 1]), VERSION, 0)
    third = opened(cache, {0: 0, 1: 0})
    for session_id in (second, third):
        cache.begin(request(session_id, -1), VERSION, 0)
    opened(cache, {0: 0, 1: 0, 2: 0, 3: 0, 4: 0})


def test_sessions_that_nobody_uses_make_room_for_large_new_ones() -> None:
    cache = sessions(partitions_max=5)
    for _ in range(5):
        opened(cache, {0: 0})
    opened(cache, {0: 0, 1: 0, 2: 0}, EVICTION_MS_MIN)
    assert len(cache) == 3


# -- followers ------------------------------------------------------------------------------------

FOLLOWER, OTHER = 3, 4


def followed(cache: FetchSessions, now: int = 0) -> int:
    plan = cache.begin(request(asked={0: 5}), VERSION, now, FOLLOWER)
    assert isinstance(plan, FetchPlan) and plan.session is not None
    return plan.session_id


def test_a_follower_gets_a_session_though_consumers_hold_all_places() -> None:
    cache = sessions(2)
    first, second = opened(cache, {0: 5}), opened(cache, {0: 5})
    refused = cache.begin(request(asked={0: 5}), VERSION, 1)
    assert isinstance(refused, FetchPlan) and refused.session is None
    follower = followed(cache, 1)
    assert cache.begin(request(first, 1), VERSION, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert planned(cache.begin(request(second, 1), VERSION, 1)) == {0: 5}
    assert planned(cache.begin(request(follower, 1), VERSION, 1, FOLLOWER)) == {0: 5}


def test_a_follower_does_not_push_out_another() -> None:
    cache = sessions(1)
    followed(cache)
    refused = cache.begin(request(asked={0: 5}), VERSION, 1, OTHER)
    assert isinstance(refused, FetchPlan) and refused.session is None


def test_what_a_follower_has_abandoned_is_dropped_when_it_comes_back() -> None:
    cache = sessions()
    for now in (0, 1, EVICTION_MS_MIN):
        followed(cache, now)
    assert len(cache) == 2


@pytest.mark.parametrize("who", [-1, OTHER])
def test_a_session_belongs_to_the_follower_that_opened_it(who: int) -> None:
    cache = sessions()
    told = cache.begin(request(followed(cache), 1), VERSION, 0, who)
    assert told is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [-1, 0, 1])
def test_a_session_is_neither_used_nor_ended_by_another_than_its_owner(epoch: int) -> None:
    cache = sessions()
    owner, other = Principal("owner"), Principal("other")
    plan = cache.begin(request(asked={0: 5}), VERSION, 0, owner=owner)
    assert isinstance(plan, FetchPlan)
    theirs = request(plan.session_id, epoch, forgotten=[0])
    answer = cache.begin(theirs, VERSION, 1, owner=other)
    if epoch == 1:
        assert answer == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    else:
        assert planned(answer) == {}
    assert planned(cache.begin(request(plan.session_id, 1), VERSION, 2, owner=owner)) == {0: 5}


def test_a_partition_that_was_served_comes_behind_those_that_were_not() -> None:
    cache = sessions()
    plan = cache.begin(request(asked={0: 5, 1: 5, 2: 5}), VERSION, 0, FOLLOWER)
    assert isinstance(plan, FetchPlan) and plan.session is not None
    watch = plan.session.watch
    assert watch is not None and [key[1] for key in watch.ready] == [0, 1, 2]
    cache.begin(request(plan.session_id, 1, {0: 6}), VERSION, 0, FOLLOWER)
    assert [key[1] for key in watch.ready] == [1, 2, 0]


@pytest.mark.parametrize(("epoch", "known"), [(-1, 9), (4, -1)])
def test_in_a_new_leader_epoch_all_is_told_again(epoch: int, known: int) -> None:
    cache = sessions()
    session_id = opened(cache, {0: 5})
    plan = cache.begin(request(session_id, 1), VERSION, 0)
    assert isinstance(plan, FetchPlan)
    (wanted,) = plan.wanted
    wanted.high_watermark = 9  # told, but the follower had begun to follow anew by then
    again = request(session_id, 2, {0: 5})
    again.topics[0].partitions[0].current_leader_epoch = epoch
    cache.begin(again, VERSION, 0)
    assert wanted.high_watermark == known

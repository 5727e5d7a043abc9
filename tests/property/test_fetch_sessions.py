"""A session reads what a consumer that named all its partitions every time would read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import ErrorCode
from penstock.server.fetch_sessions import FetchPlan, FetchSessions
from tests.unit.server.test_fetch_sessions import VERSION, planned, request

changes = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 5), st.integers(0, 100), max_size=4),
        st.lists(st.integers(0, 5), max_size=3, unique=True),
    ),
    max_size=12,
)


@given(first=st.dictionaries(st.integers(0, 5), st.integers(0, 100), min_size=1), later=changes)
def test_a_session_is_the_sum_of_its_changes(
    first: dict[int, int], later: list[tuple[dict[int, int], list[int]]]
) -> None:
    cache = FetchSessions(5, lambda: 7)
    plan = cache.begin(request(asked=first), VERSION, 0)
    assert planned(plan) == first
    model = dict(first)
    for epoch, (asked, forgotten) in enumerate(later, start=1):
        plan = cache.begin(request(7, epoch, asked, forgotten), VERSION, epoch)
        model |= asked
        for index in forgotten:
            model.pop(index, None)
        assert planned(plan) == model
        if not model:
            assert len(cache) == 0
            return


actions = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from((-1, 0, 1, 2, 3)), st.integers(0, 200_000)),
    max_size=60,
)


@given(count_max=st.integers(0, 3), actions=actions)
def test_the_cache_stays_within_its_bound_whatever_is_asked(
    count_max: int, actions: list[tuple[int, int, int]]
) -> None:
    ids = iter(range(1, 1000))
    cache = FetchSessions(count_max, lambda: next(ids))
    now = 0
    for session_id, epoch, pause in actions:
        now += pause
        plan = cache.begin(request(session_id, epoch, {0: 1}), VERSION, now)
        assert len(cache) <= count_max
        if isinstance(plan, FetchPlan):
            # Whoever gets a plan reads at least what was asked in the same breath.
            assert planned(plan)[0] == 1
        else:
            assert epoch > 0 and plan != ErrorCode.NONE

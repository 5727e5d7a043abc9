"""Plans for moving replicas."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.cluster_plan import Layout, Plan, drained, evened, filled
from penstock.cli.failure import Failure
from penstock.cli.places import Place


def layout(replicas: list[tuple[int, ...]], racks: dict[int, str | None]) -> Layout:
    return Layout(racks, {Place("t", index): each for index, each in enumerate(replicas)})


def after(before: Layout, plan: Plan) -> dict[Place, tuple[int, ...]]:
    return {**before.replicas, **plan}


NOWHERE: dict[int, str | None] = {1: None, 2: None, 3: None, 4: None}


def test_a_drained_broker_has_nothing_and_its_heir_takes_its_place_in_the_list() -> None:
    before = layout([(1, 2), (2, 1), (3, 4)], NOWHERE)
    plan = drained(before, [1])
    assert set(plan) == {Place("t", 0), Place("t", 1)}
    assert plan[Place("t", 0)][1] == 2 and plan[Place("t", 0)][0] in (3, 4)
    assert plan[Place("t", 1)][0] == 2


def test_heirs_are_those_with_the_least_to_do() -> None:
    before = layout([(1,)] * 6 + [(2,)] * 6, {1: None, 2: None, 3: None})
    now = after(before, drained(before, [1]))
    assert Counter(each[0] for each in now.values()) == {2: 6, 3: 6}


def test_racks_stay_apart_where_it_can_be_helped() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "b", 4: "a"}
    plan = drained(layout([(1, 2)] * 4, racks), [1])
    assert all(replicas == (4, 2) for replicas in plan.values())


def test_with_nobody_left_to_take_a_replica_the_advice_is_to_add_a_broker() -> None:
    with pytest.raises(Failure, match="no other broker is free"):
        drained(layout([(1, 2)], {1: None, 2: None}), [1])


def test_a_new_broker_gets_its_share_of_replicas_and_leaders_and_others_exchange_nothing() -> None:
    before = layout([(1, 2), (2, 3), (3, 1)] * 8, NOWHERE)
    plan = filled(before, 4)
    now = after(before, plan)
    assert Counter(broker for each in now.values() for broker in each)[4] == 12
    for place, replicas in plan.items():
        assert set(replicas) - set(before.replicas[place]) <= {4}
    leads = Counter(each[0] for each in now.values())
    assert max(leads.values()) - min(leads.values()) <= 1


def test_a_broker_that_has_not_joined_cannot_be_filled() -> None:
    with pytest.raises(Failure, match="has not joined"):
        filled(layout([(1,)], {1: None}), 2)


def test_what_is_even_stays() -> None:
    assert evened(layout([(1, 2), (2, 3), (3, 1)], {1: None, 2: None, 3: None})) == {}


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    brokers = list(range(1, draw(st.integers(2, 6)) + 1))
    racks = {broker: draw(st.sampled_from([None, "a", "b", "c"])) for broker in brokers}
    replicas = draw(
        st.lists(
            st.lists(st.sampled_from(brokers), min_size=1, max_size=len(brokers), unique=True),
            min_size=1,
            max_size=30,
        )
    )
    return layout([tuple(each) for each in replicas], racks)


def crowded(racks: dict[int, str | None], replicas: tuple[int, ...]) -> int:
    named = [rack for broker in replicas if (rack := racks[broker]) is not None]
    return len(named) - len(set(named))


@given(layouts())
def test_evening_out_keeps_every_promise(before: Layout) -> None:
    plan = evened(before)
    now = after(before, plan)
    for place, replicas in now.items():
        old = before.replicas[place]
        assert len(replicas) == len(old) == len(set(replicas))
        assert set(replicas) <= set(before.racks)
        assert crowded(dict(before.racks), replicas) <= crowded(dict(before.racks), old)
    assert spread(now, before) <= max(1, spread(before.replicas, before))
    if len(set(before.racks.values())) == 1:
        assert spread(now, before) <= 1


def spread(replicas: object, before: Layout) -> int:
    assert isinstance(replicas, dict)
    load = Counter(dict.fromkeys(before.racks, 0))
    load.update(broker for each in replicas.values() for broker in each)
    return max(load.values()) - min(load.values())


@given(layouts())
def test_draining_keeps_the_number_of_replicas_and_touches_no_other_partition(
    before: Layout,
) -> None:
    leaving = max(before.racks)
    try:
        plan = drained(before, [leaving])
    except Failure:
        assert any(len(each) == len(before.racks) for each in before.replicas.values())
        return
    now = after(before, plan)
    for place, replicas in now.items():
        old = before.replicas[place]
        assert leaving not in replicas
        assert len(set(replicas)) == len(old)
        if leaving not in old:
            assert replicas == old

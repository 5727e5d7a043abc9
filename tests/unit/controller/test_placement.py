from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.controller.decision import Refusal
from penstock.controller.placement import Candidate, directory_for, place
from penstock.metadata.cluster import BrokerImage
from penstock.metadata.topics import DIRECTORY_UNASSIGNED
from penstock.model.errors import ErrorCode

from .stage import Dice


def brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> list[Candidate]:
    return [Candidate(n, rack, n in fenced) for n, rack in enumerate(racks, 1)]


def placed(candidates: list[Candidate], count: int, replicas: int) -> list[tuple[int, ...]]:
    found = place(candidates, 0, count, replicas, Dice())
    assert not isinstance(found, Refusal)
    return found


def test_leaders_are_spread_evenly() -> None:
    partitions = placed(brokers(None, None, None), 9, 2)
    assert set(Counter(p[0] for p in partitions).values()) == {3}


def test_followers_of_one_leader_are_spread_over_the_others() -> None:
    partitions = placed(brokers(*[None] * 5), 100, 2)
    followers = Counter(p[1] for p in partitions if p[0] == 1)
    assert set(followers) == {2, 3, 4, 5}
    assert max(followers.values()) - min(followers.values()) <= 1


def test_replicas_are_in_different_racks_while_there_are_racks() -> None:
    candidates = brokers("x", "x", "y", "y", "z", "z")
    rack = {c.id: c.rack for c in candidates}
    for partition in placed(candidates, 60, 3):
        assert len({rack[node] for node in partition}) == 3


def test_fenced_brokers_follow_only_where_the_others_do_not_suffice() -> None:
    partitions = placed(brokers(None, None, None, fenced=(3,)), 10, 2)
    assert all(3 not in p for p in partitions)
    partitions = placed(brokers(None, None, None, fenced=(3,)), 10, 3)
    assert all(p[2] == 3 for p in partitions)


def test_what_cannot_be_placed_is_refused() -> None:
    for candidates, replicas in (
        (brokers(None), 2),
        (brokers(None, fenced=(1,)), 1),
        ([], 1),
    ):
        found = place(candidates, 0, 1, replicas, Dice())
        assert isinstance(found, Refusal)
        assert found.error is ErrorCode.INVALID_REPLICATION_FACTOR


@given(
    st.lists(st.sampled_from(["x", "y", "z", None]), min_size=1, max_size=8),
    st.integers(1, 40),
    st.data(),
)
def test_every_partition_has_distinct_replicas_and_leaders_differ_by_one(
    racks: list[str | None], count: int, data: st.DataObject
) -> None:
    candidates = brokers(*racks)
    replicas = data.draw(st.integers(1, len(candidates)))
    partitions = placed(candidates, count, replicas)
    assert len(partitions) == count
    for partition in partitions:
        assert len(set(partition)) == len(partition) == replicas
    leaders = Counter(p[0] for p in partitions)
    most = max(leaders.values())
    least = min(leaders.values()) if len(leaders) == len(candidates) else 0
    assert most - least <= 1


@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 200), st.integers(0, 1 << 30), st.data()
)
def test_replicas_cover_the_racks_and_load_every_broker_alike(
    racks: int, brokers_each: int, count: int, start: int, data: st.DataObject
) -> None:
    """With racks of one size. What is left over of the last round is all that is uneven."""
    names = [f"rack-{number}" for number in range(racks) for _ in range(brokers_each)]
    candidates = brokers(*names)
    rack = {each.id: each.rack for each in candidates}
    replicas = data.draw(st.integers(1, len(candidates)))
    partitions = place(candidates, start, count, replicas, Dice())
    assert not isinstance(partitions, Refusal)
    for partition in partitions:
        assert len({rack[node] for node in partition}) == min(racks, replicas)
    load = Counter(node for partition in partitions for node in partition)
    held = [load[each.id] for each in candidates]
    assert max(held) - min(held) <= 2 * replicas


@given(st.integers(3, 8), st.integers(2, 3))
def test_many_brokers_share_what_a_dead_leader_led(count: int, replicas: int) -> None:
    partitions = placed(brokers(*[None] * count), 20 * count * (count - 1), replicas)
    for dead in range(1, count + 1):
        heirs = Counter(partition[1] for partition in partitions if partition[0] == dead)
        assert len(heirs) == count - 1
        assert max(heirs.values()) - min(heirs.values()) <= 1


def test_a_broker_with_one_directory_has_no_choice() -> None:
    def broker(*directories: bytes, cordoned: tuple[bytes, ...] | None = None) -> BrokerImage:
        return BrokerImage(1, b"", 1, (), {}, directories=directories, cordoned=cordoned)

    assert directory_for(broker(b"a")) == b"a"
    assert directory_for(broker(b"a", b"b")) == DIRECTORY_UNASSIGNED
    assert directory_for(broker(b"a", b"b", cordoned=(b"a",))) == b"b"
    assert directory_for(None) == DIRECTORY_UNASSIGNED

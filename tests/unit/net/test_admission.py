"""Who may come in, in made-up time."""

from __future__ import annotations

from penstock.net.admission import INT_MAX, Admission, Bounds

HERE = "10.0.0.1"


def opened(bounds: Bounds, *listeners: str, protected: str = "") -> Admission:
    admission = Admission(bounds, protected)
    for name in listeners:
        admission.open(name, INT_MAX, INT_MAX)
    return admission


def test_a_full_node_has_no_room_until_somebody_leaves() -> None:
    admission = opened(Bounds(connections_max=2), "A")
    told: list[str] = []
    admission.on_room.append(lambda: told.append("room"))
    admission.enter("A", HERE)
    assert admission.has_room("A")
    assert not admission.has_room("A", arriving=1)
    admission.enter("A", HERE)
    assert not admission.has_room("A")
    assert not told
    admission.leave("A", HERE)
    assert admission.has_room("A")
    assert told == ["room"]


def test_a_listener_can_be_full_while_others_are_not() -> None:
    admission = opened(Bounds(), "A", "B")
    admission.adjust("A", 1, INT_MAX)
    admission.enter("A", HERE)
    assert not admission.has_room("A")
    assert admission.has_room("B")


def test_the_listener_of_the_brokers_keeps_its_place() -> None:
    admission = opened(Bounds(connections_max=1), "A", "BROKERS", protected="BROKERS")
    admission.enter("A", HERE)
    assert not admission.has_room("A")
    assert admission.has_room("BROKERS")
    asked: list[str] = []
    admission.on_overfull += [
        lambda: bool(asked.append("nobody there")),
        lambda: not asked.append("somebody left"),
        lambda: not asked.append("not asked"),
    ]
    admission.enter("BROKERS", HERE)
    assert admission.overfull
    admission.make_room()
    assert asked == ["nobody there", "somebody left"]


def test_the_only_listener_is_not_kept_a_place_on() -> None:
    admission = opened(Bounds(connections_max=1), "BROKERS", protected="BROKERS")
    admission.enter("BROKERS", HERE)
    assert not admission.has_room("BROKERS")


def test_an_address_has_its_share_and_some_have_another() -> None:
    bounds = Bounds(connections_per_address_max=1, overrides={"10.0.0.2": 2, "10.0.0.3": 0})
    admission = opened(bounds, "A")
    assert not admission.crowded(HERE)
    admission.enter("A", HERE)
    assert admission.crowded(HERE)
    admission.enter("A", "10.0.0.2")
    assert not admission.crowded("10.0.0.2")
    assert admission.crowded("10.0.0.3")
    admission.leave("A", HERE)
    assert not admission.crowded(HERE)


def test_newcomers_wait_when_they_come_faster_than_granted() -> None:
    admission = opened(Bounds(per_second_max=10), "A")
    assert [admission.pace_ms("A", 0) for _ in range(100)] == [0] * 100
    assert admission.pace_ms("A", 0) == 100
    for _ in range(50):
        wait_ms = admission.pace_ms("A", 0)
    assert wait_ms == 1000  # never longer than a sample


def test_brokers_do_not_wait_because_of_others() -> None:
    admission = opened(Bounds(per_second_max=1), "A", "BROKERS", protected="BROKERS")
    for _ in range(20):
        admission.pace_ms("A", 0)
    assert admission.pace_ms("A", 0) > 0
    assert admission.pace_ms("BROKERS", 0) == 0


def test_who_comes_too_fast_from_one_address_is_turned_away_and_does_not_count() -> None:
    admission = opened(Bounds(), "A")
    admission.grant_rates({HERE: 1.0})
    assert [admission.turn_away_ms("A", HERE, 0) for _ in range(10)] == [0] * 10
    assert [admission.turn_away_ms("A", HERE, 0) for _ in range(3)] == [1000] * 3
    assert admission.turn_away_ms("A", "10.9.9.9", 0) == 0
    assert admission.turn_away_ms("A", HERE, 11_001) == 0


def test_addresses_without_a_rate_of_their_own_have_the_default() -> None:
    admission = opened(Bounds(), "A")
    admission.grant_rates({None: 1.0, "10.0.0.2": 100.0})
    for _ in range(10):
        admission.turn_away_ms("A", HERE, 0)
        admission.turn_away_ms("A", "10.0.0.2", 0)
    assert admission.turn_away_ms("A", HERE, 0) > 0
    assert admission.turn_away_ms("A", "10.0.0.2", 0) == 0

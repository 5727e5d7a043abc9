from __future__ import annotations

import pytest

from penstock.cli.failure import USAGE, Failure
from penstock.cli.places import Place, Wanted, by_leader, by_topic, chosen, wanted_of

A0, A1, B0 = Place("a", 0), Place("a", 1), Place("b", 0)


def test_a_topic_is_named_whole_or_in_part() -> None:
    assert wanted_of("a") == Wanted("a", None)
    assert wanted_of("a:0") == Wanted("a", [0])
    assert wanted_of("a:2,0") == Wanted("a", [2, 0])


@pytest.mark.parametrize("word", ["", ":", ":1", "a:", "a:x", "a:1,", "a:-1", "a:\u0661"])
def test_what_names_no_partitions_is_a_mistake(word: str) -> None:
    with pytest.raises(Failure) as failed:
        wanted_of(word)
    assert failed.value.status == USAGE


def test_partitions_are_chosen_in_order_and_once() -> None:
    wanted = [Wanted("b", None), Wanted("a", [1]), Wanted("a", None)]
    assert chosen(wanted, [A1, B0, A0]) == [B0, A1, A0]


def test_what_is_not_there_cannot_be_chosen() -> None:
    with pytest.raises(Failure, match="there is no topic c"):
        chosen([Wanted("c", None)], [A0])
    with pytest.raises(Failure, match="topic a has no partition 7"):
        chosen([Wanted("a", [0, 7])], [A0, A1])


def test_partitions_are_grouped_as_requests_want_them() -> None:
    assert by_topic([A0, B0, A1]) == {"a": [0, 1], "b": [0]}
    assert by_leader({A0: 1, A1: 2, B0: -1}, [A0, A1, B0, Place("c", 0)]) == {1: [A0], 2: [A1]}

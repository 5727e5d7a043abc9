from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.layers import PLAIN_MAX, LayeredMap, changed

LARGE = {number: str(number) for number in range(PLAIN_MAX * 4)}


def test_a_small_map_stays_a_plain_dict() -> None:
    assert type(changed({1: "a"}, {2: "b"})) is dict


def test_a_small_change_of_a_large_map_shares_the_large_one() -> None:
    after = changed(LARGE, {5: None, -1: "new"})
    assert isinstance(after, LayeredMap)
    assert len(after) == len(LARGE)
    assert (after[-1], after.get(5), after.get(5, "gone"), 5 in after) == (
        "new",
        None,
        "gone",
        False,
    )
    assert 5 in LARGE
    assert after[6] == "6"


def test_no_change_is_the_same_map() -> None:
    assert changed(LARGE, {}) is LARGE


def test_many_small_changes_become_one_large_map_again() -> None:
    current = changed(LARGE, {0: "x"})
    kinds = {type(current)}
    for number in range(200):
        current = changed(current, {-number: str(number)})
        kinds.add(type(current))
    assert kinds == {LayeredMap, dict}


@given(
    st.lists(
        st.dictionaries(st.integers(-20, 20), st.none() | st.text(max_size=2), max_size=8),
        max_size=20,
    )
)
def test_it_reads_like_the_dict_that_was_changed_in_place(
    steps: list[dict[int, str | None]],
) -> None:
    plain, current = dict(LARGE), LARGE
    for changes in steps:
        current = changed(current, changes)
        for key, value in changes.items():
            if value is None:
                plain.pop(key, None)
            else:
                plain[key] = value
    assert len(current) == len(plain)
    assert current == plain
    assert dict(current.items()) == plain
    assert set(current) == set(plain.keys()) == set(current.keys())
    assert sorted(current.values()) == sorted(plain.values())
    for key in range(-25, 25):
        assert current.get(key) == plain.get(key)
        assert (key in current) == (key in plain)

"""Share groups: who gets what, how often, and when that ends."""

from __future__ import annotations

import pytest

from penstock.testing.history import deliveries_count_up, shared_out
from penstock.testing.history.checks import shares
from tests.unit.testing.history.story import TOPIC, Story

DONE = shared_out("g", TOPIC)


def sent() -> Story:
    story = Story()
    story.send("p", "a", 0)
    return story


def sound(story: Story) -> list[str]:
    return story.names(shares.settled_stays_settled, shares.deliveries_are_what_was_sent)


def test_a_record_that_comes_back_until_it_is_accepted_is_as_it_should_be() -> None:
    story = sent()
    story.deliver("m", "a", 0)
    story.settle("m", 0, "release")
    story.deliver("n", "a", 0, 2)
    story.settle("n", 0, deliveries=2)
    assert sound(story) == []
    assert story.names(DONE, deliveries_count_up) == []


@pytest.mark.parametrize("word", ["accept", "reject"])
def test_what_was_settled_and_is_delivered_again_is_noticed(word: str) -> None:
    story = sent()
    story.deliver("m", "a", 0)
    story.settle("m", 0, word)
    story.deliver("n", "a", 0)
    assert sound(story) == [shares.SETTLED]


def test_who_was_overtaken_cannot_have_settled_it() -> None:
    story = sent()
    story.deliver("m", "a", 0)
    story.deliver("n", "a", 0, 2, began=1)  # it asked long before: the time alone proves nothing
    story.settle("m", 0)
    assert sound(story) == [shares.SETTLED]


def test_who_has_it_again_without_knowing_may_settle_it() -> None:
    story = sent()
    story.deliver("m", "a", 0)
    story.deliver("m", "a", 0, 2, began=1)  # it waited in the client, who spoke of the first time
    story.settle("m", 0)
    assert sound(story) == []
    story.deliver("m", "a", 0, 3)
    assert sound(story) == [shares.SETTLED]


def test_who_asks_after_they_have_spoken_does_not_get_it_again() -> None:
    story = sent()
    story.deliver("m", "a", 0)
    spoken = story.settle("m", 0)
    story.deliver("m", "a", 0, 2, began=spoken.ended)  # not later than it was heard
    assert sound(story) == [shares.SETTLED]


def test_who_was_overtaken_by_one_who_was_done_with_it_may_say_what_they_like() -> None:
    story = sent()
    story.deliver("m", "a", 0)
    story.deliver("n", "a", 0, 2)
    story.settle("n", 0, deliveries=2)
    story.settle("m", 0)  # it is done with, whoever says so: this is answered as if it counted
    assert sound(story) == []
    story.deliver("n", "a", 0, 3)
    assert sound(story) == [shares.SETTLED, shares.SETTLED]


@pytest.mark.parametrize("word", ["release", "renew"])
def test_what_was_given_back_or_kept_for_longer_may_come_again(word: str) -> None:
    story = sent()
    story.deliver("m", "a", 0)
    story.settle("m", 0, word)
    story.deliver("n", "a", 0, 2)
    assert sound(story) == []


def test_a_word_that_perhaps_nobody_heard_allows_both() -> None:
    story = sent()
    story.deliver("m", "a", 0)
    story.settle("m", 0, known=False)
    assert sound(story) == story.names(DONE) == []
    story.deliver("n", "a", 0, 2)
    assert sound(story) == []


def test_a_record_that_nobody_was_done_with_is_missed() -> None:
    story = sent()
    assert story.names(DONE) == [shares.MISSING]
    story.deliver("m", "a", 0)
    story.settle("m", 0, "release")
    assert story.names(DONE) == [shares.MISSING]


def test_a_record_may_be_given_up_after_so_many_deliveries_and_not_come_once_more() -> None:
    story = sent()
    story.deliver("m", "a", 0, 1)
    story.deliver("m", "a", 0, 2)
    assert story.names(shared_out("g", TOPIC, 2)) == []
    assert story.names(shared_out("g", TOPIC, 3)) == [shares.MISSING]
    assert story.names(shared_out("g", TOPIC, 1)) == [shares.LIMITED]


def test_a_record_from_nowhere_is_noticed() -> None:
    story = sent()
    story.deliver("m", "b", 0)
    assert sound(story) == [shares.DELIVERED]


def test_a_record_of_another_offset_is_noticed() -> None:
    story = sent()
    story.deliver("m", "a", 1)
    assert sound(story) == [shares.DELIVERED]


def test_a_delivery_that_was_not_counted_is_noticed() -> None:
    story = sent()
    story.deliver("m", "a", 0, 1)
    story.deliver("n", "a", 0, 1)
    assert story.names(deliveries_count_up) == [shares.COUNTED]

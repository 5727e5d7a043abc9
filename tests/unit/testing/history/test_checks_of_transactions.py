"""Transactions, zombies, and how far partitions have come."""

from __future__ import annotations

from penstock.testing.history import exactly_once, last_stable_moves_on
from penstock.testing.history.checks import marks, processing, records, transactions, zombies
from tests.unit.testing.history.story import TOPIC, Story


def two_sends(story: Story, who: str = "p") -> None:
    """One record to each of two partitions, in one transaction."""
    story.send(who, "left", 0, transaction="x")
    story.send(who, "right", 0, partition=1, transaction="x")


def read(story: Story, left: bool, right: bool) -> None:
    """Both partitions, past the markers."""
    story.poll("reader", 0, 2, {0: "left"} if left else {}, committed=True)
    story.poll("reader", 0, 2, {0: "right"} if right else {}, partition=1, committed=True)


def test_a_committed_transaction_is_seen_whole() -> None:
    story = Story()
    two_sends(story)
    story.end("p", "x", commit=True)
    read(story, left=True, right=True)
    assert story.names() == []


def test_half_a_transaction_is_noticed() -> None:
    story = Story()
    two_sends(story)
    story.end("p", "x", commit=True)
    read(story, left=True, right=False)
    assert story.names() == [transactions.TORN]


def test_half_a_transaction_is_noticed_even_if_its_end_is_unknown() -> None:
    story = Story()
    two_sends(story)
    story.end("p", "x", commit=True, known=False)
    read(story, left=False, right=True)
    assert story.names() == [transactions.TORN]


def test_a_transaction_of_unknown_end_may_be_there_or_not() -> None:
    for there in (True, False):
        story = Story()
        two_sends(story)
        story.end("p", "x", commit=True, known=False)
        read(story, left=there, right=there)
        assert story.names() == []


def test_an_aborted_transaction_is_invisible() -> None:
    story = Story()
    two_sends(story)
    story.end("p", "x", commit=False)
    read(story, left=True, right=True)
    assert story.names() == [transactions.ABORTED]


def test_a_transaction_that_nobody_ended_is_invisible() -> None:
    story = Story()
    two_sends(story)
    read(story, left=True, right=True)
    assert story.names() == [transactions.ABORTED]


def test_an_abort_settles_a_commit_whose_answer_was_lost() -> None:
    story = Story()
    two_sends(story)
    story.end("p", "x", commit=True, known=False)
    story.end("p", "x", commit=False)
    read(story, left=True, right=True)
    assert story.names() == [transactions.ABORTED]


def test_readers_of_everything_see_aborted_records_and_may() -> None:
    story = Story()
    two_sends(story)
    story.end("p", "x", commit=False)
    story.poll("reader", 0, 2, {0: "left"})
    story.poll("reader", 0, 2, {0: "right"}, partition=1)
    assert story.names() == []


def test_a_committed_transaction_that_is_passed_over_is_missing() -> None:
    story = Story()
    two_sends(story)
    story.end("p", "x", commit=True)
    read(story, left=False, right=False)
    assert story.names() == [transactions.MISSING]


def test_a_lost_marker_shows_as_committed_records_that_nobody_can_read() -> None:
    story = Story()
    two_sends(story)
    story.end("p", "x", commit=True)
    story.poll("reader", 0, 2, {0: "left"}, committed=True)
    story.poll("reader", 0, 0, {}, partition=1, committed=True, at_end=True)
    assert story.names() == [records.UNREAD]


def test_a_value_that_was_aborted_and_sent_again_is_seen_once() -> None:
    story = Story()
    story.send("p", "left", 0, transaction="x")
    story.end("p", "x", commit=False)
    story.send("p", "left", 2, transaction="y")
    story.end("p", "y", commit=True)
    story.poll("reader", 0, 4, {2: "left"}, committed=True)
    assert story.names() == []


def test_the_last_stable_offset_is_at_most_the_high_watermark() -> None:
    story = Story()
    story.marks(high=3, stable=4)
    assert story.names() == [marks.STABLE_ABOVE]


def test_the_last_stable_offset_never_goes_back() -> None:
    story = Story()
    story.marks(high=9, stable=5)
    story.marks(high=9, stable=4)
    assert story.names() == [marks.STABLE_BACK]


def test_the_high_watermark_never_goes_back() -> None:
    story = Story()
    story.marks(high=9)
    story.marks(high=8)
    assert story.names() == [marks.HIGH_BACK]


def test_a_watermark_below_what_was_read_went_back() -> None:
    story = Story()
    story.poll("reader", 0, 3, {0: "somebody's", 1: "else's", 2: "records"})
    story.marks(high=2)
    assert story.names() == [marks.HIGH_BACK]


def test_marks_that_were_asked_for_at_the_same_time_may_come_in_any_order() -> None:
    story = Story()
    later = story.marks(high=9)
    earlier = story.marks(high=8)
    earlier.began = later.began
    assert story.names() == []


def test_a_last_stable_offset_that_stands_for_too_long_is_stuck() -> None:
    story = Story()
    story.marks(high=5, stable=2)
    story.ticks += 70_000_000_000
    story.marks(high=9, stable=2)
    assert story.names(last_stable_moves_on(80)) == []
    assert story.names(last_stable_moves_on(60)) == [marks.STABLE_STUCK]


def test_a_fenced_producers_later_records_must_not_be_taken() -> None:
    story = Story()
    story.init("old", "id")
    story.init("new", "id")
    story.send("old", "late", 0)
    story.poll("reader", 0, 1, {0: "late"})
    assert story.names() == [zombies.ZOMBIE]


def test_a_fenced_producers_later_records_must_not_be_seen_even_if_it_was_told_nothing() -> None:
    story = Story()
    story.init("old", "id")
    story.init("new", "id")
    story.send("old", "late", None)
    story.poll("reader", 0, 1, {0: "late"})
    assert story.names() == [zombies.ZOMBIE]


def test_a_fenced_producers_later_commit_must_fail() -> None:
    story = Story()
    story.init("old", "id")
    two_sends(story, "old")
    story.init("new", "id")
    story.end("old", "x", commit=True)
    read(story, left=True, right=True)
    assert story.names() == [zombies.ZOMBIE]


def test_a_producer_that_took_its_id_back_is_no_zombie() -> None:
    story = Story()
    story.init("old", "id")
    story.init("new", "id")
    story.init("old", "id")
    story.send("old", "late", 0)
    story.poll("reader", 0, 1, {0: "late"})
    assert story.names() == []


def test_each_input_is_in_the_output_once() -> None:
    once = exactly_once(TOPIC, "out", origin=lambda value: value.removeprefix("made of "))
    story = Story()
    for number in range(3):
        story.send("p", f"i{number}", number)
    story.poll("reader", 0, 3, {0: "i0", 1: "i1", 2: "i2"})
    made = {0: "made of i0", 1: "made of i1"}
    output = story.poll("reader", 0, 2, made, topic="out", committed=True)
    assert story.names(once) == [processing.MISSING]
    output.records.append((2, "made of i2"))
    assert story.names(once) == []
    output.records.append((3, "made of i2"))
    assert story.names(once) == [processing.DOUBLED]

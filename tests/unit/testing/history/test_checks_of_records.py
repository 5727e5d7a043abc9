"""What a log holds, against what its producers were told."""

from __future__ import annotations

from penstock.testing.history import Seek
from penstock.testing.history.checks import order, readers, records
from penstock.testing.history.operations import UNSET
from tests.unit.testing.history.story import TOPIC, Story


def sound() -> Story:
    """Two producers, one partition, everything read."""
    story = Story()
    story.send("a", "a1", 0)
    story.send("b", "b1", 1)
    story.send("a", "a2", 2)
    story.poll("reader", 0, 3, {0: "a1", 1: "b1", 2: "a2"}, at_end=True)
    return story


def test_a_sound_history_breaks_nothing() -> None:
    assert sound().names() == []


def test_an_acknowledged_record_that_readers_pass_without_is_lost() -> None:
    story = sound()
    story.send("a", "a3", 3)
    story.send("a", "a4", 4)
    story.poll("reader", 3, 5, {4: "a4"})
    assert story.names() == [records.LOST]


def test_an_acknowledged_record_above_the_end_is_lost() -> None:
    story = sound()
    story.send("a", "a3", 3)
    story.poll("reader", 3, 3, {}, at_end=True)
    assert records.LOST in story.names()


def test_a_record_acknowledged_without_an_offset_is_lost_if_readers_of_everything_miss_it() -> None:
    """That is how a producer hears of a retry whose first attempt had been written."""
    story = sound()
    story.send("a", "a3", UNSET)
    assert story.names() == []  # nobody has looked since
    story.poll("reader", 3, 3, {}, at_end=True)
    assert story.names() == [records.LOST]


def test_a_record_acknowledged_without_an_offset_may_stand_anywhere() -> None:
    story = sound()
    story.send("a", "a3", UNSET)
    story.poll("reader", 3, 4, {3: "a3"}, at_end=True)
    assert story.names() == []


def test_an_end_that_was_seen_before_the_acknowledgement_proves_nothing() -> None:
    story = sound()
    send = story.send("a", "a3", None)
    story.poll("reader", 3, 3, {}, at_end=True)
    story.client("a").ok(send, offset=3)
    story.poll("reader", 3, 4, {3: "a3"})
    assert story.names() == []


def test_a_history_that_was_not_read_to_its_end_says_so() -> None:
    story = sound()
    story.send("a", "a3", 3)
    assert story.names() == [records.UNREAD]


def test_an_unknown_send_may_be_there_or_not() -> None:
    there, missing = sound(), sound()
    there.send("a", "a3", None)
    there.poll("reader", 3, 4, {3: "a3"})
    missing.send("a", "a3", None)
    missing.poll("reader", 3, 3, {}, at_end=True)
    assert there.names() == missing.names() == []


def test_two_values_at_one_offset_are_found_between_a_producer_and_a_reader() -> None:
    story = Story()
    story.send("b", "b1", None)
    story.send("a", "a1", 0)
    story.poll("reader", 0, 1, {0: "b1"})
    assert story.names() == [records.ONE_VALUE]


def test_two_values_at_one_offset_are_found_between_readers() -> None:
    story = sound()
    story.send("b", "b2", None)
    story.poll("other", 0, 3, {0: "a1", 1: "b1", 2: "b2"})
    assert story.names(records.one_value_per_offset) == [records.ONE_VALUE]


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    story = sound()
    story.poll("reader", 3, 4, {3: "a2"})
    assert story.names(records.no_duplicates) == [records.DUPLICATE]


def test_a_value_that_was_sent_twice_may_stand_twice() -> None:
    story = sound()
    story.send("a", "a2", 3)
    story.poll("reader", 3, 4, {3: "a2"})
    assert story.names() == []


def test_a_plain_producer_may_repeat_itself() -> None:
    story = Story()
    story.send("a", "a1", 1, idempotent=False)
    story.poll("reader", 0, 2, {0: "a1", 1: "a1"})
    assert story.names() == []


def test_a_record_whose_sending_failed_must_not_appear() -> None:
    story = sound()
    story.refused("a", "a3")
    story.poll("reader", 3, 4, {3: "a3"})
    assert story.names() == [records.NOWHERE]


def test_a_record_that_nobody_sent_must_not_appear() -> None:
    story = sound()
    story.poll("reader", 3, 4, {3: "what is this"})
    assert story.names() == [records.NOWHERE]


def test_a_topic_without_recorded_producers_may_hold_anything() -> None:
    story = Story()
    story.poll("reader", 0, 1, {0: "somebody's"})
    assert story.names() == []


def test_a_producers_records_stand_in_its_order() -> None:
    story = Story()
    first = story.send("a", "a1", None)
    second = story.send("a", "a2", None)
    story.client("a").ok(second, offset=0)
    story.client("a").ok(first, offset=1)
    story.poll("reader", 0, 2, {0: "a2", 1: "a1"})
    assert story.names() == [order.PRODUCER_ORDER]


def test_order_is_known_from_readers_when_acknowledgements_are_lost() -> None:
    story = Story()
    story.send("a", "a1", None)
    story.send("a", "a2", None)
    story.poll("reader", 0, 2, {0: "a2", 1: "a1"})
    assert story.names() == [order.PRODUCER_ORDER]


def test_a_send_after_an_acknowledgement_lands_above_it() -> None:
    story = Story()
    story.send("a", "a1", 5)
    story.send("b", "b1", 4)
    story.poll("reader", 4, 6, {4: "b1", 5: "a1"})
    assert story.names() == [order.REAL_TIME]


def test_sends_at_the_same_time_land_in_any_order() -> None:
    story = Story()
    send = story.send("b", "b1", None)
    story.send("a", "a1", 5)
    story.client("b").ok(send, offset=4)
    story.poll("reader", 4, 6, {4: "b1", 5: "a1"})
    assert story.names() == []


def test_a_reader_that_jumps_is_noticed() -> None:
    story = sound()
    story.poll("reader", 5, 6, {})
    assert story.names() == [readers.ORDER]


def test_a_reader_that_was_told_to_jump_is_not() -> None:
    story = sound()
    story.client("reader").note(Seek(topic=TOPIC, partition=0, offset=0))
    story.poll("reader", 0, 3, {0: "a1", 1: "b1", 2: "a2"})
    assert story.names() == []


def test_a_reader_that_finds_records_out_of_order_is_noticed() -> None:
    story = sound()
    story.poll("other", 0, 3, {1: "b1", 0: "a1", 2: "a2"})
    assert readers.ORDER in story.names()


def test_a_record_that_one_reader_finds_and_another_does_not_was_skipped() -> None:
    story = sound()
    story.poll("other", 0, 3, {0: "a1", 2: "a2"})
    assert story.names() == [readers.SKIPPED]

"""Who gets which records, and how many."""

from __future__ import annotations

import pytest

from penstock.coordination.delivery.effects import Acquired
from penstock.coordination.delivery.settings import Backoff, DeliverySettings

from .desk import ACCEPT, RELEASE, Desk


def test_a_record_goes_to_one_member_at_a_time() -> None:
    desk = Desk()
    assert desk.fetch("ann", (0, 9)) == [Acquired(0, 9, 1)]
    assert desk.next == 10
    assert desk.fetch("bob", (0, 9), (10, 19), read_from=0) == [Acquired(10, 19, 1)]
    assert desk.fetch("bob", (0, 9), (10, 19), read_from=0) == []


def test_reading_begins_with_the_lowest_record_that_came_back() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 29))
    desk.say("ann", 20, 22, RELEASE)
    desk.say("ann", 7, 8, RELEASE)
    desk.write()
    assert desk.next == 20
    desk.write()
    assert desk.next == 7
    assert desk.fetch("bob", (0, 29)) == [Acquired(7, 8, 2), Acquired(20, 22, 2)]
    assert desk.next == 30


def test_what_came_back_goes_out_together_with_what_is_new() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 8, 9, RELEASE)
    desk.write()
    assert desk.fetch("bob", (0, 9), (10, 19)) == [Acquired(8, 9, 2), Acquired(10, 19, 1)]


@pytest.mark.parametrize(
    ("records_max", "strict", "got"),
    [
        (5, False, [Acquired(0, 9, 1)]),
        (5, True, [Acquired(0, 4, 1)]),
        (10, False, [Acquired(0, 9, 1)]),
        (11, False, [Acquired(0, 19, 1)]),
        (11, True, [Acquired(0, 10, 1)]),
        (30, True, [Acquired(0, 29, 1)]),
        (0, False, []),
    ],
)
def test_only_who_insists_on_it_parts_a_batch_of_the_log(
    records_max: int, strict: bool, got: list[Acquired]
) -> None:
    desk = Desk()
    found = (0, 9), (10, 19), (20, 29)
    assert desk.fetch("ann", *found, records_max=records_max, strict=strict) == got


def test_what_came_back_counts_towards_the_limit_as_well() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9), (10, 19))
    desk.say("ann", 4, 13, RELEASE)
    desk.write()
    assert desk.fetch("bob", (0, 9), (10, 19), records_max=2, strict=True) == [Acquired(4, 5, 2)]
    assert desk.fetch("bob", (0, 9), (10, 19), records_max=2) == [Acquired(6, 9, 2)]


def test_long_ranges_come_in_pieces_that_end_with_batches_of_the_log() -> None:
    desk = Desk()
    found = (0, 3), (4, 7), (8, 11), (12, 30)
    assert desk.fetch("ann", *found, batch_size=5) == [
        Acquired(0, 7, 1),
        Acquired(8, 30, 1),
    ]


def test_gaps_in_the_log_are_done_with() -> None:
    desk = Desk()
    assert desk.fetch("ann", (3, 5), (9, 9)) == [Acquired(3, 5, 1), Acquired(9, 9, 1)]
    assert desk.delivery.start == 3
    assert (6, 8, "ARCHIVED") in desk.states
    assert desk.writes == []


def test_a_record_that_compaction_took_before_it_came_again_is_done_with() -> None:
    desk = Desk(DeliverySettings(backoff=Backoff(1_000, 1_000)))
    desk.fetch("ann", (0, 2))
    desk.say("ann", 0, 2, RELEASE)
    desk.write()
    desk.wait(1_000)
    assert desk.fetch("bob", (10, 12)) == [Acquired(10, 12, 1)]
    assert desk.delivery.start == 10


def test_a_gap_is_what_lies_behind_where_the_reader_began() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9), (10, 19))
    read_from = desk.next
    desk.say("ann", 0, 4, RELEASE)
    desk.write()
    # The reader set out before these came back: it did not look for them.
    assert desk.fetch("bob", (25, 29), read_from=read_from) == [Acquired(25, 29, 1)]
    assert desk.next == 0


def test_what_is_skipped_nobody_sees() -> None:
    desk = Desk()
    got = desk.fetch("ann", (0, 4), (5, 9), (10, 14), skip=[(0, 4), (11, 12)])
    assert got == [Acquired(5, 10, 1), Acquired(13, 14, 1)]
    assert desk.delivery.start == 5


def test_a_whole_read_of_nothing_but_skipped_records_moves_the_start() -> None:
    desk = Desk(DeliverySettings(in_flight_max=100))
    assert desk.fetch("ann", (0, 5_000), skip=[(0, 5_000)]) == []
    assert (desk.delivery.start, desk.next) == (5_001, 5_001)
    # Nobody has anything to say that would tell the share coordinator.
    write = desk.write()
    assert (write.start, write.batches, write.complete) == (5_001, (), 0)


def test_what_another_holds_is_not_skipped() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 4))
    assert desk.fetch("bob", (0, 4), (5, 9), read_from=0, skip=[(0, 9)]) == []
    desk.accept("ann", 0, 4)
    assert desk.answers[-1][1] == 0
    assert desk.delivery.start == 10


def test_too_much_in_flight_stops_the_reading_until_some_is_done_with() -> None:
    desk = Desk(DeliverySettings(in_flight_max=20))
    desk.fetch("ann", (0, 9), (10, 19))
    assert desk.next is None
    desk.accept("ann", 0, 9)
    assert desk.ready
    assert desk.next == 20


def test_what_is_done_with_behind_a_record_that_waits_makes_room() -> None:
    desk = Desk(DeliverySettings(in_flight_max=20, backoff=Backoff(600_000, 600_000)))
    desk.fetch("ann", (0, 9), (10, 19))
    desk.say("ann", 0, 0, RELEASE)
    desk.write()
    desk.accept("ann", 1, 19)
    assert desk.delivery.start == 0
    assert desk.fetch("ann", (20, 29)) == [Acquired(20, 29, 1)]


def test_what_came_back_may_go_out_however_much_is_in_flight() -> None:
    desk = Desk(DeliverySettings(in_flight_max=10))
    desk.fetch("ann", (0, 9))
    desk.say("ann", 9, 9, RELEASE)
    desk.write()
    assert desk.fetch("bob", (0, 9), (10, 19)) == [Acquired(9, 9, 2)]


def test_who_insists_never_gets_more_than_may_be_in_flight() -> None:
    desk = Desk(DeliverySettings(in_flight_max=10))
    assert desk.fetch("ann", (0, 7), (8, 30), strict=True) == [Acquired(0, 9, 1)]


def test_the_last_batch_may_exceed_what_may_be_in_flight() -> None:
    desk = Desk(DeliverySettings(in_flight_max=10))
    assert desk.fetch("ann", (0, 7), (8, 30), (31, 40)) == [Acquired(0, 30, 1)]


def test_records_that_came_back_too_often_go_out_with_ever_fewer_others() -> None:
    desk = Desk(DeliverySettings(count_max=6))
    company = []
    for _ in range(6):
        got = desk.fetch("ann", (0, 15))
        company.append([last - first + 1 for first, last, _ in got])
        desk.leave("ann")
        desk.writes.clear()
    # Three times all; then eight of them, then four of these, and in the end one alone.
    assert company == [[16], [16], [16], [8], [4], [1]]


def test_suspects_do_not_travel_with_others() -> None:
    desk = Desk(DeliverySettings(count_max=3))
    desk.fetch("ann", (0, 1))
    desk.fetch("bob", (2, 3))
    for member in ("ann", "bob"):
        desk.leave(member)
    assert desk.fetch("ann", (0, 1), read_from=0) == [Acquired(0, 1, 2)]
    desk.leave("ann")
    # 0 and 1 were out twice, and the next time is the last.
    assert desk.fetch("ann", (0, 3)) == [Acquired(0, 0, 3)]
    assert desk.fetch("bob", (0, 3)) == [Acquired(1, 1, 3)]
    assert desk.fetch("bob", (0, 3), (4, 4)) == [Acquired(2, 3, 2), Acquired(4, 4, 1)]


def test_nothing_found_is_nothing_acquired() -> None:
    desk = Desk(start=7)
    assert desk.fetch("ann") == []
    assert desk.fetch("ann", (0, 6), read_from=0) == []
    assert desk.fetch("ann", (20, 30), read_from=20) == []
    assert desk.next == 7


def test_a_batch_that_begins_below_the_start_gives_what_is_left_of_it() -> None:
    desk = Desk(start=5)
    assert desk.fetch("ann", (0, 9)) == [Acquired(5, 9, 1)]
    desk.say("ann", 5, 9, ACCEPT)
    assert desk.writes[0].complete == 5

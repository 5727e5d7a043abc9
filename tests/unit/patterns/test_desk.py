"""What runs, what waits, and what may be committed."""

from __future__ import annotations

import pytest

from penstock.patterns import Backoff
from penstock.patterns.desk import Busy, Failed, Rules
from penstock.patterns.message import Message
from penstock.patterns.notes import Notes
from penstock.patterns.tenure import Bury, Park
from tests.unit.patterns.stage import TOPIC, Stage

PLACE = (TOPIC, 0)
FAILED = Failed("no")


def stage(keys: str, **rules: object) -> Stage:
    """One partition, a letter for each message's key; a dot for none. Assigned, and read."""
    log = [None if key == "." else key.encode() for key in keys]
    made = Stage(Rules(**rules), [log], batch=max(len(log), 1))  # type: ignore[arg-type]
    made.assign()
    made.fetch()
    return made


def offsets(found: Stage) -> list[int]:
    return [job.offset for job in found.running]


def test_messages_of_different_keys_run_beside_each_other_and_of_one_key_in_turn() -> None:
    it = stage("aab.a.")
    assert offsets(it) == [0, 2, 3, 5]
    it.end(it.running[0])
    assert offsets(it) == [2, 3, 5, 1]


def test_without_order_all_run_at_once() -> None:
    assert offsets(stage("aaa", keep_order=False)) == [0, 1, 2]


def test_no_more_run_than_there_are_workers() -> None:
    it = stage("abc", workers=2)
    assert offsets(it) == [0, 1]
    it.end(it.running[0])
    assert offsets(it) == [1, 2]


def test_a_commit_stops_at_the_lowest_that_is_not_done() -> None:
    it = stage("abc")
    first, second, third = it.running
    it.end(third)
    it.end(second)
    it.commit()
    assert it.committed[PLACE][0] == 0
    it.end(first)
    it.commit()
    assert it.committed[PLACE][0] == 3


def test_a_commit_that_did_not_arrive_is_given_again() -> None:
    it = stage("a")
    it.end(it.running[0])
    marks = it.desk.marks()
    it.desk.told(marks)
    assert it.desk.marks() == []
    it.desk.untold([PLACE])
    assert it.desk.marks() == marks


def test_a_failed_message_waits_and_its_key_waits_behind_it_while_others_go_on() -> None:
    it = stage("aab", backoff=Backoff(first=5, tries=3))
    it.end(it.running[0], FAILED)
    it.end(it.running[0])
    assert it.running == []
    assert it.desk.next_due() == 5
    it.advance(4.9)
    assert it.running == []
    it.advance(0.1)
    assert [(job.offset, job.message.attempt) for job in it.running] == [(0, 2)]
    it.end(it.running[0])
    assert offsets(it) == [1]


def test_after_the_last_try_a_message_is_buried_and_its_key_goes_on_when_that_is_safe() -> None:
    it = stage("aa", backoff=Backoff(first=1, tries=2))
    it.end(it.running[0], FAILED)
    it.advance(1)
    it.end(it.running[0], FAILED)
    (errand,) = it.under_way
    assert errand == Bury(errand.job, "failed", "no")
    assert errand.job.message.attempt == 2
    assert it.running == []
    it.answer(errand)
    assert offsets(it) == [1]


def test_a_rejected_message_is_buried_without_another_try() -> None:
    it = stage("a", backoff=Backoff(tries=5))
    it.end(it.running[0], Failed("bad form", final=True))
    assert [errand[1:] for errand in it.under_way] == [("rejected", "bad form")]


def test_a_letter_that_is_refused_is_sent_again_and_nothing_passes_it() -> None:
    it = stage("ab")
    it.end(it.running[0], FAILED)
    it.answer(it.under_way[0], good=False)
    it.end(it.running[0])
    it.commit()
    assert it.committed[PLACE][0] == 0
    it.advance(1)
    it.answer(it.under_way[0])
    it.commit()
    assert it.committed[PLACE][0] == 2


def test_without_a_dead_letter_topic_the_worker_is_stuck_and_says_on_what() -> None:
    it = stage("ab", buries=False)
    it.end(it.running[0], FAILED)
    assert it.desk.stuck is not None
    assert (it.desk.stuck.message.offset, it.desk.stuck.told) == (0, "no")
    it.end(it.running[0])
    it.commit()
    assert it.committed[PLACE][0] == 0


def test_a_wait_that_is_too_long_for_memory_is_spent_in_a_retry_topic() -> None:
    it = stage("a", keep_order=False, backoff=Backoff.of(1, 60), hold_max=10)
    it.end(it.running[0], FAILED)
    assert it.under_way == []
    it.advance(1)
    it.end(it.running[0], FAILED)
    (errand,) = it.under_way
    assert errand == Park(errand.job, 60)
    assert errand.job.message.attempt == 3, "the copy is the third try"
    it.answer(errand)
    it.commit()
    assert it.committed[PLACE][0] == 1


def test_a_copy_that_cannot_be_sent_waits_here() -> None:
    it = stage("a", keep_order=False, backoff=Backoff.of(60), hold_max=10)
    it.end(it.running[0], FAILED)
    (errand,) = it.under_way
    it.desk.keep(errand.job, 60)
    it.advance(60)
    assert [(job.offset, job.message.attempt) for job in it.running] == [(0, 2)]


def test_a_message_that_is_not_due_rests_until_it_is() -> None:
    it = stage("")
    it.desk.take(PLACE, 0, Message(TOPIC, 0, 0), it.now, due=3.0)
    it.advance(2)
    assert it.running == []
    it.advance(1)
    assert offsets(it) == [0]


def test_another_copy_at_the_same_moment_is_looked_at_again_and_no_try_is_counted() -> None:
    it = stage("a")
    it.end(it.running[0], Busy())
    it.advance(1)
    assert it.running[0].message.attempt == 1


@pytest.mark.parametrize("buried", [False, True])
def test_a_message_that_is_too_old_is_not_handled(buried: bool) -> None:
    it = stage("", bury_expired=buried)
    it.logs[PLACE] = [b"a", b"a"]
    it.finished[PLACE] = {0}
    it.desk.take(PLACE, 0, Message(TOPIC, 0, 0, b"a"), it.now, expires=5.0)
    it.desk.take(PLACE, 1, Message(TOPIC, 0, 1, b"a"), it.now)
    it.now = 5.0
    assert [job.offset for job in it.start()] == ([] if buried else [1])
    assert [errand[1] for errand in it.under_way if isinstance(errand, Bury)] == (
        ["expired"] if buried else []
    )
    assert it.desk.expired == (0 if buried else 1)


def test_a_message_that_gets_too_old_while_it_waits_for_its_next_try_is_not_tried() -> None:
    it = stage("", backoff=Backoff(first=10))
    it.desk.take(PLACE, 0, Message(TOPIC, 0, 0), it.now, expires=5.0)
    it.end(it.start()[0], FAILED)
    it.advance(10)
    assert it.running == []
    assert it.desk.expired == 1


def test_a_partition_pauses_before_its_bound_and_resumes_at_half_of_it() -> None:
    it = Stage(Rules(workers=20, in_flight_max=10), [[None] * 40], batch=4)
    it.assign()
    it.fetch()
    assert it.paused == set()
    it.fetch()
    assert it.paused == {PLACE}
    for _ in range(2):
        it.end(it.running[0])
        assert it.paused == {PLACE}
    it.end(it.running[0])
    assert it.paused == set()


def test_a_bound_of_one_takes_one_at_a_time() -> None:
    it = Stage(Rules(in_flight_max=1), [[None] * 3], batch=1)
    it.drain()
    assert it.handled == [(0, 0), (0, 1), (0, 2)]


def test_a_partition_that_is_left_starts_nothing_more_and_is_marked_as_given_back() -> None:
    it = stage("aba", backoff=Backoff(first=1))
    first, other = it.running
    it.desk.leave([PLACE])
    it.end(first)
    it.end(other, FAILED)
    it.advance(5)
    assert it.running == []
    assert not it.desk.busy([PLACE])
    it.commit()
    assert it.committed[PLACE] == (1, "")


def test_what_lies_before_something_done_is_done_before_a_partition_goes() -> None:
    it = stage("aaabc", workers=2)
    first, other = it.running
    it.end(other)
    it.desk.leave([PLACE])
    it.end(first)
    assert offsets(it) == [4, 1], "the last had begun before it was known"
    it.end(it.running[0])
    it.end(it.running[0])
    assert offsets(it) == [2]
    assert it.desk.busy([PLACE])
    it.end(it.running[0])
    assert not it.desk.busy([PLACE])
    it.commit()
    assert it.committed[PLACE] == (5, "")


def test_what_ends_after_its_partition_went_is_no_longer_counted() -> None:
    it = stage("ab")
    late, failed = it.running
    it.desk.close([PLACE])
    it.end(late)
    it.end(failed, FAILED)
    assert (it.desk.marks(), it.under_way, it.desk.running) == ([], [], 0)


def test_a_partition_that_went_back_is_begun_anew() -> None:
    it = stage("abc")
    assert it.desk.continues(PLACE, 3)
    assert not it.desk.continues(PLACE, 1)
    assert not it.desk.continues((TOPIC, 9), 0)
    late = it.running[0]
    it.desk.assign(PLACE, Notes())
    it.desk.take(PLACE, 1, Message(TOPIC, 0, 1), it.now)
    it.end(late)
    assert [mark.offset for mark in it.desk.marks()] == [1]


# -- records that kill whoever handles them --------------------------------------------------------


def crash(it: Stage) -> None:
    it.begin()
    it.assign()
    it.fetch()


def test_after_two_crashes_messages_run_alone_and_are_noted_before_they_begin() -> None:
    it = stage("abcd", in_flight_max=8)
    crash(it)
    assert offsets(it) == [0, 1, 2, 3], "one crash is nobody's fault"
    crash(it)
    assert offsets(it) == [0]
    assert it.committed[PLACE] == (0, "penstock-patterns lives=3 since=0 0:1")
    it.end(it.running[0])
    assert offsets(it) == [1]
    assert it.committed[PLACE] == (1, "penstock-patterns lives=3 since=0 1:1")


def test_what_cannot_have_been_in_a_dead_process_is_no_suspect() -> None:
    it = Stage(Rules(in_flight_max=4), [[None] * 8], batch=2)
    it.committed[PLACE] = (0, Notes(2).text())
    it.assign()
    for _ in range(2):
        it.fetch()
    for expected in range(4):
        assert offsets(it) == [expected]
        it.end(it.running[0])
    it.fetch()
    assert offsets(it) == [4, 5]


def test_a_record_that_kills_every_process_is_put_aside_and_all_others_are_handled() -> None:
    it = Stage(Rules(workers=4, in_flight_max=8, crashes_max=3), [[None] * 10, [None] * 10])
    poison = (TOPIC, 1), 5
    for _ in range(10_000):
        for place in it.logs.keys() - it.position.keys():
            it.assign(place)
        it.fetch()
        for errand in list(it.under_way):
            it.answer(errand)
        deadly = [job for job in it.running if (job.tenure.place, job.offset) == poison]
        if deadly:
            it.begin()
            continue
        if it.running:
            it.end(it.running[0])
        it.commit()
        if all(offset == 10 for offset, _ in it.committed.values()):
            break
    assert it.buried == [(5, "crashed")]
    assert set(it.handled) == {(p, o) for p in (0, 1) for o in range(10)} - {(1, 5)}
    assert it.lives == 2 + 3 + 1, "twice unknown, three times alone, and one that buried it"


def test_an_innocent_neighbour_of_a_deadly_record_is_not_counted_for_its_crashes() -> None:
    it = stage("ab", in_flight_max=8, crashes_max=2, backoff=Backoff(first=60))
    crash(it)
    for _ in range(2):
        crash(it)
        it.end(it.running[0], FAILED)  # so it is not committed, and comes again after each crash
        assert offsets(it) == [1]
    crash(it)
    assert offsets(it) == [0]
    it.end(it.running[0], FAILED)
    assert [errand.job.offset for errand in it.under_way] == [1]


def test_who_gave_a_partition_back_in_order_leaves_no_suspicion() -> None:
    it = stage("abcd")
    it.revoke(PLACE, settle=False)
    it.assign()
    it.fetch()
    assert not it.desk.has_suspects
    assert len(it.running) == 4 + 4, "those that were abandoned, and the same again"

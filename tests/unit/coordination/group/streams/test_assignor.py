"""Who gets which task: everything once, evenly, and where it was before."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordination.group.streams.assignor import Worker, assign
from penstock.coordination.group.streams.configuring import Work
from penstock.coordination.group.streams.tasks import NO_ASSIGNMENT, Assignment, Task, each_task

Given = dict[str, Assignment]


def work(stateful: bool = True, **tasks: int) -> dict[str, Work]:
    return {name: Work(count, stateful, frozenset()) for name, count in sorted(tasks.items())}


def workers(processes: dict[str, str], had: Given | None = None) -> dict[str, Worker]:
    """Members with their processes, and what they had."""
    return {
        member: Worker(process, (had or {}).get(member, NO_ASSIGNMENT))
        for member, process in processes.items()
    }


def alone(*members: str) -> dict[str, str]:
    """Each a process of its own."""
    return {it: it for it in members}


def active(given: Given, member: str) -> set[Task]:
    return set(each_task(given[member].active))


def standby(given: Given, member: str) -> set[Task]:
    return set(each_task(given[member].standby))


def test_tasks_of_one_subtopology_are_shared() -> None:
    given = assign(workers(alone("a", "b")), work(x=5), 0)
    assert [len(active(given, it)) for it in "ab"] == [3, 2]


def test_who_comes_gets_only_its_share_and_nothing_else_moves() -> None:
    before = assign(workers(alone("a", "b")), work(x=6), 0)
    after = assign(workers(alone("a", "b", "c"), before), work(x=6), 0)
    for member in "ab":
        assert active(after, member) < active(before, member)
    assert [len(active(after, it)) for it in "abc"] == [2, 2, 2]


def test_tasks_of_who_goes_go_to_who_kept_copies_of_them() -> None:
    before = assign(workers(alone("a", "b", "c")), work(x=3), 1)
    (lost,) = active(before, "a")
    keeper = next(it for it in "bc" if lost in standby(before, it))
    after = assign(workers(alone("b", "c"), before), work(x=3), 1)
    assert lost in active(after, keeper)


def test_threads_of_one_process_share_what_it_gets() -> None:
    processes = {"a1": "a", "a2": "a", "b1": "b"}
    given = assign(workers(processes), work(x=6), 0)
    assert {len(active(given, it)) for it in processes} == {2}


def test_one_process_keeps_no_copies_of_its_own_tasks() -> None:
    processes = {"a1": "a", "a2": "a"}
    given = assign(workers(processes), work(x=4), 2)
    assert not standby(given, "a1") and not standby(given, "a2")


def test_tasks_without_state_have_no_copies() -> None:
    given = assign(workers(alone("a", "b")), work(stateful=False, x=4), 1)
    assert not standby(given, "a") and not standby(given, "b")


def test_nobody_gets_anything_if_there_is_nobody_or_nothing() -> None:
    assert assign({}, work(x=3), 1) == {}
    assert assign(workers(alone("a")), {}, 1) == {"a": NO_ASSIGNMENT}


def test_a_thousand_members_and_ten_thousand_tasks_are_no_trouble() -> None:
    members = {f"m{number}": f"p{number // 4}" for number in range(1_000)}
    tasks = work(x=5_000, y=5_000)
    before = assign(workers(members), tasks, 1)
    after = assign(workers(members, before), tasks, 1)
    assert after == before


PROCESSES = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]),
    st.sampled_from(["p", "q", "r", "s"]),
    min_size=1,
)
WORK = st.dictionaries(
    st.sampled_from("xyz"),
    st.builds(Work, st.integers(1, 9), st.booleans(), st.just(frozenset[str]())),
    min_size=1,
)


def check(processes: dict[str, str], tasks: dict[str, Work], standbys: int, given: Given) -> None:
    """What is true of every assignment."""
    wanted = {(name, number) for name, it in tasks.items() for number in range(it.tasks)}
    runs = Counter(task for member in given for task in active(given, member))
    assert runs == Counter(dict.fromkeys(wanted, 1))
    has: dict[Task, Counter[str]] = {}
    for member in given:
        for task in active(given, member) | standby(given, member):
            has.setdefault(task, Counter())[processes[member]] += 1
    for task in wanted:
        assert max(has[task].values()) == 1, "two copies in one process"
        copies = sum(has[task].values()) - 1
        if tasks[task[0]].stateful:
            assert copies == min(standbys, len(set(processes.values())) - 1)
        else:
            assert copies == 0


@settings(max_examples=60)
@given(PROCESSES, WORK, st.integers(0, 2), st.data())
def test_every_task_runs_once_and_no_process_has_it_twice(
    processes: dict[str, str], tasks: dict[str, Work], standbys: int, data: st.DataObject
) -> None:
    given: Given = {}
    for _ in range(4):
        given = assign(workers(processes, given), tasks, standbys)
        check(processes, tasks, standbys, given)
        processes = data.draw(PROCESSES)
        tasks = data.draw(st.one_of(st.just(tasks), WORK))


@settings(max_examples=60)
@given(PROCESSES, WORK, st.integers(0, 2))
def test_an_assignment_that_fits_stays(
    processes: dict[str, str], tasks: dict[str, Work], standbys: int
) -> None:
    first = assign(workers(processes), tasks, standbys)
    again = assign(workers(processes, first), tasks, standbys)
    for member in processes:
        assert active(again, member) == active(first, member)


@settings(max_examples=60)
@given(st.sets(st.sampled_from("abcdefgh"), min_size=2), WORK, st.data())
def test_active_tasks_are_even_and_few_move_when_somebody_goes(
    members: set[str], tasks: dict[str, Work], data: st.DataObject
) -> None:
    """With a process for each member."""
    before = assign(workers(alone(*sorted(members))), tasks, 0)
    counts = [len(active(before, it)) for it in members]
    assert max(counts) - min(counts) <= 1
    gone = data.draw(st.sampled_from(sorted(members)))
    left = sorted(members - {gone})
    after = assign(workers(alone(*left), before), tasks, 0)
    counts = [len(active(after, it)) for it in left]
    assert max(counts) - min(counts) <= 1
    for member in left:
        assert active(before, member) <= active(after, member)

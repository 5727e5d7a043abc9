"""The sticky assignor: every task where it was, as far as the load stays even.

Members are threads; those with the same process id share a disk. An active task goes back to who
had it, else to somebody who kept a copy of its state, else to the process with the least load. A
standby goes to a process that has no other copy: to who had the task or a copy of it, else to the
least loaded one. Kafka's assignor computes no warm-ups, and this one computes none either; members
that have some are led to let them go.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from penstock.coordination.group.streams.configuring import Work
from penstock.coordination.group.streams.tasks import Assignment, Task, Tasks, each_task


class Worker(NamedTuple):
    """A member as the assignor sees it."""

    process_id: str
    had: Assignment
    """Its part of the target so far."""


def assign(
    workers: Mapping[str, Worker], work: Mapping[str, Work], standbys: int
) -> dict[str, Assignment]:
    """Every task to one worker, and as many copies of those with state as fit; by member id."""
    if not workers:
        return {}
    round_ = _Round(workers, work, standbys)
    round_.assign_active(sorted(_tasks(work, lambda _: True), key=lambda it: (it[1], it[0])))
    if standbys > 0:
        stateful = _tasks(work, lambda it: it.stateful)
        round_.assign_standbys(sorted(stateful, key=lambda it: (it[1], it[0]), reverse=True))
    return {
        member_id: Assignment(
            active=_by_subtopology(round_.active[member_id]),
            standby=_by_subtopology(round_.standby[member_id]),
        )
        for member_id in workers
    }


def _tasks(work: Mapping[str, Work], wanted: Callable[[Work], bool]) -> list[Task]:
    return [(it, number) for it, of in work.items() if wanted(of) for number in range(of.tasks)]


def _by_subtopology(tasks: Iterable[Task]) -> Tasks:
    found: dict[str, set[int]] = {}
    for subtopology, number in tasks:
        found.setdefault(subtopology, set()).add(number)
    return {it: frozenset(found[it]) for it in sorted(found)}


class _Process:
    """Threads of one instance, and what they have together."""

    __slots__ = ("_by_load", "counts", "members", "process_id", "tasks", "total")

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.members: list[str] = []
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self.total = 0
        self._by_load: list[tuple[int, int, str]] | None = None

    @property
    def load(self) -> float:
        return self.total / len(self.members)

    def join(self, member_id: str) -> None:
        self.members.append(member_id)
        self.counts[member_id] = 0

    def add(self, member_id: str, task: Task) -> None:
        """A task for one of its members."""
        self.tasks.add(task)
        self.total += 1
        self.counts[member_id] += 1
        self._by_load = None

    def least_loaded(self) -> str:
        """The member to give the next task to; the first one of equals."""
        if self._by_load is None:
            self._by_load = [
                (self.counts[it], at, it) for at, it in enumerate(sorted(self.members))
            ]
            heapq.heapify(self._by_load)
        return self._by_load[0][2]

    def add_to_least_loaded(self, task: Task) -> str:
        member_id = self.least_loaded()
        by_load = self._by_load
        assert by_load is not None
        self.add(member_id, task)
        self._by_load = by_load
        heapq.heapreplace(by_load, (self.counts[member_id], by_load[0][1], member_id))
        return member_id


class _Quota:
    """How many tasks a member may get, so that all get as many: those who are full do not count."""

    __slots__ = ("_members", "_tasks", "each")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = -(-tasks // members)

    def has_got(self, count: int) -> None:
        """A member has so many now."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = -(-self._tasks // self._members) if self._members else 0


class _Round:
    """One assignment in the making."""

    def __init__(
        self, workers: Mapping[str, Worker], work: Mapping[str, Work], standbys: int
    ) -> None:
        self._workers = workers
        self._standbys = standbys
        self._processes: dict[str, _Process] = {}
        self._ran: dict[Task, str] = {}
        self._kept: dict[Task, list[str]] = {}
        for member_id in sorted(workers):
            self._remember(member_id, workers[member_id])
        active = sum(it.tasks for it in work.values())
        copies = sum(it.tasks for it in work.values() if it.stateful) * standbys
        self._active_quota = _Quota(active, len(workers))
        self._quota = _Quota(active + copies, len(workers))
        self.active: dict[str, list[Task]] = {it: [] for it in workers}
        self.standby: dict[str, list[Task]] = {it: [] for it in workers}

    def _remember(self, member_id: str, worker: Worker) -> None:
        process = self._processes.get(worker.process_id)
        if process is None:
            process = self._processes[worker.process_id] = _Process(worker.process_id)
        process.join(member_id)
        for task in each_task(worker.had.active):
            self._ran[task] = member_id
        for task in each_task(worker.had.standby):
            self._kept.setdefault(task, []).append(member_id)

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._workers[member_id].process_id]

    def _count(self, member_id: str) -> int:
        return self._process(member_id).counts[member_id]

    # -- active tasks -----------------------------------------------------------------------------

    def assign_active(self, tasks: list[Task]) -> None:
        """`tasks` are in order of their partitions: members had neighbours, and keep some."""
        tasks = [it for it in tasks if not self._run_again(it, self._ran.get(it))]
        tasks = [it for it in tasks if not self._run_again(it, self._best_keeper(it))]
        heap = self._by_load()
        for task in sorted(tasks):
            _, name = heap[0]
            process = self._processes[name]
            self._note_active(process.add_to_least_loaded(task), task)
            heapq.heapreplace(heap, (process.load, name))

    def _run_again(self, task: Task, member_id: str | None) -> bool:
        if member_id is None or self._count(member_id) >= self._active_quota.each:
            return False
        self._process(member_id).add(member_id, task)
        self._note_active(member_id, task)
        return True

    def _note_active(self, member_id: str, task: Task) -> None:
        count = self._count(member_id)
        self._active_quota.has_got(count)
        self._quota.has_got(count)
        self.active[member_id].append(task)

    def _best_keeper(self, task: Task) -> str | None:
        """Of those who kept a copy and whose process has none now, the one with the least load."""
        return min(
            (it for it in self._kept.get(task, ()) if task not in self._process(it).tasks),
            key=lambda it: (self._process(it).load, self._count(it)),
            default=None,
        )

    # -- standbys ---------------------------------------------------------------------------------

    def assign_standbys(self, tasks: list[Task]) -> None:
        """Copies go where one was, then to whoever has the least; what fits nowhere is left out."""
        left = []
        for task in tasks:
            missing = self._standbys
            while missing and self._keep_again(task):
                missing -= 1
            if missing:
                left.append((task, missing))
        heap = self._by_load()
        for task, missing in sorted(left, reverse=True):
            for _ in range(missing):
                if not self._keep_somewhere(task, heap):
                    break

    def _keep_again(self, task: Task) -> bool:
        ran = self._ran.get(task)
        candidates = [] if ran is None or task in self._process(ran).tasks else [ran]
        keeper = self._best_keeper(task)
        if keeper is not None:
            candidates.append(keeper)
        for member_id in candidates:
            if self._count(member_id) < self._quota.each:
                self._process(member_id).add(member_id, task)
                self._note_standby(member_id, task)
                return True
        return False

    def _keep_somewhere(self, task: Task, heap: list[tuple[float, str]]) -> bool:
        passed = []
        found = False
        while heap and not found:
            entry = heapq.heappop(heap)
            process = self._processes[entry[1]]
            if task not in process.tasks:
                self._note_standby(process.add_to_least_loaded(task), task)
                entry = process.load, entry[1]
                found = True
            passed.append(entry)
        for entry in passed:
            heapq.heappush(heap, entry)
        return found

    def _note_standby(self, member_id: str, task: Task) -> None:
        self._quota.has_got(self._count(member_id))
        self.standby[member_id].append(task)

    def _by_load(self) -> list[tuple[float, str]]:
        heap = [(it.load, name) for name, it in self._processes.items()]
        heapq.heapify(heap)
        return heap

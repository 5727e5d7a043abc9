"""A partitioned log, a group's committed offsets, and one worker's desk between them."""

from __future__ import annotations

from penstock.patterns.desk import Desk, Handled, Outcome, Rules
from penstock.patterns.message import Message
from penstock.patterns.notes import parse
from penstock.patterns.tenure import Errand, Job, Place, Tenure

TOPIC = "orders"
HANDLED = Handled()


class Stage:
    """Plays the driver, and checks what the desk promises at every step."""

    def __init__(self, rules: Rules, logs: list[list[bytes | None]], batch: int = 4) -> None:
        self.rules = rules
        self.batch = batch
        self.logs = {(TOPIC, number): keys for number, keys in enumerate(logs)}
        self.committed: dict[Place, tuple[int, str]] = dict.fromkeys(self.logs, (0, ""))
        self.finished: dict[Place, set[int]] = {place: set() for place in self.logs}
        self.handled: list[tuple[int, int]] = []
        self.buried: list[tuple[int, str]] = []
        self.now = 0.0
        self.lives = 0
        self.begin()

    def begin(self) -> None:
        """A new process; nothing is assigned to it."""
        self.lives += 1
        self.desk = Desk(self.rules)
        self.running: list[Job] = []
        self.under_way: list[Errand] = []
        self.position: dict[Place, int] = {}
        self.paused: set[Place] = set()
        self.started: dict[tuple[Tenure, bytes], int] = {}

    def assign(self, place: Place = (TOPIC, 0)) -> None:
        offset, text = self.committed[place]
        notes = parse(text).next_owner(offset, self.rules.in_flight_max)
        self.desk.assign(place, notes)
        self.position[place] = offset
        self.committed[place] = (offset, notes.text())

    def fetch(self, count: int | None = None) -> None:
        for place, at in self.position.items():
            if place in self.paused:
                continue
            for offset in range(at, min(at + (count or self.batch), len(self.logs[place]))):
                message = Message(*place, offset, self.logs[place][offset])
                self.desk.take(place, offset, message, self.now)
                self.position[place] = offset + 1
        self._pause()
        self.start()

    def start(self) -> list[Job]:
        jobs = self.desk.start(self.now)
        suspect = self.desk.try_suspect(self.now)
        if suspect is not None:
            assert suspect.offset in suspect.tenure.begun
            self.commit()
            jobs.append(suspect)
        for job in jobs:
            self._check_order(job)
        self.running += jobs
        self.under_way += self.desk.errands()
        assert len(self.running) <= self.rules.workers
        return jobs

    def end(self, job: Job, outcome: Outcome = HANDLED) -> None:
        self.running.remove(job)
        if isinstance(outcome, Handled):
            self.handled.append((job.tenure.place[1], job.offset))
            self.finished[job.tenure.place].add(job.offset)
        self.desk.finish(job, outcome, self.now)
        self._pause()
        self.start()

    def answer(self, errand: Errand, *, good: bool = True) -> None:
        self.under_way.remove(errand)
        job = errand.job
        if good:
            self.finished[job.tenure.place].add(job.offset)
            self.buried.append((job.offset, getattr(errand, "reason", "parked")))
            self.desk.sent(job, self.now)
        else:
            self.desk.unsent(job, self.now + 1)
        self.start()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.start()

    def commit(self) -> None:
        marks = self.desk.marks()
        self.desk.told(marks)
        for place, offset, text in marks:
            assert offset >= self.committed[place][0], "a commit went back"
            below = set(range(offset))
            assert below <= self.finished[place], "a commit passed what is not done"
            self.committed[place] = (offset, text)

    def revoke(self, place: Place, *, settle: bool = True) -> None:
        """Give a partition back: with what runs finished, or in the middle."""
        self.desk.leave([place])
        while settle and self.desk.busy([place]):
            for job in [job for job in self.running if not job.tenure.closed]:
                self.end(job)
            for errand in [each for each in self.under_way if not each.job.tenure.closed]:
                self.answer(errand)
            for job in [job for job in self.running if job.tenure.closed]:
                self.end(job)
        self.commit()
        self.desk.close([place])
        self.lose(place)

    def lose(self, place: Place) -> None:
        """It is somebody else's already."""
        self.desk.close([place])
        self.position.pop(place, None)
        self.paused.discard(place)

    def drain(self) -> None:
        """Let everything that can happen go well, until nothing is left."""
        for _ in range(10 * sum(map(len, self.logs.values())) + 100):
            for place in self.logs.keys() - self.position.keys():
                self.assign(place)
            self.fetch()
            for job in list(self.running):
                self.end(job)
            for errand in list(self.under_way):
                self.answer(errand)
            self.advance(1.0)
            self.commit()
            if all(self.committed[place][0] == len(log) for place, log in self.logs.items()):
                return
        raise AssertionError(f"stuck at {self.committed}")

    def _pause(self) -> None:
        pause, resume = self.desk.pauses(self.batch)
        assert not self.paused & set(pause)
        assert self.paused >= set(resume)
        self.paused = (self.paused | set(pause)) - set(resume)
        for tenure in self.desk.tenures.values():
            assert len(tenure.held) <= self.rules.in_flight_max

    def _check_order(self, job: Job) -> None:
        place, key = job.tenure.place, job.message.key
        if key is None or not self.rules.keep_order:
            return
        before = [at for at in range(job.offset) if self.logs[place][at] == key]
        assert set(before) <= self.finished[place], "a message overtook an earlier one of its key"
        last = self.started.get((job.tenure, key), -1)
        assert job.offset >= last, "a message was started again after a later one of its key"
        self.started[job.tenure, key] = job.offset
        alike = [each for each in self.running if each.tenure is job.tenure]
        assert key not in [each.message.key for each in alike], "two of a key at the same time"

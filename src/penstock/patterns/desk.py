"""Decides what runs, what waits, and what may be committed. Pure: nothing here acts or looks at a
clock.

Messages come in with `take` and sit in jobs. `start` hands out those that may run; `finish` says
how that went. What must be written elsewhere in a message's stead comes out of `errands`, and
`sent` or `unsent` says whether it is there. A job ends when its message was handled, or is safe in
another topic, and only then may its offset be passed by a commit.

Within a partition, messages of one key form a lane: only its first moves. Everything else goes on
beside it, as far as `in_flight_max` allows.

A partition whose owners ended without giving it back, again and again, may hold a record that kills
whoever handles it. Its first `in_flight_max` records (more were not in anybody's hands) are then
suspects: they run one at a time, each noted with the committed offset before it begins.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.model.dead_letters import EXPIRED, FAILED, REJECTED
from penstock.patterns.backoff import Backoff
from penstock.patterns.message import Message
from penstock.patterns.notes import Notes
from penstock.patterns.tenure import Bury, Errand, Job, Mark, Park, Place, State, Tenure

BUSY_SECONDS = 0.05
CRASHED = "crashed"
"""Among the reasons of dead letters, the one that only workers have."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a user chose."""

    workers: int = 8
    in_flight_max: int = 1_000
    keep_order: bool = True
    backoff: Backoff | None = None
    hold_max: float = math.inf
    """A wait longer than this is spent in a retry topic."""
    buries: bool = True
    """Whether there is a dead-letter topic."""
    bury_expired: bool = False
    crashes_max: int = 3


class Handled(NamedTuple):
    """The handler returned."""


class Busy(NamedTuple):
    """Another message with the same id is being handled: not tried, look again soon."""


class Failed(NamedTuple):
    """The handler raised."""

    told: str
    final: bool = False
    """It said itself that another try is of no use."""


Outcome = Handled | Busy | Failed


class Stuck(NamedTuple):
    """A message that can neither be handled nor be put aside: the worker has to stop."""

    message: Message
    told: str


class Desk:
    """The jobs of one worker."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.tenures: dict[Place, Tenure] = {}
        self.running = 0
        self.stuck: Stuck | None = None
        self.expired = 0
        """Messages that were dropped because they came too late."""
        self._ready: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._on_trial: Job | None = None
        self._resting: list[tuple[float, int, Job]] = []
        self._arrivals = itertools.count()
        self._errands: list[Errand] = []

    # -- partitions come and go --------------------------------------------------------------------

    def assign(self, place: Place, notes: Notes) -> None:
        """A partition is ours now, and these are our notes on it."""
        self.close([place])
        suspects = self.rules.in_flight_max if notes.suspicious else 0
        self.tenures[place] = Tenure(place, notes, suspects)

    def leave(self, places: Iterable[Place]) -> None:
        """Start nothing more there, but for what lies before something that is done already."""
        for tenure in self._of(places):
            tenure.leave()

    def close(self, places: Iterable[Place]) -> None:
        """Forget a partition. What still runs there is no longer ours to commit."""
        gone = self._of(places)
        for tenure in gone:
            tenure.closed = tenure.leaving = True
            del self.tenures[tenure.place]
        if gone:  # what rests there may rest for days, and is read again wherever it goes
            self._resting = [each for each in self._resting if not each[2].tenure.closed]
            heapq.heapify(self._resting)

    def busy(self, places: Iterable[Place]) -> int:
        """Jobs there that a partition we leave should wait for."""
        return sum(each.ends_soon(job) for each in self._of(places) for job in each.held.values())

    def _of(self, places: Iterable[Place]) -> list[Tenure]:
        return [self.tenures[place] for place in places if place in self.tenures]

    # -- messages ----------------------------------------------------------------------------------

    def continues(self, place: Place, offset: int) -> bool:
        """Whether a message comes after what was taken there. If the partition is new, or went
        back to an earlier offset, it has to be assigned first."""
        tenure = self.tenures.get(place)
        return tenure is not None and (tenure.next is None or offset >= tenure.next)

    def take(
        self,
        place: Place,
        offset: int,
        message: Message,
        now: float,
        *,
        due: float = 0.0,
        expires: float | None = None,
    ) -> None:
        """Hold a message, not to be handled before `due`, nor at `expires` or later."""
        tenure = self.tenures[place]
        job = Job(tenure, offset, message, due, expires)
        if tenure.add(job, self._lane(job)):
            self._free(job, now)

    def start(self, now: float) -> list[Job]:
        """The jobs to run now, as many as there are workers for."""
        self._wake(now)
        started: list[Job] = []
        while self._ready and self.running < self.rules.workers:
            job = self._ready.popleft()
            if self._may_run(job, now):
                self._run(job)
                started.append(job)
        return started

    def try_suspect(self, now: float) -> Job | None:
        """One suspect to run, if none is on trial. Commit its mark first: that counts the try."""
        while self._suspects and self._on_trial is None and self.running < self.rules.workers:
            job = self._suspects.popleft()
            if not self._may_run(job, now):
                continue
            begun = job.tenure.begun
            times = begun.get(job.offset, 0)
            if times >= self.rules.crashes_max:
                job.message = replace(job.message, attempt=max(times, job.message.attempt))
                self._give_up(job, CRASHED, f"{times} processes ended while it was handled alone")
                continue
            begun[job.offset] = times + 1
            self._on_trial = job
            self._run(job)
            return job
        return None

    def finish(self, job: Job, outcome: Outcome, now: float, chance: float = 0.5) -> None:
        """A job that ran has ended; `chance`, from 0 to 1, decides the jitter of its wait."""
        self.running -= 1
        tenure = job.tenure
        if job is self._on_trial:
            self._on_trial = None
            tenure.begun.pop(job.offset, None)
            job.suspect = isinstance(outcome, Busy)
        if tenure.closed:
            return
        if isinstance(outcome, Handled):
            self._done(job, now)
        elif isinstance(outcome, Busy):
            self._rest(job, now + BUSY_SECONDS)
        else:
            self._failed(job, outcome, now, chance)

    def _failed(self, job: Job, failure: Failed, now: float, chance: float) -> None:
        backoff, tried = self.rules.backoff, job.message.attempt
        if failure.final:
            self._give_up(job, REJECTED, failure.told)
            return
        if backoff is None or tried >= backoff.tries:
            self._give_up(job, FAILED, failure.told)
            return
        wait = backoff.wait(tried, chance)
        if backoff.wait(tried) > self.rules.hold_max:  # without jitter, as retry topics are made
            self._send(Park(job, wait))
        else:
            self._rest(job, now + wait)
        # Counted here, so that whoever sees the job next, here or in a topic, knows its number.
        job.message = replace(job.message, attempt=tried + 1)

    def _give_up(self, job: Job, reason: str, told: str) -> None:
        if self.rules.buries:
            self._send(Bury(job, reason, told))
            return
        job.state = State.RESTING
        self.stuck = self.stuck or Stuck(job.message, told)

    # -- what is written elsewhere -----------------------------------------------------------------

    def errands(self) -> list[Errand]:
        """What is to be sent, each given out once."""
        given, self._errands = self._errands, []
        return [each for each in given if not each.job.tenure.closed]

    def sent(self, job: Job, now: float) -> None:
        """Its message is safe in another topic."""
        if not job.tenure.closed:
            self._done(job, now)

    def unsent(self, job: Job, due: float) -> None:
        """It was refused: try to send it again later. Until then nothing passes it."""
        if not job.tenure.closed:
            self._rest(job, due)

    def keep(self, job: Job, due: float) -> None:
        """It can not be sent at all: spend its wait here."""
        job.errand = None
        self.unsent(job, due)

    def _send(self, errand: Errand) -> None:
        errand.job.errand = errand
        errand.job.state = State.SENDING
        self._errands.append(errand)

    # -- what a driver does between turns ----------------------------------------------------------

    def marks(self) -> list[Mark]:
        """What changed since it was last committed."""
        found = []
        for tenure in self.tenures.values():
            mark = tenure.mark()
            if mark is not None and mark != tenure.told:
                found.append(mark)
        return found

    def told(self, marks: Iterable[Mark]) -> None:
        """These are on their way to the server."""
        for mark in marks:
            if mark.place in self.tenures:
                self.tenures[mark.place].told = mark

    def untold(self, places: Iterable[Place]) -> None:
        """They did not arrive: give them out again."""
        for tenure in self._of(places):
            tenure.told = None

    def pauses(self, batch: int) -> tuple[list[Place], list[Place]]:
        """Partitions to pause, so that a batch more does not pass the bound, and to resume."""
        pause, resume = [], []
        bound = self.rules.in_flight_max
        for tenure in self.tenures.values():
            count = len(tenure.held)
            if not tenure.paused and count + batch > bound:
                tenure.paused = True
                pause.append(tenure.place)
            elif tenure.paused and count <= bound // 2 and count + batch <= bound:
                tenure.paused = False
                resume.append(tenure.place)
        return pause, resume

    def next_due(self) -> float | None:
        """When the next resting job is due."""
        return self._resting[0][0] if self._resting else None

    @property
    def has_suspects(self) -> bool:
        """Whether a suspect could be tried now."""
        idle = self._on_trial is None and self.running < self.rules.workers
        return idle and bool(self._suspects)

    # -- how a job moves ---------------------------------------------------------------------------

    def _lane(self, job: Job) -> bytes | None:
        return job.message.key if self.rules.keep_order else None

    def _free(self, job: Job, now: float) -> None:
        """Nothing stands before it any more."""
        if job.due > now:
            self._rest(job, job.due)
            return
        job.state = State.READY
        (self._suspects if job.suspect else self._ready).append(job)

    def _rest(self, job: Job, due: float) -> None:
        job.state = State.RESTING
        heapq.heappush(self._resting, (due, next(self._arrivals), job))

    def _wake(self, now: float) -> None:
        while self._resting and self._resting[0][0] <= now:
            job = heapq.heappop(self._resting)[2]
            if job.tenure.leaving:
                continue
            if job.errand is not None:
                self._send(job.errand)
            else:
                self._free(job, now)

    def _may_run(self, job: Job, now: float) -> bool:
        if not job.tenure.may_start(job):
            return False
        if job.expires is None or now < job.expires:
            return True
        if self.rules.bury_expired:
            self._give_up(job, EXPIRED, "its time to live was over")
        else:
            self.expired += 1
            self._done(job, now)
        return False

    def _run(self, job: Job) -> None:
        job.state = State.RUNNING
        self.running += 1

    def _done(self, job: Job, now: float) -> None:
        job.state = State.DONE
        behind = job.tenure.remove(job, self._lane(job))
        if behind is not None:
            self._free(behind, now)

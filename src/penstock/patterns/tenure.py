"""One partition while it is ours: what was taken, what of it is done, what may be committed."""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import Enum
from typing import NamedTuple

from penstock.patterns.message import Message
from penstock.patterns.notes import Notes

Place = tuple[str, int]
"""A topic and a partition."""


class State(Enum):
    """Where a job stands."""

    WAITING = "behind an earlier message of its key"
    READY = "may run"
    RUNNING = "with the handler"
    RESTING = "until it is tried again"
    SENDING = "to a retry or dead-letter topic, until that is acknowledged"
    DONE = "no longer held"


ENDING = (State.RUNNING, State.SENDING)


class Job:
    """A message in our hands."""

    __slots__ = ("due", "errand", "expires", "message", "offset", "state", "suspect", "tenure")

    def __init__(
        self, tenure: Tenure, offset: int, message: Message, due: float, expires: float | None
    ) -> None:
        self.tenure = tenure
        self.offset = offset
        """In the partition it was read from: a retry topic's, perhaps."""
        self.message = message
        self.due = due
        """Not handled before."""
        self.expires = expires
        self.state = State.WAITING
        self.suspect = False
        """Tried alone, because a process may have died of it."""
        self.errand: Errand | None = None
        """What is to be sent, or is under way, in its stead."""


class Park(NamedTuple):
    """Write the message to a retry topic, for a try after so many seconds."""

    job: Job
    wait: float


class Bury(NamedTuple):
    """Write the message to the dead-letter topic, and say why: in a word, and in a sentence."""

    job: Job
    reason: str
    told: str


Errand = Park | Bury


class Mark(NamedTuple):
    """What is to be committed for a partition."""

    place: Place
    offset: int
    notes: str


class Tenure:
    """The jobs of one partition from its assignment to its revocation."""

    def __init__(self, place: Place, notes: Notes, suspects: int) -> None:
        self.place = place
        self.held: OrderedDict[int, Job] = OrderedDict()
        """Taken and not done, by offset, lowest first."""
        self.lanes: dict[bytes, deque[Job]] = {}
        self.next: int | None = None
        """The offset after the last that was taken."""
        self.begun = dict(notes.begun)
        self._notes = notes
        self.suspects_left = suspects
        self.paused = False
        self.leaving = False
        self.line = 0
        """Where what is handled ends. Below it a partition that we leave goes on, so that all that
        is done can be committed, and nobody does it twice."""
        self.closed = False
        self.told: Mark | None = None
        """What was committed last."""

    def add(self, job: Job, lane: bytes | None) -> bool:
        """Hold a job; whether it is the first of its lane, and need not wait."""
        self.held[job.offset] = job
        self.next = job.offset + 1
        if self.suspects_left > 0:
            self.suspects_left -= 1
            job.suspect = True
        if lane is None:
            return True
        queue = self.lanes.setdefault(lane, deque())
        queue.append(job)
        return len(queue) == 1

    def remove(self, job: Job, lane: bytes | None) -> Job | None:
        """Hold it no longer: it is done. The job that waited behind it, if any."""
        del self.held[job.offset]
        self.line = max(self.line, job.offset + 1)
        self.begun.pop(job.offset, None)
        if lane is None:
            return None
        queue = self.lanes[lane]
        queue.popleft()
        if queue:
            return queue[0]
        del self.lanes[lane]
        return None

    def leave(self) -> None:
        """It goes to somebody else."""
        self.leaving = True
        ending = (job.offset + 1 for job in self.held.values() if job.state in ENDING)
        self.line = max([self.line, *ending])

    def may_start(self, job: Job) -> bool:
        """Whether it is still to be handled here."""
        return not self.closed and (not self.leaving or job.offset < self.line)

    def ends_soon(self, job: Job) -> bool:
        """Whether it is worth to wait for it before the partition goes."""
        ready = job.state is State.READY and not job.suspect
        return job.state in ENDING or (ready and self.may_start(job))

    def mark(self) -> Mark | None:
        """The lowest offset that is not done: everything below is, and nothing above may count."""
        if self.next is None:
            return None
        offset = next(iter(self.held), self.next)
        lives = 0 if self.leaving else self._notes.lives
        return Mark(self.place, offset, Notes(lives, self._notes.since, self.begun).text())

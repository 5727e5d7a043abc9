"""How a follower keeps up with its leader: where it fetches, what it cuts off, when it waits. Pure.

Each fetch says where our log ends and which leader's epoch wrote its last batch. A leader whose
log parted from ours before that answers with the epoch and the end of what both may have in
common. We cut there, or at the end of our own largest epoch below it, and ask again: when our last
epoch is one that the leader knows, and our end lies within it, the logs are equal up to there.

    FETCHING --error--> DELAYED --in time--> FETCHING
    FETCHING --our epoch is over, or our log is broken--> FAILED --a new epoch--> FETCHING
    FETCHING --out of the leader's range--> LOCATING --the leader's start and end--> FETCHING
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import NamedTuple, Protocol

from penstock.model.errors import ErrorCode
from penstock.storage.epochs import LeaderEpochs

NO_EPOCH = -1

BACKOFF_MS_MIN = 25


class Held(Protocol):
    """What this node holds of the partition: a Log is one."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def epochs(self) -> LeaderEpochs: ...


class State(Enum):
    """Where a follower stands."""

    FETCHING = auto()
    DELAYED = auto()
    LOCATING = auto()
    FAILED = auto()


class Ask(NamedTuple):
    """What a leader is asked: records from `offset` on, after ours that `last_epoch` wrote."""

    offset: int
    last_epoch: int
    leader_epoch: int
    log_start: int


class Take(NamedTuple):
    """Append what came, and take the leader's marks."""


class CutTo(NamedTuple):
    """Cut the log off at `offset`, and ask again."""

    offset: int


class StartAt(NamedTuple):
    """Forget the whole log and begin anew at `offset`: the leader no longer has what comes next."""

    offset: int


class Locate(NamedTuple):
    """Ask the leader where its log starts and ends, and say so to `on_located`."""


class Wait(NamedTuple):
    """Nothing can be done now. `level` is for the log, 0 if it says nothing new."""

    reason: str
    level: int


class Ignore(NamedTuple):
    """The answer is to a question that is no longer ours; ask anew."""


TAKE, LOCATE, IGNORE = Take(), Locate(), Ignore()
Step = Take | CutTo | StartAt | Locate | Wait | Ignore

_LEVELS = {
    # Metadata reaches nodes one after the other: these pass by themselves.
    ErrorCode.UNKNOWN_LEADER_EPOCH: logging.DEBUG,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: logging.DEBUG,
    # So do these, while a topic is made or deleted; they should not last.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: logging.WARNING,
    ErrorCode.UNKNOWN_TOPIC_ID: logging.WARNING,
    ErrorCode.INCONSISTENT_TOPIC_ID: logging.WARNING,
}


class Following:
    """One partition that follows `leader` in `epoch`. A new epoch is a new Following."""

    __slots__ = ("_backoff_ms_max", "_tries", "_trouble", "due", "epoch", "lag", "leader", "state")

    def __init__(self, leader: int, epoch: int, backoff_ms_max: int) -> None:
        self.leader = leader
        self.epoch = epoch
        self.state = State.FETCHING
        self.due = 0
        """When a delayed one may fetch again."""
        self.lag: int | None = None
        """Committed offsets that we do not have yet; None until the leader has told."""
        self._backoff_ms_max = backoff_ms_max
        self._tries = 0
        self._trouble: object = None

    @property
    def in_sync(self) -> bool:
        """Whether we have all that the leader had committed when it answered last."""
        return self.lag is not None and self.lag <= 0

    def is_ready(self, now: int) -> bool:
        """Whether to fetch now; a delay that is over ends here."""
        if self.state is State.DELAYED and now >= self.due:
            self.state = State.FETCHING
        return self.state is State.FETCHING

    def ask(self, held: Held) -> Ask | CutTo:
        """What to ask the leader, or what to cut off before."""
        last_epoch = held.epochs.latest
        end = held.end
        if last_epoch == NO_EPOCH and end > held.high_watermark:
            # Nobody can tell whose batches these are: only what was committed is sure to be there.
            return CutTo(held.high_watermark)
        if last_epoch > self.epoch:
            # No checksum covers a batch's epoch, and a crash may have garbled it. What claims to be
            # of an epoch that has not begun, and all behind it, comes anew.
            return CutTo(min(start for epoch, start in held.epochs.entries if epoch > self.epoch))
        return Ask(end, last_epoch, self.epoch, held.start)

    def on_answer(
        self,
        asked: Ask,
        error: int,
        diverging: tuple[int, int] | None,
        held: Held,
        now: int,
    ) -> Step:
        """What to do about the leader's answer: an error, a diverging (epoch, end), or records."""
        if (
            self.state is not State.FETCHING
            or asked.offset != held.end
            or asked.leader_epoch != self.epoch
        ):
            return IGNORE
        if error:
            return self._on_error(error, now)
        if diverging is not None:
            return self._on_divergence(asked, *diverging, held, now)
        return TAKE

    def _on_error(self, code: int, now: int) -> Step:
        try:
            error = ErrorCode(code)
        except ValueError:  # a leader of a later release
            return self.put_off(f"error {code}, which we do not know", now, logging.ERROR)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.state = State.LOCATING
            return LOCATE
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            # The leader is further than our metadata, and only the metadata can tell us more.
            self.fail()
            reason = f"leader epoch {self.epoch} is over: waiting for the metadata of the next one"
            return Wait(reason, logging.INFO)
        if error is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            reason = "what comes next is in tiered storage only, which this node cannot read"
            return self.put_off(reason, now, logging.ERROR)
        return self.put_off(error.name, now, _LEVELS.get(error, logging.ERROR))

    def _on_divergence(self, asked: Ask, epoch: int, end: int, held: Held, now: int) -> Step:
        if epoch > asked.last_epoch:
            reason = f"the leader says that epoch {epoch} parts us, after {asked.last_epoch}"
            return self.put_off(reason, now, logging.ERROR)
        offset = where_to_cut(held, epoch, end)
        begun = held.epochs.start_of(held.epochs.latest)
        if offset >= held.end and begun is not None and begun < held.end:
            reason = f"the leader parts us at {end} of epoch {epoch}, where we are one"
            return self.put_off(reason, now, logging.ERROR)
        return CutTo(offset)

    def on_located(self, leader_start: int, leader_end: int, held: Held, now: int) -> Step:
        """What to do now that the leader has told where its log starts and ends."""
        self.state = State.FETCHING
        if leader_end < held.end:
            # A leader that was elected without being in sync: what it lacks is gone for all.
            return CutTo(leader_end)
        if leader_start > held.end:
            return StartAt(leader_start)
        return self.put_off("we are within the leader's range after all", now, logging.INFO)

    def on_taken(self, high_watermark: int, held: Held) -> None:
        """The answer's records, if any, are in the log: all is well."""
        self._trouble = None
        self._tries = 0
        lag = high_watermark - held.end
        self.lag = lag if lag > 0 else 0

    def put_off(self, reason: str, now: int, level: int = logging.ERROR) -> Wait:
        """Fetch again in a while. The reason is worth a line when it is a new one.

        Most troubles are metadata that reaches one node before the other, and over in no time.
        """
        self.state = State.DELAYED
        self.due = now + growing(self._tries, self._backoff_ms_max)
        self._tries += 1
        said, self._trouble = self._trouble, reason
        return Wait(reason, 0 if said == reason else level)

    def hold_back(self, until: int) -> None:
        """Others go first: fetch again at a time."""
        self.state = State.DELAYED
        self.due = until

    def fail(self) -> None:
        """Fetch no more in this epoch."""
        self.state = State.FAILED


def growing(tries: int, ms_max: int) -> int:
    """How long to wait before another try, after so many in vain."""
    return min(BACKOFF_MS_MIN << min(tries, 16), ms_max)


def where_to_cut(held: Held, epoch: int, end: int) -> int:
    """Where our log may have parted from a leader's that says: (epoch, end) is what I have."""
    if end < 0:
        return min(held.high_watermark, held.end)
    ours, our_end = held.epochs.end_offset_for(epoch, held.end)
    if ours == NO_EPOCH:
        return min(end, held.end)  # we never noted epochs so early
    if ours != epoch:
        # We do not know that epoch: go back to the end of our last one before, and ask about it.
        return min(our_end, held.end)
    return min(our_end, end, held.end)


def make_room(held: Held, first: int, last: int) -> CutTo | StartAt | None:
    """What to do before a batch from `first` to `last` can be appended, if it begins too early.

    A leader's log may start within a batch, of which records were deleted; the batch comes whole.
    Whatever we have in its place is from before the leader's start, and deleted as well.
    """
    if first >= held.end or last < held.end:
        return None
    return StartAt(first) if held.start == held.end else CutTo(first)

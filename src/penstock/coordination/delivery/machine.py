"""The deliveries of one share group from one partition: the machine, as its driver sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.coordination.delivery import acknowledging, acquiring, holes
from penstock.coordination.delivery.acquiring import Asking
from penstock.coordination.delivery.burying import Burials
from penstock.coordination.delivery.effects import (
    AckBatch,
    Acknowledge,
    Acquired,
    Held,
    Outcome,
    Reason,
    Span,
)
from penstock.coordination.delivery.loading import load
from penstock.coordination.delivery.states import DONE, State
from penstock.coordination.delivery.window import Run
from penstock.coordination.delivery.writing import FATAL, Writes, told
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis

if TYPE_CHECKING:
    from penstock.coordination.delivery.settings import DeliverySettings
    from penstock.coordination.effects import Moment
    from penstock.platform.chance import Chance

_NEVER = 1 << 62
_LOOK_EVERY_MS = 10
"""Locks and waits may end later by this much, so that thousands that end one by one do not have
all runs looked through each time."""


class Delivery:
    """Made when the share coordinator has told what it holds; `held.start` is a real offset."""

    def __init__(self, held: Held, settings: DeliverySettings, chance: Chance, at: Moment) -> None:
        self.settings = settings
        """May be set anew at any time: for what happens from then on."""
        self._chance = chance
        self._window = load(held, settings.backoff, at)
        self._writes = Writes(self._window)
        self._burials = Burials()
        self._due = _NEVER
        """Nothing ends by itself before this time."""
        self._starved = False
        """Whether somebody was sent away because too much is in flight."""
        self._failed = ErrorCode.NONE
        for run in self._window.runs:
            if run.due:
                self._due = min(self._due, run.due)

    @property
    def start(self) -> int:
        """Everything below is done with."""
        return self._window.start

    @property
    def end(self) -> int:
        """Nothing from here on was ever handed out."""
        return self._window.end

    # -- handing out ------------------------------------------------------------------------------

    def next_offset(self, at: Moment) -> int | None:  # noqa: ARG002
        """Where whoever asks now should read: the first offset that may be acquired, or the first
        that was never read. None: as many are out as may be, or what is left waits for its time.
        """
        window = self._window
        offset = window.next_free()
        if offset < window.end or window.open < self.settings.in_flight_max:
            return offset
        self._starved = True
        return None

    def acquire(
        self,
        member: str,
        read_from: int,
        found: Sequence[Span],
        records_max: int,
        batch_size: int,
        strict: bool,
        at: Moment,
        out: Outcome,
        skip: Sequence[Span] = (),
        expired: Sequence[Span] = (),
    ) -> list[Acquired]:
        """Lock for `member` what is available in the batches that a reader found from `read_from`
        on, which `next_offset` had told. Gaps before and between batches are done with. Whole
        batches go out, the last one too if that exceeds `records_max`, unless `strict`; ranges
        longer than `batch_size` come in pieces that end where batches of the log do, if they can.
        What is in `skip` (aborted, control records) is archived unseen; what is `expired` as well,
        or goes to the dead-letter topic.
        """
        window, settings = self._window, self.settings
        if not found or records_max <= 0 or read_from > window.end or self._failed:
            return []
        due = at.mono + settings.lock_ms
        self._wake(due)
        asking = Asking(member, due, records_max, strict, settings.count_max)
        start = window.start
        lowest = max(read_from, start)
        missing = holes.gaps(lowest, found)
        taken: list[Run] = []
        buried: list[Run] = []
        left = records_max
        if skip or expired:
            missing = holes.all_holes(missing, skip, expired, settings.buries)
        if lowest < window.end:
            if missing:
                buried = holes.drop(window, missing, lowest)
            taken, left = acquiring.take_known(window, asking, found, lowest)
        if left > 0:
            limit = min(left, settings.in_flight_max - window.open)
            acquiring.take_fresh(window, asking, found, missing, limit, taken, buried)
        if buried:
            self._writes.send(buried, buried, None, out)
        if missing:
            self._pass(start, out)
        return acquiring.ranges(taken, found, batch_size)

    # -- taking back ------------------------------------------------------------------------------

    def acknowledge(
        self, member: str, said: Sequence[AckBatch], token: object, at: Moment, out: Outcome
    ) -> None:
        """All of what a member says, or none of it: `out.answers` has the token with its error now
        (INVALID_RECORD_STATE, INVALID_REQUEST), or after the write that this asks for."""
        if self._failed:
            out.answers.append((token, told(self._failed)))
            return
        if whole := acknowledging.exactly(self._window, member, said):
            self._say(whole, said[0].words[0], at)
            self._writes.send((whole,), (whole,), token, out)
            return
        pieces = acknowledging.judged(self._window, member, said, self.settings.renewable)
        if isinstance(pieces, ErrorCode):
            out.answers.append((token, pieces))
            return
        changed: list[Run] = []
        for run, word in acknowledging.parts(self._window, pieces):
            if word == Acknowledge.RENEW:
                run.due = at.mono + self.settings.lock_ms
                self._wake(run.due)  # earlier than before, if the group's locks are shorter now
            else:
                self._say(run, word, at)
                changed.append(run)
        if changed:
            self._writes.send(changed, changed, token, out)
        else:
            out.answers.append((token, ErrorCode.NONE))

    def _say(self, run: Run, word: int, at: Moment) -> None:
        if word == Acknowledge.ACCEPT:
            run.state = State.ACKNOWLEDGED
        elif word == Acknowledge.RELEASE:
            self._give_back(run, at, waits=True)
        elif word == Acknowledge.REJECT:
            self._give_up(run, Reason.REJECTED)
        else:
            run.state = State.ARCHIVED

    def _give_back(self, run: Run, at: Moment, waits: bool) -> None:
        """A delivery did not succeed: the record comes again, or has come often enough."""
        if run.count >= self.settings.count_max:
            self._give_up(run, Reason.DELIVERIES)
            return
        run.state = State.AVAILABLE
        wait_ms = self.settings.backoff.wait_ms(run.count, self._chance) if waits else 0
        run.not_before = Millis(at.wall + wait_ms if wait_ms else 0)

    def _give_up(self, run: Run, reason: Reason) -> None:
        run.reason = reason
        run.state = State.ARCHIVING if self.settings.buries else State.ARCHIVED

    def release(self, member: str, at: Moment, out: Outcome, clean: bool = True) -> None:
        """The member's session is over: what it holds is available again, or given up if that was
        the last delivery. If it did not end cleanly, the records may be why: they wait as if the
        member had released them itself."""
        held = [
            run
            for run in self._window.runs
            if run.state is State.ACQUIRED and run.member == member and not run.ticket
        ]
        self._take_back(held, at, out, waits=not clean)

    def _take_back(self, runs: list[Run], at: Moment, out: Outcome, waits: bool) -> None:
        """End locks whose holders have nothing to say any more. Nobody could have them back, so
        this stands even if the share coordinator is not reached."""
        if not runs:
            return
        for run in runs:
            self._give_back(run, at, waits)
            run.member = ""
            run.due = 0
        self._keep(runs, at, out)

    def _keep(self, runs: list[Run], at: Moment, out: Outcome) -> None:
        """Have changes kept that nothing takes back. Only burials wait for that: nobody is to get
        a record from another leader that is in the dead-letter topic."""
        buried = [run for run in runs if run.state is State.ARCHIVING]
        settled = [run for run in runs if run.state is not State.ARCHIVING]
        self._settle(settled, at, out)
        self._writes.send(runs, buried, None, out)
        self._advance(out)

    def on_due(self, at: Moment, out: Outcome) -> None:
        """The time that `next_due` said has come: locks and waits that are over end here."""
        now = at.mono
        if now < self._due:
            return
        self._due = _NEVER
        late: list[Run] = []
        again: list[Run] = []
        for run in self._window.runs:
            if not run.due or run.ticket:
                continue
            if run.due > now:
                self._wake(run.due)
            elif run.state is State.ACQUIRED:
                late.append(run)
            elif run.state is State.ARCHIVING:
                again.append(run)
            else:
                self._free(run, out)
        if self._due < _NEVER:
            self._due = max(self._due, now + _LOOK_EVERY_MS)
        self._take_back(late, at, out, waits=True)
        self._bury_again(again, out)

    @property
    def next_due(self) -> Millis | None:
        """The monotonic time at which something ends by itself, or an earlier one."""
        return None if self._due >= _NEVER else Millis(self._due)

    def _wake(self, due: int) -> None:
        if due < self._due:
            self._due = due

    # -- what the world answers -------------------------------------------------------------------

    def on_written(self, ticket: int, error: ErrorCode, at: Moment, out: Outcome) -> None:
        """A write ended: its acknowledgements count, or are taken back."""
        if error in FATAL:
            self._fail(error, out)
            return
        ended = self._writes.ended(ticket)
        if ended is None:
            return
        if error:
            self._take_back(self._roll_back(ended.runs, at), at, out, waits=True)
        else:
            self._settle(ended.runs, at, out)
            self._advance(out)
        if ended.token is not None:
            out.answers.append((ended.token, told(error)))

    def _settle(self, runs: Iterable[Run], at: Moment, out: Outcome) -> None:
        """What was said about these runs counts."""
        window = self._window
        for run in runs:
            if run.state in DONE:
                window.close(run)
                continue
            run.member = ""
            run.due = 0
            if run.state is State.ARCHIVING:
                run.is_kept = True
                self._burials.add(run, self.settings.count_max)
            elif left_ms := self.settings.backoff.left_ms(run.count, run.not_before, at.wall):
                run.due = at.mono + left_ms
                self._wake(run.due)
            else:
                self._free(run, out)

    def _roll_back(self, runs: Iterable[Run], at: Moment) -> list[Run]:
        """What was said about these runs was not kept: their members have them as before; those
        whose locks have ended meanwhile come back."""
        late: list[Run] = []
        for run in runs:
            if not run.member:
                run.due = at.mono + self._burials.retry_ms
            else:
                run.state = State.ACQUIRED
                run.not_before = Millis(0)
                run.reason = None
                if run.due <= at.mono:
                    late.append(run)
                    continue
            self._wake(run.due)
        return late

    def _fail(self, error: ErrorCode, out: Outcome) -> None:
        if not self._failed:
            self._failed = out.failed = error
            out.answers.extend((token, told(error)) for token in self._writes.give_up())

    def on_buried(self, first: int, last: int, buried: bool, at: Moment, out: Outcome) -> None:
        """Dead letters are in their topic, or could not be written and come again after a while
        (never lost: they stay ARCHIVING until they are there)."""
        window = self._window
        self._burials.ended(buried)
        first = max(first, window.start)
        if first <= last:
            window.cut((first, last + 1))
        runs = [run for run in window.over(first, last) if run.state is State.ARCHIVING]
        for run in runs:
            if buried:
                run.state = State.ARCHIVED
            else:
                run.due = at.mono + self._burials.retry_ms
                self._wake(run.due)
        if buried and runs:
            self._keep(runs, at, out)
        self._burials.go(window.start, out)

    def _bury_again(self, runs: Sequence[Run], out: Outcome) -> None:
        unknown = [run for run in runs if not run.is_kept]
        if unknown:
            self._writes.send(unknown, unknown, None, out)
        for run in runs:
            run.due = 0
            if run.is_kept:
                self._burials.add(run, self.settings.count_max)
        self._burials.go(self._window.start, out)

    def on_log_start(self, start: int, at: Moment, out: Outcome) -> None:  # noqa: ARG002
        """The log begins at `start` now: what lies below is done with, whoever holds it."""
        before = self._window.start
        if start > before:
            self._window.begin_at(start)
            self._pass(before, out)

    # -- what has changed -------------------------------------------------------------------------

    def _free(self, run: Run, out: Outcome) -> None:
        run.due = 0
        run.not_before = Millis(0)
        self._window.freed(run)
        out.ready = True

    def _advance(self, out: Outcome) -> None:
        """Move the start over what is done with, and let in whoever could not be served."""
        self._window.advance()
        self._burials.go(self._window.start, out)
        if self._starved and self._window.open < self.settings.in_flight_max:
            self._starved = False
            out.ready = True

    def _pass(self, start: int, out: Outcome) -> None:
        """Move the start, from where it was, over what was not there to be delivered. If nothing is
        in flight, nobody will speak of it: so that the group does not seem to lag, the new start
        is written down at once."""
        self._advance(out)
        if not self._window.runs and self._window.start > start:
            self._writes.send((), (), None, out)

    # -- looking ----------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether nothing is on its way, to the share coordinator or to the dead-letter topic, and
        nobody holds anything: a machine that is forgotten now leaves nothing undone."""
        return self._writes.is_empty and not any(
            run.state in (State.ACQUIRED, State.ARCHIVING) for run in self._window.runs
        )

    def view(self) -> list[tuple[int, int, str, int, str]]:
        """(first, last, state, count, member) of all in flight: for tests and descriptions."""
        return [
            (run.first, run.last, run.state.name, run.count, run.member)
            for run in self._window.runs
        ]

"""Drives the desk: one thread polls, commits and answers for the group; a runner calls handlers.

The polling thread never runs a handler, so a slow one costs no membership. It and the runner's
threads meet at the desk, under one lock, which is held for decisions only, never for a call.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Record

from penstock.patterns import notes
from penstock.patterns.desk import Busy, Desk, Failed, Handled, Outcome
from penstock.patterns.intake import Taken, taken
from penstock.patterns.post import Post
from penstock.patterns.settings import Settings
from penstock.patterns.tenure import Bury, Errand, Job, Mark, Park, Place
from penstock.patterns.topics import Topics

log = logging.getLogger("penstock.patterns")

POLL_SECONDS_MAX = 0.1
SETTLE_POLL_SECONDS = 0.02
CALL_SECONDS_MAX = 10.0
COMMIT_SECONDS_MAX = 60.0
"""A commit that nobody has heard of for so long does not hold up the next one."""
SEND_AGAIN_SECONDS = 1.0
OPEN_AGAIN_SECONDS = 0.1

_HOPELESS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)


class WorkerFailed(Exception):
    """A worker had to stop; the message says why, and what to do."""


class GaveUp(WorkerFailed):
    """A message failed for good and there is no dead-letter topic to put it aside. It is not
    committed, and comes again when the worker starts again."""


@dataclass(slots=True)
class Counts:
    """What a worker has done so far."""

    handled: int = 0
    skipped: int = 0
    """Known to the store of `once`."""
    failed: int = 0
    """Tries that raised."""
    parked: int = 0
    """Written to a retry topic."""
    buried: int = 0
    """Written to the dead-letter topic."""
    expired: int = 0
    """Dropped because their time to live was over."""


class Engine:
    """One run of a worker. `launch` starts a job elsewhere, and `ended` is called in the end."""

    def __init__(self, settings: Settings, launch: Callable[[Job], None]) -> None:
        self._settings = settings
        self._launch = launch
        self._desk = Desk(settings.rules())
        self._lock = threading.Lock()
        self._moved = threading.Condition(self._lock)
        self._stopping = False
        self._problem: BaseException | None = None
        self._commit_due = 0.0
        self._committing_since: float | None = None
        self._gone: set[tuple[str | None, int | None]] = set()
        """Partitions that went since the last record was read."""
        self.counts = Counts()

    # -- called by others, from any thread ---------------------------------------------------------

    def stop(self) -> None:
        """End in order, soon. Safe in a signal handler."""
        self._stopping = True

    def fail(self, problem: BaseException) -> None:
        """End in order, and raise this from `run`."""
        self._problem = self._problem or problem
        self._stopping = True

    def ended(self, job: Job, outcome: Outcome, *, skipped: bool = False) -> None:
        """A handler came back."""
        with self._moved:
            self._desk.finish(job, outcome, time.monotonic(), random.uniform(0, 1))
            self.counts.handled += isinstance(outcome, Handled) and not skipped
            self.counts.skipped += skipped
            self.counts.failed += isinstance(outcome, Failed)
            self._moved.notify_all()
        try:
            self._dispatch()
        except Exception as problem:  # noqa: BLE001 - our own: it must not end a handler's thread
            self.fail(problem)

    # -- the polling thread ------------------------------------------------------------------------

    def run(self) -> None:
        """Work until stopped."""
        if self._stopping:
            return
        settings = self._settings
        topics = Topics(settings.shared(), create=settings.create_topics)
        waits = settings.parked_waits
        self._plan = topics.prepare(settings.group, settings.topics, waits, settings.dead_letter)
        self._post = Post(settings, self._plan, self._answered)
        self._consumer = Consumer({**settings.for_consumer(), "on_commit": self._on_commit})
        try:
            self._consumer.subscribe(
                self._plan.subscribe, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            self._turn_until_stopped()
        finally:
            self._close()
        if self._problem is not None:
            raise self._problem

    def _turn_until_stopped(self) -> None:
        while not self._stopping:
            self._turn()

    def _turn(self) -> None:
        self._take([record for record in self._poll() if self._is_record(record)])
        self._post.serve()
        self._dispatch()
        self._try_suspects()
        self._pause()
        now = time.monotonic()
        if now >= self._commit_due:
            self._commit_due = now + self._settings.commit_seconds
            self._commit()
        if (stuck := self._desk.stuck) is not None:
            self.fail(
                GaveUp(
                    f"{stuck.message} failed for good ({stuck.told}) and there is no dead-letter"
                    " topic: give the worker dead_letter=..., or make the handler take it"
                )
            )

    def _poll(self) -> list[Record]:
        """What there is, a record at a time. Asked for many at once, the client would wait for all
        of them or for none, and may answer records of a partition that it took away meanwhile."""
        found: list[Record] = []
        patience = self._patience()
        while len(found) < self._settings.batch:
            record = self._consumer.poll(patience)
            if self._gone:  # whose they are now reads them again
                found = [it for it in found if (it.topic(), it.partition()) not in self._gone]
                self._gone.clear()
            if record is None:
                break
            found.append(record)
            patience = 0.0
        return found

    def _patience(self) -> float:
        """How long a poll may wait: not past the next thing to do."""
        with self._lock:
            if self._desk.has_suspects:
                return 0.0
            due = self._desk.next_due()
        until = POLL_SECONDS_MAX if due is None else due - time.monotonic()
        return min(max(until, 0.0), POLL_SECONDS_MAX, self._settings.commit_seconds)

    def _is_record(self, record: Record) -> bool:
        error = record.error()
        if error is None:
            return True
        if error.fatal() or error.code() in _HOPELESS:
            self.fail(WorkerFailed(f"the server refuses this consumer: {error.str()}"))
        elif error.code() != KafkaError._PARTITION_EOF:
            log.warning("the client says: %s", error.str())
        return False

    # -- messages come in --------------------------------------------------------------------------

    def _take(self, records: list[Record]) -> None:
        by_place: dict[Place, list[Taken]] = {}
        for each in (taken(record, self._plan) for record in records):
            by_place.setdefault(each.place, []).append(each)
        with self._lock:
            new = {
                place: found
                for place, found in by_place.items()
                if not self._desk.continues(place, found[0].offset)
            }
            again = [place for place in new if place in self._desk.tenures]
        if again:
            log.warning("the client reads %s once more: what was done last is done again", again)
        if new and not self._open(new):
            by_place = {place: found for place, found in by_place.items() if place not in new}
        for found in by_place.values():
            self._hold(found)

    def _open(self, new: dict[Place, list[Taken]]) -> bool:
        """Begin with partitions: read what their last owner noted, and note that we work on them.

        Nothing of them runs before that is committed. If it cannot be, they are read again: the
        group may be about to take them away.
        """
        first = {place: found[0].offset for place, found in new.items()}
        try:
            told = self._consumer.committed(
                [TopicPartition(*place) for place in new], timeout=CALL_SECONDS_MAX
            )
            ours = {}
            for each in told:
                if each.error is not None:
                    raise KafkaException(each.error)
                place = (each.topic, each.partition)
                before, window = notes.parse(each.metadata), self._settings.in_flight_max
                ours[place] = before.next_owner(first[place], window)
            self._commit_now(Mark(it, first[it], found.text()) for it, found in ours.items())
        except KafkaException as problem:
            log.info("begin later with %s: %s", sorted(new), problem.args[0].str())
            for place, offset in first.items():
                self._seek(place, offset)
            time.sleep(OPEN_AGAIN_SECONDS)
            return False
        with self._lock:
            for place, found in ours.items():
                self._desk.assign(place, found)
        return True

    def _seek(self, place: Place, offset: int) -> None:
        try:
            self._consumer.seek(TopicPartition(*place, offset))
        except KafkaException:
            pass  # not ours any more: whose it is reads it from the committed offset

    def _hold(self, found: list[Taken]) -> None:
        now, now_ms = time.monotonic(), time.time() * 1000
        with self._lock:
            for each in found:
                expires_ms = each.message.expires_ms if self._settings.honour_ttl else None
                due = 0.0
                if each.due_ms is not None and self._settings.retry is not None:
                    # Bounded by the waits there are: clocks of two machines may be far apart.
                    wait = min((each.due_ms - now_ms) / 1000, 2 * self._settings.retry.longest)
                    due = now + wait
                expires = None if expires_ms is None else now + (expires_ms - now_ms) / 1000
                self._desk.take(
                    each.place, each.offset, each.message, now, due=due, expires=expires
                )

    # -- jobs go out -------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Start what may run, and send what is to be sent."""
        with self._lock:
            started = self._desk.start(time.monotonic())
            errands = self._desk.errands()
            self.counts.expired = self._desk.expired
        for job in started:
            self._launch(job)
        for errand in errands:
            self._post.send(errand, round(time.time() * 1000))

    def _try_suspects(self) -> None:
        with self._lock:
            job = self._desk.try_suspect(time.monotonic())
        if job is None:
            return
        try:
            self._commit_places([job.tenure.place])
        except KafkaException as problem:
            log.info("%s is tried alone later: %s", job.message, problem.args[0].str())
            self.ended(job, Busy())
        else:
            self._launch(job)

    def _answered(self, errand: Errand, error: KafkaError | None) -> None:
        """What the server said about something that was sent."""
        now = time.monotonic()
        with self._moved:
            if error is None:
                self._desk.sent(errand.job, now)
                self.counts.buried += isinstance(errand, Bury)
                self.counts.parked += not isinstance(errand, Bury)
            elif isinstance(errand, Park) and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                # A copy has some headers more, and they were too many: it waits here.
                self._desk.keep(errand.job, now + errand.wait)
            else:
                self._desk.unsent(errand.job, now + SEND_AGAIN_SECONDS)
            self._moved.notify_all()
        if error is None:
            return
        self._post.complain(errand, error, now)
        if error.fatal():
            self.fail(WorkerFailed(f"the producer cannot go on: {error.str()}; start again"))

    # -- commits and partitions --------------------------------------------------------------------

    def _commit(self) -> None:
        """Have what is done committed, some time soon.

        One at a time: librdkafka tries again what failed, and of two the older could arrive last.
        """
        if self._is_committing():
            return
        with self._lock:
            marks = self._desk.marks()
            self._desk.told(marks)
        if not marks:
            return
        try:
            self._consumer.commit(offsets=_positions(marks), asynchronous=True)
            self._committing_since = time.monotonic()
        except KafkaException as problem:
            log.info("commit later: %s", problem.args[0].str())
            with self._lock:
                self._desk.untold(mark.place for mark in marks)

    def _is_committing(self) -> bool:
        since = self._committing_since
        return since is not None and time.monotonic() - since < COMMIT_SECONDS_MAX

    def _await_commit(self) -> None:
        """Let the commit that is under way arrive; what else comes is read again by the next."""
        deadline = time.monotonic() + CALL_SECONDS_MAX
        while self._is_committing() and time.monotonic() < deadline:
            self._consumer.poll(SETTLE_POLL_SECONDS)

    def _commit_places(self, places: Iterable[Place]) -> None:
        """Have what is done there committed, now, or raise."""
        with self._lock:
            marks = [mark for mark in self._desk.marks() if mark.place in places]
        self._commit_now(marks)
        with self._lock:
            self._desk.told(marks)

    def _commit_now(self, marks: Iterable[Mark]) -> None:
        if not (positions := _positions(marks)):
            return
        for each in self._consumer.commit(offsets=positions, asynchronous=False):
            if each.error is not None:
                raise KafkaException(each.error)

    def _on_commit(self, error: KafkaError | None, positions: list[TopicPartition]) -> None:
        self._committing_since = None
        failed = [each for each in positions if error is not None or each.error is not None]
        with self._lock:
            self._desk.untold((each.topic, each.partition) for each in failed)

    def _pause(self) -> None:
        with self._lock:
            pause, resume = self._desk.pauses(self._settings.batch)
        if pause:
            self._consumer.pause([TopicPartition(*place) for place in pause])
        if resume:
            self._consumer.resume([TopicPartition(*place) for place in resume])

    def _on_revoke(self, _: Consumer, positions: list[TopicPartition]) -> None:
        places = [(each.topic, each.partition) for each in positions]
        self._gone.update(places)
        self._resume(places)
        self._settle(places, self._settings.revoke_seconds)

    def _on_lost(self, _: Consumer, positions: list[TopicPartition]) -> None:
        """They are somebody else's already: nothing of them may be committed here."""
        places = [(each.topic, each.partition) for each in positions]
        log.warning(
            "the group took %s away without asking: what was not committed is handled again"
            " elsewhere", sorted(places),
        )  # fmt: skip
        self._gone.update(places)
        self._resume(places)
        with self._lock:
            self._desk.close(places)

    def _resume(self, places: list[Place]) -> None:
        """The client remembers a pause even of partitions that went, and they may come back."""
        with self._lock:
            tenures = [self._desk.tenures.get(place) for place in places]
        if paused := [TopicPartition(*each.place) for each in tenures if each and each.paused]:
            self._consumer.resume(paused)

    def _settle(self, places: list[Place], seconds: float) -> None:
        """Give partitions back: let what runs end, commit what is done, forget the rest."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self._desk.leave(places)
            places = [place for place in places if place in self._desk.tenures]
        while places:
            self._post.serve()
            self._dispatch()
            with self._moved:
                left = deadline - time.monotonic()
                if not (busy := self._desk.busy(places)) or left <= 0:
                    break
                self._moved.wait(min(left, SETTLE_POLL_SECONDS))
        if not places:
            return
        if busy:
            log.warning(
                "%d messages were still being handled after %g s, when their partitions had to be"
                " given back: they will be handled again elsewhere", busy, seconds,
            )  # fmt: skip
        try:
            self._commit_places(places)
        except KafkaException as problem:
            log.warning(
                "what was done last could not be committed (%s): it will be handled again",
                problem.args[0].str(),
            )
        with self._lock:
            self._desk.close(places)

    def _close(self) -> None:
        self._stopping = True
        self._await_commit()
        with self._lock:
            places = list(self._desk.tenures)
        self._settle(places, self._settings.stop_seconds)
        self._consumer.close()
        self._post.close(CALL_SECONDS_MAX)


def _positions(marks: Iterable[Mark]) -> list[TopicPartition]:
    return [TopicPartition(*mark.place, mark.offset, mark.notes) for mark in marks]

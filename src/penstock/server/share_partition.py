"""One share group on one partition that this broker leads: the driver of its machine.

The machine (`coordination.delivery`) decides who gets which record. This driver loads what the
share coordinator knows, brings there what the machine has to have written down, one write after
the other, wakes it when its time has come, and has records buried that the group gave up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.coordination.delivery.effects import Outcome
from penstock.coordination.delivery.machine import Delivery
from penstock.coordination.effects import Moment
from penstock.coordination.share.state import Summary
from penstock.model.errors import ErrorCode
from penstock.replica.waiting import BYTES_UNCOUNTED
from penstock.server.share_loading import load, told

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from penstock.coordination.delivery.effects import (
        AckBatch,
        Acquired,
        DeadLetter,
        Span,
        StateBatch,
        Write,
    )
    from penstock.model.ids import Millis
    from penstock.replica.partition import Partition
    from penstock.replica.waiting import Waiter
    from penstock.server.broker import Broker
    from penstock.server.share_answers import Acknowledgements
    from penstock.server.share_persister import ShareKey
    from penstock.server.share_settings import ShareSettings

log = logging.getLogger("penstock.server")


class SharePartition:
    """The driver; `on_end` forgets it."""

    def __init__(
        self,
        broker: Broker,
        key: ShareKey,
        partition: Partition,
        settings: Callable[[str], ShareSettings],
        on_end: Callable[[SharePartition], None],
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.delivery: Delivery | None = None
        """None while it is being loaded."""
        self.error = ErrorCode.NONE
        """Why it is over, once it is."""
        self.retiring = False
        """Whether it ends as soon as all that it has to say is written down."""
        self.used_at = broker.clock.monotonic()
        self._broker = broker
        self._settings = settings
        self._on_end = on_end
        self._waiters: dict[Waiter, None] = {}
        self._asked: dict[int, tuple[Acknowledgements, tuple[bytes, int]]] = {}
        self._next_token = 0
        self._state_epoch = 0
        self._verifying = False
        self._verify_again = False
        self._writes: list[Write] = []
        self._writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._start(self._load())

    # -- loading ------------------------------------------------------------------------------

    async def _load(self) -> None:
        reset = self._settings(self.key.group_id).reset
        held = await load(self._broker, self.key, self.partition, reset)
        if isinstance(held, ErrorCode):
            self.end(held)
            return
        at = self._moment()
        self._state_epoch = held.state_epoch
        settings = self._settings(self.key.group_id)  # it may have changed meanwhile
        self.delivery = Delivery(held, settings.delivery, self._broker.chance, at)
        out = Outcome()
        self.delivery.on_log_start(self.partition.log.start, at, out)
        out.ready = True
        self._settle(out)

    def verify(self) -> None:
        """A member comes. The group may have been set back or made anew since the state was read,
        if a member that its coordinator takes for dead still has a session here; without writes
        nobody would ever tell."""
        self._verify_again = True
        if self.delivery is not None and not self._verifying and not self.may_be_outdated:
            self._verifying = True
            self._start(self._verify())

    async def _verify(self) -> None:
        while self._verify_again:  # for all who come while it is being asked, once more
            self._verify_again = False
            told = await self._broker.coordinators.persister.summary(self.key)
            if isinstance(told, Summary) and told.state_epoch != self._state_epoch:
                self.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return
        self._verifying = False

    # -- handing out --------------------------------------------------------------------------

    def next_offset(self) -> int | None:
        """Where to read next; None if there is nothing to be had now."""
        delivery = self.delivery
        if delivery is None:
            return None
        at = self._moment()
        log_start = self.partition.log.start
        if delivery.start < log_start:
            out = Outcome()
            delivery.on_log_start(log_start, at, out)
            out.ready = False  # whoever asks is looking already
            self._settle(out)
        return delivery.next_offset(at)

    def acquire(
        self,
        member_id: str,
        read_from: int,
        found: Sequence[Span],
        records_max: int,
        batch_size: int,
        strict: bool,
        skip: Sequence[Span],
        expired: Sequence[Span],
    ) -> list[Acquired]:
        """What a member gets of the batches that were read from `read_from` on."""
        delivery = self.delivery
        if delivery is None:
            return []
        at = self._moment()
        self.used_at = at.mono
        out = Outcome()
        acquired = delivery.acquire(
            member_id, read_from, found, records_max, batch_size, strict, at, out, skip, expired
        )
        self._settle(out)
        return acquired

    # -- taking back --------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, said: Sequence[AckBatch], answers: Acknowledgements
    ) -> None:
        """Take what a member says; `answers` hears what became of it, now or later."""
        key = (self.key.topic_id, self.key.partition)
        answers.expect()
        delivery = self.delivery
        if delivery is None:
            # Nothing is held while nothing is loaded: what was, was another leader's to give.
            answers.settle(key, ErrorCode.INVALID_RECORD_STATE)
            return
        at = self._moment()
        self.used_at = at.mono
        token = self._next_token
        self._next_token += 1
        self._asked[token] = (answers, key)
        out = Outcome()
        delivery.acknowledge(member_id, said, token, at, out)
        self._settle(out)

    def release(self, member_id: str, *, clean: bool) -> None:
        """A member's session is over."""
        if self.delivery is not None:
            out = Outcome()
            self.delivery.release(member_id, self._moment(), out, clean)
            self._settle(out)

    # -- those who wait -----------------------------------------------------------------------

    def park(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None

    def unpark(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)

    def _tell(self, size: int) -> None:
        for waiter in list(self._waiters):
            waiter.progress(size)

    # -- what the machine asks for ------------------------------------------------------------

    def _settle(self, out: Outcome) -> None:
        """Act on a step's outcome."""
        if out.answers:
            for token, error in out.answers:
                found = self._asked.pop(token, None)  # type: ignore[call-overload]
                if found is not None:
                    found[0].settle(found[1], error)
        if out.failed:
            self.end(told(out.failed))
            return
        if self.error:
            return
        if out.writes:
            self._writes += out.writes
            if not self._writing:
                self._writing = True
                self._start(self._write())
        for letter in out.dead:
            self._start(self._bury(letter))
        self._schedule()
        if out.ready and self._waiters:
            self._tell(BYTES_UNCOUNTED)
        if self.retiring:
            self.retire()

    async def _write(self) -> None:
        """One write at a time, of all that came up meanwhile."""
        persister = self._broker.coordinators.persister
        while self._writes and self.delivery is not None:
            writes, self._writes = self._writes, []
            newest = writes[-1]
            batches: tuple[StateBatch, ...] = newest.batches
            if len(writes) > 1:
                batches = tuple(batch for write in writes for batch in write.batches)
            error = await persister.write(
                self.key,
                self._state_epoch,
                self.leader_epoch,
                newest.start,
                newest.complete,
                batches,
            )
            if self.error:
                return
            out = Outcome()
            at = self._moment()
            for write in writes:
                self.delivery.on_written(write.ticket, error, at, out)
            self._settle(out)
        self._writing = False

    async def _bury(self, letter: DeadLetter) -> None:
        dead_letters = self._broker.coordinators.dead_letters
        buried = await dead_letters.bury(self.key.group_id, self.partition, letter)
        if self.delivery is None or self.error:
            return  # the next leader finds what was not buried
        out = Outcome()
        self.delivery.on_buried(letter.first, letter.last, buried, self._moment(), out)
        self._settle(out)
        if self.retiring and not buried:
            self.verify()  # the group may be gone, and its letters would be tried for ever

    # -- time ---------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Be woken when the first lock or wait ends. Too early does no harm, and spares setting
        the timer anew with each acknowledgement."""
        due = None if self.delivery is None else self.delivery.next_due
        if due is None:
            return
        loop = self._broker.loop
        when = loop.time() + max(0, due - self._broker.clock.monotonic()) / 1000
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        delivery = self.delivery
        if delivery is None or self.error:
            return
        at = self._moment()
        out = Outcome()
        due = delivery.next_due
        if due is not None and due <= at.mono:
            delivery.on_due(at, out)
        self._settle(out)

    def _moment(self) -> Moment:
        clock = self._broker.clock
        return Moment(clock.now(), clock.monotonic())

    # -- changes and the end ------------------------------------------------------------------

    def reconfigure(self) -> None:
        """The group's configuration may have changed."""
        if self.delivery is not None:
            self.delivery.settings = self._settings(self.key.group_id).delivery

    def retire(self) -> None:
        """Nobody needs it for now, and others may change what the coordinator holds: end, as soon
        as all is written down and the dead are buried."""
        self.retiring = True
        if self.delivery is None or self.delivery.is_finished:
            self.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @property
    def may_be_outdated(self) -> bool:
        """Whether it only waits to try once more to bury the dead. As nobody was there, the group
        may have been set back or made anew meanwhile: who comes now needs what is true now, and
        the dead are found in it."""
        return self.retiring and not self._tasks

    def idle_since(self) -> Millis | None:
        """Since when nobody has needed it; None while somebody does."""
        if self.delivery is None or self._waiters or not self.delivery.is_finished:
            return None
        return self.used_at

    def end(self, error: ErrorCode) -> None:
        """It is over: `error` says why to all who wait."""
        if self.error:
            return
        self.error = error
        self._on_end(self)
        if self._timer is not None:
            self._timer.cancel()
        asked, self._asked = self._asked, {}
        for answers, key in asked.values():
            answers.settle(key, error)
        self._tell(0)
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._broker.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("%s of group %s ends", self.partition, self.key.group_id, exc_info=problem)
            self.end(ErrorCode.UNKNOWN_SERVER_ERROR)

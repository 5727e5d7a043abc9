"""One fetcher: a loop that asks one leader for its partitions, and takes what it answers."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import TYPE_CHECKING, NamedTuple

from penstock.records.batch import BASE, HEAD_SIZE, crc_of, read_head
from penstock.replica.fetch_session import Key, LeaderSession
from penstock.replica.fetching import (
    Ask,
    CutTo,
    Following,
    Locate,
    StartAt,
    State,
    Step,
    Take,
    Wait,
    growing,
    make_room,
)
from penstock.server.fetch_requests import (
    EARLIEST,
    LATEST,
    FetchLimits,
    fetch_request,
    offsets_in,
    offsets_request,
)
from penstock.storage.log import CorruptBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.protocol.generated.fetch import FetchRequest, FetchResponse, PartitionData
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.storage.flush import GroupCommit

log = logging.getLogger("penstock.server")

FULL = (errno.ENOSPC, errno.EDQUOT)

HOLD_BACK_MS = 100
"""How long a throttled partition that is behind stays out of fetches, once the rate is reached."""

NAMED_MAX = 500
"""A fetch that waits at the leader is broken off for a newcomer only if its session has at most as
many partitions: they all have to be named again."""
CALM_SECONDS = 0.1
"""After that, those who come next can wait a moment: a large topic comes in many pieces."""


class _Member(NamedTuple):
    partition: Partition
    following: Following


class Fetcher:
    """Copies some of the partitions that one broker leads."""

    def __init__(self, broker: Broker, commits: GroupCommit, leader: int, number: int) -> None:
        self._broker = broker
        self._commits = commits
        self._leader = leader
        self._purpose = f"fetcher-{number}"
        self._throttle = broker.throttles.follower
        config = broker.config
        self._limits = FetchLimits.of(config)
        self._answer_seconds_max = config.get_int("replica.socket.timeout.ms") / 1000
        self._backoff_ms = config.get_int("replica.fetch.backoff.ms")
        self._members: dict[Key, _Member] = {}
        self._changed: dict[Key, None] = {}  # to be asked for anew, in this order
        self._delayed: dict[Key, None] = {}
        self._left: dict[Key, None] = {}
        self._session = LeaderSession()
        self._asking = False
        self._interrupting: asyncio.TimerHandle | None = None
        self._interrupted = False
        self._calm_until = 0.0
        self._losses = 0  # requests without an answer, one after the other
        self._news = asyncio.Event()
        self._task = broker.loop.create_task(self._run())

    # -- what it copies -----------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether there is nothing to copy."""
        return not self._members

    def members(self) -> Iterator[_Member]:
        """What it copies."""
        yield from self._members.values()

    def following(self, key: Key) -> Following | None:
        """How a partition follows, if it is copied here."""
        member = self._members.get(key)
        return None if member is None else member.following

    def add(self, key: Key, partition: Partition, following: Following) -> None:
        """Begin to copy a partition."""
        self._members[key] = _Member(partition, following)
        self._left.pop(key, None)
        self._changed[key] = None
        self._news.set()
        if self._asking and self._interrupting is None and len(self._session.told) <= NAMED_MAX:
            # The fetch under way may wait at the leader for as long as nobody writes, and whoever
            # writes to the newcomer may wait for us.
            when = max(self._broker.loop.time(), self._calm_until)
            self._interrupting = self._broker.loop.call_at(when, self._interrupt)

    def remove(self, key: Key) -> None:
        """Copy a partition no more."""
        del self._members[key]
        self._changed.pop(key, None)
        self._delayed.pop(key, None)
        self._left[key] = None

    def close(self) -> None:
        """Stop."""
        self._task.cancel()
        self._broker.neighbours.hang_up(self._leader, self._purpose)

    def _interrupt(self) -> None:
        self._calm_until = self._broker.loop.time() + CALM_SECONDS
        self._interrupted = True
        self._broker.neighbours.hang_up(self._leader, self._purpose)

    # -- the loop -----------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._sync()
                request = self._request()
                if request is None:
                    await self._pause()
                else:
                    await self._fetch(request)
            except Exception:
                # Our own fault. All partitions of the leader wait for this loop: it goes on.
                log.exception("fetching from broker %d failed", self._leader)
                self._session.lost()
                await asyncio.sleep(self._backoff_ms / 1000)

    async def _pause(self) -> None:
        """Wait for a partition to fetch: a new one, or one whose delay is over."""
        now = self._broker.clock.monotonic()
        await self._wait_for_news(self._delay(now) if self._delayed else None)

    def _delay(self, now: int) -> int:
        """How long the first of those that wait has to wait still."""
        return max(min(self._members[key].following.due for key in self._delayed) - now, 1)

    async def _wait_for_news(self, ms_max: int | None) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(None if ms_max is None else ms_max / 1000):
                await self._news.wait()
        except TimeoutError:
            pass  # that is what was waited for

    async def _fetch(self, request: FetchRequest) -> None:
        self._asking = True
        response: FetchResponse | None = None
        try:
            response = await self._broker.neighbours.ask(
                self._leader, request, self._answer_seconds_max, self._purpose
            )
        except OSError as problem:
            self._session.lost()
            if not self._interrupted and not self._losses:
                log.info("cannot fetch from broker %d: %s", self._leader, problem)
        finally:
            interrupted, self._interrupted = self._interrupted, False
            self._asking = False
            if self._interrupting is not None:
                self._interrupting.cancel()
                self._interrupting = None
        if response is None:
            if not interrupted:
                await self._back_off()
                self._losses += 1
            return
        if self._session.answered(response.session_id, response.error_code):
            self._losses = 0
            await self._take(response)
            return
        log.info("broker %d refuses the fetch: error %d", self._leader, response.error_code)
        if self._losses:
            await self._back_off()  # a new session is no better
        self._losses += 1

    async def _back_off(self) -> None:
        """Wait before the next try, longer each time."""
        await self._wait_for_news(growing(self._losses, self._backoff_ms))

    # -- asking -------------------------------------------------------------------------------

    async def _sync(self) -> None:
        """Make durable what the topics want durable: a fetch from an offset claims all below."""
        while waiting := [
            (key, self._commits.wait_synced(held, held.end))
            for key in self._changed
            if (held := self._members[key].partition.log).end - held.recovery_point
            >= held.config.flush_messages
        ]:
            await asyncio.wait([done for _, done in waiting])
            for key, done in waiting:
                member = self._members.get(key)
                if done.exception() is not None and member is not None:
                    self._fail(key, member, "cannot be synced")  # its directory is offline by now

    def _request(self) -> FetchRequest | None:
        """The next fetch; None if there is nothing to ask."""
        now = self._broker.clock.monotonic()
        for key in [key for key in self._delayed if self._members[key].following.is_ready(now)]:
            del self._delayed[key]
            self._changed[key] = None
        if self._throttle.active and self._throttle.exceeded(now):
            self._hold_back(now + HOLD_BACK_MS)
        asked: dict[Key, Ask] = {}
        for key in list(self._changed):
            ask = self._ask(key)
            if ask is not None:
                asked[key] = ask
        self._changed.clear()
        named, forgotten = self._session.plan(asked, self._left)
        self._left.clear()
        if not self._session.told and not forgotten:
            return None
        return fetch_request(
            self._broker.node_id,
            self._broker.epoch,
            self._session,
            named,
            forgotten,
            self._limits._replace(wait_ms_max=self._wait_ms(now))
            if self._delayed
            else self._limits,
        )

    def _wait_ms(self, now: int) -> int:
        """How long the leader may wait for news: those who wait here are not to wait longer."""
        return min(self._limits.wait_ms_max, self._delay(now))

    def _hold_back(self, until: int) -> None:
        """Leave those out that are throttled and have to catch up."""
        for key, (partition, following) in self._members.items():
            if (
                following.state is State.FETCHING
                and not following.in_sync
                and self._throttle.concerns(partition.topic, partition.index)
            ):
                following.hold_back(until)
                self._changed.pop(key, None)
                self._left[key] = None
                self._delayed[key] = None

    def _ask(self, key: Key) -> Ask | None:
        member = self._members.get(key)
        if member is None:
            return None  # its directory failed just now, with that of another
        partition, following = member
        if partition.offline or following.state is not State.FETCHING:
            return None
        ask = following.ask(partition.log)
        if isinstance(ask, CutTo):
            if not self._act(key, member, ask):
                return None
            again = following.ask(partition.log)
            return again if isinstance(again, Ask) else None
        return ask

    # -- taking answers -----------------------------------------------------------------------

    async def _take(self, response: FetchResponse) -> None:
        now = self._broker.clock.monotonic()
        told = self._session.told
        astray: list[tuple[Key, _Member]] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                member = self._members.get(key)
                asked = told.get(key)
                if member is None or asked is None or key in self._changed:
                    continue  # it left meanwhile, or begins anew
                if self._answer(key, member, asked, data, now):
                    astray.append((key, member))
        if astray:
            await self._locate(astray)

    def _answer(self, key: Key, member: _Member, asked: Ask, data: PartitionData, now: int) -> bool:
        """Do what an answer calls for; True if the leader has to be asked for its bounds first."""
        partition, following = member
        diverging = data.diverging_epoch
        step = following.on_answer(
            asked,
            data.error_code,
            None if diverging is None else (diverging.epoch, diverging.end_offset),
            partition.log,
            now,
        )
        if step.__class__ is Take:
            if self._append(key, member, asked, data):
                following.on_taken(data.high_watermark, partition.log)
            return False
        if isinstance(step, Locate):
            return True
        self._act(key, member, step)
        return False

    def _append(self, key: Key, member: _Member, asked: Ask, data: PartitionData) -> bool:
        partition = member.partition
        held = partition.log
        records = data.records
        try:
            if records and isinstance(records, bytes | memoryview):
                now = self._broker.clock.now()
                if len(records) >= HEAD_SIZE and BASE.unpack_from(records)[0] < held.end:
                    self._make_room(partition, records, now)
                partition.append_fetched(records, now)
                if self._throttle.active and self._throttle.concerns(partition.topic, key[1]):
                    self._throttle.record(len(records), self._broker.clock.monotonic())
            partition.take_marks(data.high_watermark, data.log_start_offset)
        except CorruptBatch as problem:
            # It may be whole the next time: what the leader sent was read while it was written.
            self._put_off(key, member, f"a batch is no good: {problem}")
            return False
        except OSError as problem:
            self._on_fault(key, member, problem)
            return False
        except Exception:
            log.exception("what came for %s cannot be taken", partition)
            self._fail(key, member, "cannot take what came")
            return False
        if held.end != asked.offset or held.start != asked.log_start:
            self._changed[key] = None
        return True

    def _make_room(self, partition: Partition, records: bytes | memoryview, now: int) -> None:
        head = read_head(records)
        if head.size > len(records) or crc_of(records, 0, head.size) != head.crc:
            return  # nothing is cut for a batch that is none
        step = make_room(partition.log, head.base_offset, head.last_offset)
        if isinstance(step, StartAt):
            partition.restart_at(step.offset, now)
        elif step is not None:
            self._say_cut(partition, step.offset)
            partition.truncate_to(step.offset, now)

    def _act(self, key: Key, member: _Member, step: Step) -> bool:
        """Cut the log, or wait; False if it cannot be fetched now."""
        partition = member.partition
        now = self._broker.clock.now()
        self._changed[key] = None
        try:
            if isinstance(step, CutTo):
                self._say_cut(partition, step.offset)
                partition.truncate_to(step.offset, now)
            elif isinstance(step, StartAt):
                log.warning(
                    "%s ends at %d, before the leader's start: beginning anew at %d",
                    partition,
                    partition.log.end,
                    step.offset,
                )
                partition.restart_at(step.offset, now)
            elif isinstance(step, Wait):
                self._step_back(key, member, step)
                return False
        except OSError as problem:
            # Half a cut is no log: who fails to cut goes offline.
            partition.log.context.on_fault(partition.log, problem)
            self._on_fault(key, member, problem)
            return False
        except Exception:
            log.exception("%s cannot be made to follow", partition)
            self._fail(key, member, "cannot follow")
            return False
        return True

    def _say_cut(self, partition: Partition, offset: int) -> None:
        held = partition.log
        if offset < held.high_watermark:
            log.warning(
                "%s is cut from %d to %d, below its high watermark %d: leader %d has no more",
                partition,
                held.end,
                offset,
                held.high_watermark,
                self._leader,
            )
        elif offset < held.end:
            log.info(
                "%s is cut from %d to %d, as leader %d", partition, held.end, offset, self._leader
            )

    # -- what goes wrong ----------------------------------------------------------------------

    def _put_off(self, key: Key, member: _Member, reason: str) -> None:
        now = self._broker.clock.monotonic()
        self._step_back(key, member, member.following.put_off(reason, now))

    def _step_back(self, key: Key, member: _Member, wait: Wait) -> None:
        partition, following = member
        if self._members.get(key) is not member:
            return  # it left meanwhile: with its directory, for one
        if wait.level:
            log.log(wait.level, "%s from broker %d: %s", partition, self._leader, wait.reason)
        self._changed.pop(key, None)
        self._left[key] = None
        if following.state is State.DELAYED:
            self._delayed[key] = None

    def _fail(self, key: Key, member: _Member, reason: str) -> None:
        member.following.fail()
        self._step_back(key, member, Wait(reason, logging.WARNING))

    def _on_fault(self, key: Key, member: _Member, problem: OSError) -> None:
        if problem.errno in FULL:
            self._put_off(key, member, f"no room: {problem}")
        else:
            self._fail(key, member, str(problem))

    # -- a leader's bounds --------------------------------------------------------------------

    async def _locate(self, astray: list[tuple[Key, _Member]]) -> None:
        """Our ends are outside of the leader's logs: learn where those start and end."""
        try:
            ends = await self._offsets(astray, LATEST)
            starts = await self._offsets(astray, EARLIEST)
        except OSError as problem:
            ends = starts = {}
            log.info("broker %d does not tell its offsets: %s", self._leader, problem)
        for key, member in astray:
            partition, following = member
            if self._members.get(key) is not member or following.state is not State.LOCATING:
                continue
            name = partition.topic, partition.index
            start, end = starts.get(name, -1), ends.get(name, -1)
            if start < 0 or end < 0:
                self._put_off(key, member, "out of the leader's range, which is not known")
            else:
                now = self._broker.clock.monotonic()
                self._act(key, member, following.on_located(start, end, partition.log, now))

    async def _offsets(
        self, astray: list[tuple[Key, _Member]], timestamp: int
    ) -> dict[tuple[str, int], int]:
        epochs = (
            ((partition.topic, partition.index), following.epoch)
            for _, (partition, following) in astray
        )
        request = offsets_request(self._broker.node_id, epochs, timestamp)
        return offsets_in(
            await self._broker.neighbours.ask(
                self._leader, request, self._answer_seconds_max, self._purpose
            )
        )

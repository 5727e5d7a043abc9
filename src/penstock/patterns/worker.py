"""What a user makes: `Worker` for functions, `AsyncWorker` for coroutines."""

from __future__ import annotations

import asyncio
import inspect
import queue
import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from penstock.patterns.backoff import Backoff
from penstock.patterns.desk import Busy, Failed, Handled
from penstock.patterns.engine import Counts, Engine
from penstock.patterns.message import Message
from penstock.patterns.once import Guard, Once, Reject
from penstock.patterns.settings import Settings
from penstock.patterns.tenure import Job

Handler = Callable[[Message], object]
AsyncHandler = Callable[[Message], Awaitable[object]]
H = TypeVar("H")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Common(ABC, Generic[H]):
    """What both kinds share."""

    def __init__(
        self,
        client: Mapping[str, Any],
        topics: str | Sequence[str],
        handler: H,
        *,
        retry: Backoff | None = None,
        dead_letter: str | None = None,
        once: Once | None = None,
        workers: int = 8,
        keep_order: bool = True,
        in_flight_max: int = 1_000,
        hold_seconds: float = 10.0,
        honour_ttl: bool = False,
        bury_expired: bool = False,
        crashes_max: int = 3,
        commit_seconds: float = 1.0,
        stop_seconds: float = 30.0,
        revoke_seconds: float = 30.0,
        create_topics: bool = True,
        producer: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings = Settings(
            client=client,
            topics=[topics] if isinstance(topics, str) else list(topics),
            retry=retry,
            dead_letter=dead_letter,
            once=once,
            workers=workers,
            keep_order=keep_order,
            in_flight_max=in_flight_max,
            hold_seconds=hold_seconds,
            honour_ttl=honour_ttl,
            bury_expired=bury_expired,
            crashes_max=crashes_max,
            commit_seconds=commit_seconds,
            stop_seconds=stop_seconds,
            revoke_seconds=revoke_seconds,
            create_topics=create_topics,
            producer=producer or {},
        )
        self._handler = handler
        self._guard = Guard(once, self._settings.group)
        self._engine = Engine(self._settings, self._launch)
        self._check()

    def _check(self) -> None:
        """ValueError if the handler, or the store, is none for this kind of worker."""

    @property
    def counts(self) -> Counts:
        """What was done so far."""
        return self._engine.counts

    def stop(self) -> None:
        """End in order: what is being handled may finish, what is done is committed, and `run`
        returns. From any thread, a handler or a signal handler. A stopped worker stays so."""
        self._engine.stop()

    @abstractmethod
    def _launch(self, job: Job) -> None:
        """Have the handler run, and tell the engine how it ended."""

    def _returned(self, job: Job, result: str) -> None:
        if result == Guard.BUSY:
            self._engine.ended(job, Busy())
        else:
            self._engine.ended(job, Handled(), skipped=result == Guard.SKIPPED)


class Worker(_Common[Handler]):
    """Handles the messages of topics, as a member of a consumer group, with a plain function.

        def bill(message: Message) -> None: ...

        Worker(
            {"bootstrap.servers": "localhost:9092", "group.id": "billing"},
            "orders",
            bill,
            retry=Backoff.of(10, 60, 600),
            dead_letter="dlq.orders",
        ).run()

    A message is done when `handler` returned. If it raises, the message is tried again as `retry`
    says; after the last try, or at once after `Reject`, it goes to the topic `dead_letter`. Without
    one, `run` ends with `GaveUp`, and nothing is lost.

    - `client`: settings of librdkafka's, for connecting and for the consumer. A group that is new
      begins at the earliest message, unless `auto.offset.reset` says otherwise.
    - `once`: skip what was handled before; see `Once`.
    - `workers`: how many messages are handled at the same time, each in a thread.
    - `keep_order`: messages of a partition with the same key are handled in their order, one after
      another, and wait while an earlier one is being retried; others go on. Retries then wait in
      memory. With False, waits longer than `hold_seconds` are spent in retry topics, however many
      there are, and order is not kept. Messages without a key have no order either way. Tries are
      counted where the message waits: in memory they begin anew with the process.
    - `in_flight_max`: messages of one partition in hand at a time, waiting ones included; the
      partition is paused then. Also how many can be handled again after a crash.
    - `honour_ttl`: drop messages whose header `penstock-ttl-ms` says that they are too old;
      with `bury_expired` they go to the dead letters.
    - `crashes_max`: a message that ended the process that handled it so often is put aside.
    - `stop_seconds`, `revoke_seconds`: how long handlers may take to finish at the end, and when
      a partition moves to another member. What is not finished then is handled again.
    - `create_topics`: make retry and dead-letter topics that are missing; dead letters are kept
      until somebody removes them.
    - `producer`: settings for the producer of retries and dead letters, such as compression.
    """

    def _check(self) -> None:
        once = self._settings.once
        for each in (self._handler, *((once.store.seen, once.store.mark) if once else ())):
            if inspect.iscoroutinefunction(each):
                raise ValueError(f"{each.__qualname__} is a coroutine: use an AsyncWorker")

    def run(self) -> None:
        """Work until `stop`, or until SIGINT or SIGTERM if this is the main thread."""
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        threads = [
            # Daemons, because one that hangs in a handler must not keep the process from ending.
            threading.Thread(target=self._work, name=f"penstock-worker-{number}", daemon=True)
            for number in range(self._settings.workers)
        ]
        for thread in threads:
            thread.start()
        try:
            with _stopped_by_signals(self.stop):
                self._engine.run()
        finally:
            for _ in threads:
                self._queue.put(None)

    def _launch(self, job: Job) -> None:
        self._queue.put(job)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                result = self._guard.call(self._handler, job.message)
            except Exception as problem:  # noqa: BLE001 - whatever it is, it is a failed try
                self._engine.ended(job, _failure(problem))
            except BaseException as problem:  # noqa: BLE001 - sys.exit() ends the worker
                self._engine.fail(problem)
                self._engine.ended(job, Busy())
            else:
                self._returned(job, result)


class AsyncWorker(_Common[AsyncHandler]):
    """A `Worker` whose handler is a coroutine function; each message is handled in a task.

    await AsyncWorker(client, "orders", bill, retry=Backoff(), workers=100).run()
    """

    async def run(self) -> None:
        """Work until `stop`, or until the task that runs this is cancelled."""
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        # The client blocks its thread; the loop stays free for handlers.
        thread = ThreadPoolExecutor(1, "penstock-poll")
        polling = self._loop.run_in_executor(thread, self._engine.run)
        try:
            await asyncio.shield(polling)
        except asyncio.CancelledError:
            self.stop()
            await polling
            raise
        finally:
            thread.shutdown(wait=False)
            for task in self._tasks:
                task.cancel()

    def _launch(self, job: Job) -> None:
        self._loop.call_soon_threadsafe(self._begin, job)

    def _begin(self, job: Job) -> None:
        task = self._loop.create_task(self._work(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, job: Job) -> None:
        try:
            result = await self._guard.call_async(self._handler, job.message)
        except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001 - a failed try
            self._engine.ended(job, _failure(problem))
        else:
            self._returned(job, result)


def _failure(problem: BaseException) -> Failed:
    if isinstance(problem, Reject):
        return Failed(str(problem) or "rejected", final=True)
    return Failed(traceback.format_exception_only(problem)[-1].strip())


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, lambda *_: stop()) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

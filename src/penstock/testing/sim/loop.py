"""An event loop whose time passes only when nobody has anything to do.

A second of waiting costs nothing, and a run with the same seed is the same run: no thread, no
socket and no clock of the machine has a say in it. Several processes may live on one loop
(`process`), and reach each other if it was given a network.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol, TypeVar

from penstock.model.ids import Millis
from penstock.testing.sim.process import CURRENT, Process

EPOCH_MS = 1_700_000_000_000
"""What the wall clock shows when a simulation begins."""

_Result = TypeVar("_Result")


class Stuck(RuntimeError):
    """Everybody waits for somebody else, and no timer will ever ring."""


class Connects(Protocol):
    """Makes connections between processes."""

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class SimulatedLoop(asyncio.BaseEventLoop):
    """Virtual time, from 0 on, in seconds."""

    _ready: Any
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._alarms: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = 0
        self.events = 0
        """How many callbacks have run."""
        self.network: Connects | None = None
        self.failures: list[str] = []
        """What nobody caught: our own faults."""
        self.set_exception_handler(self._note_failure)

    def time(self) -> float:
        return self.now

    # -- running ------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """What is due at the same moment happens in the order in which it was asked for."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heapq.heappush(self._alarms, (when, self._number, timer))
        return timer

    def _run_once(self) -> None:
        """Do what is due, in its order; if nothing is, let time pass until something will be."""
        ready, alarms = self._ready, self._alarms
        if not ready and not self._stopping:
            while alarms and alarms[0][2].cancelled():
                heapq.heappop(alarms)
            if not alarms:
                raise Stuck("nothing is due, and everything waits")
            self.now = max(self.now, alarms[0][0])
        while alarms and alarms[0][0] <= self.now:
            ready.append(heapq.heappop(alarms)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process: Process | None = handle._context.get(CURRENT)
            if process is not None and process.still:
                process.held.append(handle)
                continue
            self.events += 1
            handle._run()

    def resume(self, process: Process) -> None:
        """End a pause: all that was held back happens now."""
        process.paused = process.still = False
        held = process.held
        while held:
            self._ready.append(held.popleft())

    def _process_events(self, event_list: Any) -> None:
        raise NotImplementedError("there is no kernel here")

    def _write_to_self(self) -> None:
        raise RuntimeError("a simulation has one thread")

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,  # noqa: ARG002
        func: Callable[..., Any],
        *args: Any,
    ) -> asyncio.Future[Any]:
        """What would go to a thread is done at once."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as problem:  # noqa: BLE001 - handed to whoever awaits the future
            done.set_exception(problem)
        return done

    def _note_failure(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        problem = context.get("exception")
        if problem is None:
            return  # a task of the dead was collected
        self.failures.append(f"{context.get('message')}: {problem!r}")

    # -- connections --------------------------------------------------------------------------

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A connection through the simulated network."""
        if self.network is None:
            raise OSError("this simulation has no network")
        return await self.network.connect(protocol_factory, host, port)


class SimulatedClock:
    """The loop's time as nodes read it, possibly wrong by `skew_ms`."""

    def __init__(self, loop: SimulatedLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now(self) -> Millis:
        return Millis(EPOCH_MS + self.skew_ms + self.monotonic())

    def monotonic(self) -> Millis:
        # Rounded: a timer that rings at its time must find that it is due.
        return Millis(round(self._loop.now * 1000))


def simulate(main: Coroutine[Any, Any, _Result], loop: SimulatedLoop) -> _Result:
    """Run a coroutine to its end in virtual time."""
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

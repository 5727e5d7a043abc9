"""Keeps the processes of several brokers running: what ends is started again.

What they print is passed on, each line with the broker's number. A broker that ends soon after
its start is started again later and later; one that cannot start at all ends the company, with
what it said.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence

from penstock.app.company import Member
from penstock.app.run import EXIT_CONFIGURATION, EXIT_FAILED

log = logging.getLogger("penstock.app")

READY = "penstock is ready on "
PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 30.0
HEALTHY_SECONDS = 60.0
"""Who ran that long is started again at once."""
LINE_BYTES_MAX = 1 << 20


class Supervisor:
    """One company of brokers, from start to stop."""

    def __init__(
        self, members: Sequence[Member], on_ready: Callable[[str], None] = lambda _: None
    ) -> None:
        """`on_ready` is told the addresses of all when they take requests."""
        self._members = members
        self._on_ready = on_ready
        self._stop = asyncio.Event()
        self._addresses: dict[int, str] = {}
        self._running: dict[int, Process] = {}
        self._status = 0

    async def run(self) -> int:
        """Until SIGTERM or SIGINT; the exit status."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self._stop.set)
        keepers = [asyncio.create_task(self._keep(member)) for member in self._members]
        await self._stop.wait()
        for process in self._running.values():
            if process.returncode is None:
                process.terminate()
        await asyncio.gather(*keepers)
        return self._status

    async def _keep(self, member: Member) -> None:
        pause = PAUSE_SECONDS
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            began = loop.time()
            status = await self._live(member)
            if self._stop.is_set():
                return
            if member.node_id not in self._addresses or status == EXIT_CONFIGURATION:
                # It never took a request: starting it again would end the same way.
                self._status = status or EXIT_FAILED
                self._stop.set()
                return
            pause = PAUSE_SECONDS if loop.time() - began > HEALTHY_SECONDS else pause
            log.warning(
                "broker %d ended with status %d: it starts again in %g s",
                member.node_id,
                status,
                pause,
            )
            await self._unless_stopped(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _live(self, member: Member) -> int:
        """One life of a broker's process; how it ended."""
        words = [f"{key}={value}" for key, value in member.settings.items()]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "penstock.app.member", *words),
            stdin=PIPE,  # held and never written: see penstock.app.member
            stdout=PIPE,
            stderr=PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,  # Ctrl-C is for the supervisor, who stops them in its time
        )
        self._running[member.node_id] = process
        if self._stop.is_set():
            process.terminate()
        assert process.stdout is not None and process.stderr is not None
        await asyncio.gather(
            self._pass_on(member, process.stdout, ready=True),
            self._pass_on(member, process.stderr, ready=False),
        )
        return await process.wait()

    async def _pass_on(self, member: Member, lines: asyncio.StreamReader, *, ready: bool) -> None:
        while line := await lines.readline():
            text = line.decode(errors="replace").rstrip("\n")
            if ready and text.startswith(READY):
                self._came_up(member.node_id, text.removeprefix(READY))
            else:
                print(f"[{member.node_id}] {text}", file=sys.stderr, flush=True)

    def _came_up(self, node_id: int, address: str) -> None:
        again = node_id in self._addresses
        self._addresses[node_id] = address
        if again:
            log.info("broker %d is back on %s", node_id, address)
        elif len(self._addresses) == len(self._members):
            found = ",".join(self._addresses[member.node_id] for member in self._members)
            self._on_ready(found)
            print(f"{READY}{found}", flush=True)

    async def _unless_stopped(self, seconds: float) -> None:
        waiting = asyncio.create_task(self._stop.wait())
        await asyncio.wait([waiting], timeout=seconds)
        waiting.cancel()


def run_members(members: Sequence[Member], on_ready: Callable[[str], None] = lambda _: None) -> int:
    """Run the company until it is told to stop; the exit status."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )

    async def main() -> int:
        return await Supervisor(members, on_ready).run()

    return asyncio.run(main())

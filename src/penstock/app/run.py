"""Running a node as a process: the loop, the signals, the one line that says it is ready."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.app.log_lines import OneLine
from penstock.app.node import CannotStart, Node
from penstock.app.registration import RegistrationRefused
from penstock.model.config.node import NodeConfig
from penstock.model.config.problems import ConfigProblems
from penstock.platform.directory_lock import DirectoryInUse
from penstock.platform.disk import Disk
from penstock.raft.format import check_formatted

EXIT_FAILED = 1
EXIT_CONFIGURATION = 2


def run(
    read_config: Callable[[], NodeConfig],
    *,
    formats: bool,
    on_ready: Callable[[str], None] = lambda _: None,
) -> int:
    """Start, say so, wait for SIGTERM or SIGINT, stop; the exit status.

    Unless the node `formats` its directories by itself, it starts only on formatted ones.
    `on_ready` is told its address when it takes requests, before everybody is.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        config = read_config()
    except (ConfigProblems, OSError) as problem:
        print(f"penstock: {problem}", file=sys.stderr)
        return EXIT_CONFIGURATION
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(config, formats, on_ready))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None  # no wheel for this platform: the stock loop does all the same, slower
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(config: NodeConfig, formats: bool, on_ready: Callable[[str], None]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    node = Node(config, on_failure=stop.set)

    def on_signal() -> None:
        if stop.is_set():
            node.hurry()  # whoever says it twice does not want to wait
        stop.set()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, on_signal)
    try:
        if not formats:
            check_formatted(Disk(), config.metadata_log_dir)
        await _unless(stop, node.start())
    except (CannotStart, DirectoryInUse, OSError, ValueError) as problem:
        print(f"penstock: {_words(problem)}", file=sys.stderr)
        await node.stop(clean=isinstance(problem, RegistrationRefused))  # no fault of the disk's
        return EXIT_FAILED
    if stop.is_set():
        return await _stopped(node)
    # What start-up made lives as long as the node: never look at it again when collecting.
    gc.collect()
    gc.freeze()
    on_ready(node.address)
    print(f"penstock is ready on {node.address}", flush=True)
    await stop.wait()
    return await _stopped(node)


async def _unless(stop: asyncio.Event, starting: Coroutine[Any, Any, None]) -> None:
    """Start, which may wait long for a quorum, unless it is told to stop before that."""
    tasks = [asyncio.create_task(starting), asyncio.create_task(stop.wait())]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for task in done:
        task.result()  # what made the start impossible is raised here


async def _stopped(node: Node) -> int:
    await node.stop(clean=node.sound)
    if node.failure is not None:
        print(f"penstock: stopped: {node.failure}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _words(problem: BaseException) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        where = f": {problem.filename}" if problem.filename else ""
        return f"{problem.strerror}{where}"
    return str(problem)

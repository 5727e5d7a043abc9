"""python -m tests.system.chaos --minutes N --seed S --report FILE"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.oracle.nodes import TARGETS
from tests.system.chaos import report
from tests.system.chaos.judge import judge
from tests.system.chaos.load import Load
from tests.system.chaos.run import Game
from tests.system.chaos.trio import Trio

PAUSE_LONG_GAME = 0.25
"""How long producers rest between ten records: a history must fit into memory."""


def main() -> int:
    """0: all is well; 1: a promise is broken, and the folder with the nodes' output is kept."""
    parser = argparse.ArgumentParser(description="Faults by chance over three real nodes")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--report", type=Path, help="a file for the report in Markdown")
    parser.add_argument("--target", choices=sorted(TARGETS), default="penstock")
    options = parser.parse_args()
    where = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    print(f"seed {options.seed}, {options.minutes:g} minutes, in {where}", flush=True)
    wrong, page = play(options.minutes, options.seed, where, options.target)
    if options.report is not None:
        options.report.write_text(page)
    print(page)
    if wrong:
        print(f"the nodes' output is in {where}")
        return 1
    shutil.rmtree(where)
    return 0


def play(minutes: float, seed: int, where: Path, target: str) -> tuple[bool, str]:
    """One whole game: whether something is wrong, and the page about it."""
    with (
        Trio(where, TARGETS[target]) as trio,
        Load(trio, where / "load", pause=PAUSE_LONG_GAME) as load,
    ):
        began = time.monotonic()
        game = Game(trio, load, seed, lambda line: say(began, line))
        with Progress(began, game):
            game.play(minutes * 60)
        say(began, "the faults are over: now the judge")
        history, found = judge(trio, load)
        told = report.Game(seed, minutes, game.played, history, [*game.problems, *found])
        return bool(told.wrong), report.markdown(told)


class Progress:
    """One line that changes, where somebody is looking."""

    def __init__(self, began: float, game: Game) -> None:
        self._began = began
        self._game = game
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def __enter__(self) -> None:
        if sys.stderr.isatty():
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _show(self) -> None:
        while not self._over.wait(1):
            played = self._game.played
            now = f"{played[-1].kind}: {played[-1].what}" if played else "starting"
            records = self._game.load.acknowledged
            line = f"{clock(self._began)}  {len(played)} faults, {records} acknowledged, {now}"
            print(f"\r\033[K{line[:100]}", end="", file=sys.stderr, flush=True)


def say(began: float, line: str) -> None:
    start = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{start}{clock(began)}  {line}", flush=True)


def clock(began: float) -> str:
    seconds = int(time.monotonic() - began)
    return f"{seconds // 60:3d}:{seconds % 60:02d}"


if __name__ == "__main__":
    sys.exit(main())

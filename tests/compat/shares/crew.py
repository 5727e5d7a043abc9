"""Members of one share group in several languages, and what they have noted so far."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from penstock.testing.history import Deliver, History, Operation
from penstock.testing.history.checks.shares import FINAL
from tests.compat.eos.fleet import Fleet, Nap, go_program, java_program
from tests.compat.share_crew import Shared

HERE = Path(__file__).parent
EACH = 2
PROGRESS_SECONDS_MAX = 90.0
UNDER_WAY_NANOS = 1_000_000_000
"""How long before a poll its client may have asked for what it brings."""
AWAKE_NANOS = 10_000_000_000
"""After that, a client that slept has handed out all that it held before."""


def commands(where: Path) -> dict[str, list[str]]:
    """Build the workers in a folder, and answer what runs those of each language."""
    return {
        "java": java_program(HERE / "ShareWorker.java", where),
        "go": go_program(HERE / "franz", where),
    }


def woken(operations: Iterable[Operation], naps: Iterable[Nap]) -> list[Operation]:
    """The same, but what a worker's client held when it fell asleep came before that: its program
    sees it only after it has woken up, and cannot tell."""
    told = list(operations)
    for nap in naps:
        for each in told:
            if (
                isinstance(each, Deliver)
                and each.client == nap.client
                and nap.began <= each.ended < nap.ended + AWAKE_NANOS
            ):
                each.began = min(each.began, nap.began - UNDER_WAY_NANOS)
    return told


class Squad:
    """The workers of one language. Their notes are read as they grow."""

    def __init__(self, language: str, command: list[str], words: list[str], where: Path) -> None:
        self.language = language
        where.mkdir()
        identities = [f"{language}-{number}" for number in range(EACH)]
        self.fleet = Fleet(command, words, identities, where)
        self.done: set[tuple[int, int]] = set()
        """What one of them accepted or rejected, whether or not an answer said that it counts."""
        self._read: dict[Path, int] = {}

    def look(self) -> None:
        """Read on in their notes, and start those again who could not go on."""
        self.fleet.revive()
        for path in self.fleet.histories:
            with open(path, "rb") as file:
                file.seek(self._read.get(path, 0))
                for data in file:
                    if data.endswith(b"\n"):  # or else it is being written, or never will be
                        self._read[path] = self._read.get(path, 0) + len(data)
                        line = json.loads(data)
                        if line.get("word") in FINAL:
                            self.done.add((line["partition"], line["offset"]))


class Crew:
    """All of them. Those that die, or seem to be dead, are followed by others."""

    def __init__(
        self, commands: dict[str, list[str]], shared: Shared, seed: int, where: Path
    ) -> None:
        words = [shared.bootstrap, shared.topic, shared.group, str(seed)]
        self.squads = [
            Squad(language, command, words, where / language)
            for language, command in commands.items()
        ]

    def start(self) -> None:
        for squad in self.squads:
            squad.fleet.start()

    def go_on(self, count: int) -> None:
        """Wait until workers of every language were done with so many more records."""
        wanted = {squad.language: len(squad.done) + count for squad in self.squads}
        self.wait_for(
            lambda: all(len(squad.done) >= wanted[squad.language] for squad in self.squads),
            f"{count} more by each",
        )

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while not holds():
            assert time.monotonic() < deadline, f"not in {PROGRESS_SECONDS_MAX:g} s: {what}\n{self}"
            time.sleep(0.1)
            for squad in self.squads:
                squad.look()

    def stop(self) -> None:
        for squad in self.squads:
            squad.fleet.stop()

    @property
    def lives(self) -> int:
        return sum(squad.fleet.lives for squad in self.squads)

    @property
    def history(self) -> History:
        """What all of them noted."""
        history = History.read(*(path for squad in self.squads for path in squad.fleet.histories))
        naps = [nap for squad in self.squads for nap in squad.fleet.naps]
        return History(woken(history.operations, naps))

    def __str__(self) -> str:
        return "\n".join(
            f"{squad.language}: {len(squad.done)} done with\n{squad.fleet.output()[-3000:]}"
            for squad in self.squads
        )

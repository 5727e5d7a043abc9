"""Workers in any language, started again however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.oracle import apache
from tests.oracle.nodes import REPOSITORY

HERE = Path(__file__).parent
NOTES = HERE.parent / "notes" / "Notes.java"
BUILD_SECONDS_MAX = 280
STOP_SECONDS_MAX = 30
CANNOT_GO_ON = (3, -signal.SIGALRM)
"""How a worker ends that wants another life."""


Language = Callable[[Path], list[str]]
"""Builds a worker in a folder, and answers the command that runs it."""


def confluent(_: Path) -> list[str]:
    """The command that runs the worker with confluent-kafka."""
    return [sys.executable, str(HERE / "worker.py")]


def franz(where: Path) -> list[str]:
    """The command that runs the worker with franz-go, which is built first."""
    return go_program(HERE / "franz", where)


def java(where: Path) -> list[str]:
    """The command that runs the worker with Apache's client, which is compiled first."""
    return java_program(HERE / "Worker.java", where)


def go_program(source: Path, where: Path) -> list[str]:
    """Build a folder's program into another one, and answer the command that runs it."""
    program = where / "franz"
    _build(["go", "build", "-o", str(program), "."], source, {"CGO_ENABLED": "0"})
    return [str(program)]


def java_program(source: Path, where: Path) -> list[str]:
    """Compile a program that takes notes, and answer the command that runs it."""
    libraries = apache.install() / "libs"
    sources = [str(source), str(NOTES)]
    _build(["javac", "-cp", f"{libraries}/*", "-d", str(where), *sources], HERE, {})
    command = apache.java(options=apache.JVM_SHORT)
    return [*command[:-1], f"{where}:{command[-1]}", source.stem]


def by_the_new_protocol(language: Language) -> Language:
    """The same workers in a group of the new protocol."""

    def command(where: Path) -> list[str]:
        return ["env", "GROUP_PROTOCOL=consumer", *language(where)]

    command.__name__ = f"{language.__name__}_by_the_new_protocol"
    return command


def _build(command: list[str], where: Path, environment: dict[str, str]) -> None:
    built = subprocess.run(
        command, cwd=where, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr


class Nap(NamedTuple):
    """When a worker did nothing at all, in nanoseconds of the clock."""

    client: str
    began: int
    ended: int


class Fleet:
    """Some workers of one group. Each has an identity for good, and a name for each life."""

    def __init__(self, command: list[str], words: list[str], identities: list[str], where: Path):
        self._command = command
        self._words = words
        self._where = where
        self._lives = dict.fromkeys(identities, 0)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._frozen: dict[subprocess.Popen[bytes], tuple[str, int]] = {}
        """With the names of their lives, and since when."""
        self._zombies: list[subprocess.Popen[bytes]] = []
        self.naps: list[Nap] = []

    def start(self) -> None:
        for identity in self._lives:
            self._begin(identity)

    def kill(self, number: int) -> None:
        """End one with SIGKILL and start its next life."""
        identity = list(self._lives)[number]
        process = self._running.pop(identity)
        process.kill()
        process.wait()
        self._begin(identity)

    def freeze(self, number: int) -> None:
        """Stop one in the middle of whatever it does, and start its next life."""
        identity = list(self._lives)[number]
        process = self._running.pop(identity)
        self._frozen[process] = self._name(identity), time.time_ns()
        process.send_signal(signal.SIGSTOP)
        self._begin(identity)

    def wake(self) -> None:
        """Let those who were frozen go on, as if nothing had happened."""
        for process, (name, since) in self._frozen.items():
            process.send_signal(signal.SIGCONT)
            self.naps.append(Nap(name, since, time.time_ns()))
        self._zombies += self._frozen
        self._frozen.clear()

    def revive(self) -> None:
        """Start the next life of those who could not go on."""
        for identity, process in list(self._running.items()):
            status = process.poll()
            if status is not None:
                assert status in CANNOT_GO_ON, f"{identity} ended with {status}:\n{self.output()}"
                self._begin(identity)

    def stop(self) -> None:
        """SIGTERM to all, and insist."""
        for process in (*self._frozen, *self._zombies):
            process.kill()
            process.wait()
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    @property
    def lives(self) -> int:
        return sum(self._lives.values())

    @property
    def histories(self) -> list[Path]:
        """The notes of all lives."""
        return sorted(self._where.glob("*.jsonl"))

    def output(self) -> str:
        """What they printed: why they could not go on.

        Without librdkafka's notes of what it does all the time.
        """
        path = self._where / "workers.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        lines = text.splitlines(keepends=True)
        return "".join(line for line in lines if "|HEARTBEAT|" not in line)

    def _name(self, identity: str) -> str:
        return f"{identity}.{self._lives[identity]}"

    def _begin(self, identity: str) -> None:
        self._lives[identity] += 1
        name = self._name(identity)
        words = [*self._words, identity, name, str(self._where / f"{name}.jsonl")]
        with open(self._where / "workers.log", "ab") as log:
            log.write(b"%s begins\n" % name.encode())
            log.flush()
            self._running[identity] = subprocess.Popen(
                [*self._command, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
            )

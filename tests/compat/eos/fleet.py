"""Workers in any language, started again however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.oracle import apache
from tests.oracle.nodes import REPOSITORY

HERE = Path(__file__).parent
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
    program = where / "franz"
    _build(["go", "build", "-o", str(program), "."], HERE / "franz", {"CGO_ENABLED": "0"})
    return [str(program)]


def java(where: Path) -> list[str]:
    """The command that runs the worker with Apache's client, which is compiled first."""
    libraries = apache.install() / "libs"
    _build(["javac", "-cp", f"{libraries}/*", "-d", str(where), "Worker.java"], HERE, {})
    command = apache.java(options=("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"))
    return [*command[:-1], f"{where}:{command[-1]}", "Worker"]


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


class Fleet:
    """Some workers of one group. Each has an identity for good, and a name for each life."""

    def __init__(self, command: list[str], words: list[str], identities: list[str], where: Path):
        self._command = command
        self._words = words
        self._where = where
        self._lives = dict.fromkeys(identities, 0)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._frozen: list[subprocess.Popen[bytes]] = []
        self._zombies: list[subprocess.Popen[bytes]] = []

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
        process.send_signal(signal.SIGSTOP)
        self._frozen.append(process)
        self._begin(identity)

    def wake(self) -> None:
        """Let those who were frozen go on, as if nothing had happened."""
        for process in self._frozen:
            process.send_signal(signal.SIGCONT)
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
        """What they printed: why they could not go on."""
        path = self._where / "workers.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _begin(self, identity: str) -> None:
        self._lives[identity] += 1
        name = f"{identity}.{self._lives[identity]}"
        words = [*self._words, identity, name, str(self._where / f"{name}.jsonl")]
        with open(self._where / "workers.log", "ab") as log:
            self._running[identity] = subprocess.Popen(
                [*self._command, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
            )

"""`penstock up` and `penstock server`: a node in a terminal."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.runner import SECONDS_MAX, Penstock

READY = re.compile(r"penstock is ready on (\S+):(\d+)")


class Running:
    """A node that was started by a command, with what it said on standard output so far."""

    def __init__(self, penstock: Penstock, *words: str) -> None:
        self.penstock = penstock
        self.process = subprocess.Popen(
            penstock.command(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=penstock.directory,
            env=penstock.environment,
            text=True,
        )

    def wait_ready(self) -> str:
        """The address in the ready line, which is the first on standard output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        ready = READY.match(line)
        assert ready is not None, self.end()
        return f"{ready[1]}:{ready[2]}"

    def end(self, signum: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Status, standard output and standard error after a signal, or after it ended itself."""
        if self.process.poll() is None:
            self.process.send_signal(signum)
        output, errors = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, output, errors


class Starter:
    """Starts nodes, and ends those that a test leaves behind."""

    def __init__(self, penstock: Penstock) -> None:
        self._penstock = penstock
        self._started: list[Running] = []

    def __call__(self, *words: str) -> Running:
        running = Running(self._penstock, *words)
        self._started.append(running)
        return running

    def close(self) -> None:
        for running in self._started:
            if running.process.returncode is None:
                running.end(signal.SIGKILL)


@pytest.fixture
def penstock(tmp_path: Path) -> Penstock:
    return Penstock(tmp_path)


@pytest.fixture
def start(penstock: Penstock) -> Iterator[Starter]:
    starter = Starter(penstock)
    yield starter
    starter.close()


pytestmark = pytest.mark.penstock_only


def test_up_says_when_it_is_ready_and_stops_cleanly(start: Starter, tmp_path: Path) -> None:
    node = start("up", "--port", "0")
    host, _, port = node.wait_ready().rpartition(":")
    assert host == "localhost"
    assert int(port) > 0
    assert (tmp_path / "penstock-data" / "meta.properties").exists()
    status, output, _ = node.end()
    assert (status, output) == (0, "")


def test_ctrl_c_stops_it_cleanly_too(start: Starter) -> None:
    node = start("up", "--port", "0")
    node.wait_ready()
    assert node.end(signal.SIGINT)[0] == 0


def test_data_is_there_again_the_next_time(start: Starter, penstock: Penstock, topic: str) -> None:
    for round_number in range(2):
        node = start("up", "--port", "0", "--data", "somewhere")
        address = node.wait_ready()
        if round_number == 0:
            penstock.out("topic", "create", topic, "-b", address)
            penstock.out("produce", topic, "-b", address, stdin="kept\n")
        assert penstock.out("consume", topic, "-b", address) == "kept\n"
        assert node.end()[0] == 0


def test_settings_can_be_given_on_the_command_line(
    start: Starter, penstock: Penstock, topic: str
) -> None:
    node = start("up", "-p", "0", "-c", "num.partitions=3")
    address = node.wait_ready()
    penstock.out("topic", "create", topic, "-b", address)
    listed = penstock.out("topic", "list", topic, "-b", address)
    assert listed.splitlines()[1].split()[1] == "3"


def test_a_setting_that_is_none_is_refused_with_the_nearest(penstock: Penstock) -> None:
    ran = penstock("up", "--port", "0", "-c", "num.partitons=3")
    assert ran.returncode == 2
    assert "num.partitions" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_port_that_is_taken_is_told_of(start: Starter, penstock: Penstock) -> None:
    port = start("up", "--port", "0").wait_ready().rpartition(":")[2]
    ran = penstock("up", "--port", port, "--data", "other")
    assert ran.returncode == 1
    assert port in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_second_node_on_the_same_data_is_refused_with_the_pid_of_the_first(
    start: Starter, penstock: Penstock
) -> None:
    first = start("up", "--port", "0")
    first.wait_ready()
    ran = penstock("up", "--port", "0")
    assert ran.returncode == 1
    assert str(first.process.pid) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_server_is_what_its_file_says_once_its_directory_is_formatted(
    start: Starter, penstock: Penstock, tmp_path: Path
) -> None:
    (tmp_path / "node.properties").write_text(
        "process.roles=broker,controller\n"
        "node.id=7\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=7@127.0.0.1:9093\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    refused = penstock("server", "node.properties")
    assert refused.returncode == 1
    assert "penstock storage format" in refused.stderr
    penstock.out("storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", "node.properties")
    node = start("server", "node.properties")
    address = node.wait_ready()
    described = penstock.out("cluster", "describe", "-b", address)
    assert described.splitlines()[-1].split()[0] == "7"
    assert node.end()[0] == 0


def test_a_file_with_mistakes_starts_nothing(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "node.properties").write_text("node.idd=7\n")
    ran = penstock("server", "node.properties")
    assert ran.returncode == 2
    assert "node.id" in ran.stderr
    missing = penstock("server", "missing.properties")
    assert missing.returncode == 2
    assert "missing.properties" in missing.stderr

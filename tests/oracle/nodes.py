"""One broker as a child process: Apache Kafka's or Penstock's, behind one face.

Both read the same server.properties, so that pointing a test or a benchmark at the other one is a
single parameter.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path

from penstock.testing.ports import free_ports
from tests.oracle import apache

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
START_SECONDS_MAX = 120.0  # a JVM takes its time on a busy machine
STOP_SECONDS_MAX = 60.0
REPOSITORY = Path(__file__).resolve().parents[2]

# A single node cannot replicate: without these Kafka's internal topics are never created.
_SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


_ALARMING = re.compile(r" (ERROR|CRITICAL|FATAL) |^Traceback|UNSUPPORTED_VERSION|UNKNOWN_SERVER")
_HARMLESS = re.compile(
    # The machine is slow; and a controller that was elected a moment ago is not active yet, which
    # Apache's calls unexpected in one line and explains in the next. A batch that overtook the one
    # before it, which came while nobody led yet, is sent again by its producer: whether it came to
    # its place is what the history of a test says. Apache's coordinator may hear from its log
    # that it leads no more, before the metadata say so; and a node of Apache's that stops throws
    # its meters away while it still answers.
    r"Exceptionally slow controller event|event queue overloaded|NotControllerException"
    r"|OutOfOrderSequenceException"
    r"|Writing records to \S+ failed.*NotLeaderOrFollowerException"
    r"|Exception when handling request.*RequestMetrics\$ErrorMeter"
)


class NodeFailed(RuntimeError):
    """A broker did not start, or did not stop, as it should have."""


class Node:
    """A broker with its own directory and port.

    `directory` holds the configuration, the output (`output.log`) and, unless told otherwise, the
    data. The port stays the same over restarts, so that clients find the node again.
    """

    name = ""

    def __init__(
        self,
        directory: Path,
        *,
        config: Mapping[str, str] | None = None,
        data: Path | None = None,
        port: int | None = None,
    ) -> None:
        self.directory = directory
        self.data = data or directory / "data"
        self.port, self.controller_port = (port, port + 1) if port else free_ports(2)
        self.config = dict(config or {})
        self.cluster_id = CLUSTER_ID
        self.format_words: tuple[str, ...] = ()  # further ones for the command that formats
        self.variables: dict[str, str] = {}  # of the process's environment
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0

    def __enter__(self) -> Node:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not running"
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start and wait until the node accepts connections."""
        self.launch()
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._accepts():
            if not self.running:
                raise NodeFailed(f"{self.name} ended while starting:\n{self.output()[-4000:]}")
            if time.monotonic() > deadline:
                self.kill()
                raise NodeFailed(f"{self.name} accepted nothing in {START_SECONDS_MAX} s")
            time.sleep(0.02)

    def launch(self) -> None:
        """Start the process and return at once; `started_at` is the moment before exec."""
        assert not self.running, f"{self.name} is already running"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.prepare()
        with open(self.directory / "output.log", "ab") as output:
            self.started_at = time.monotonic()
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**self.environment(), **self.variables},
                cwd=self.directory,
            )

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL: what a crash looks like to everyone else."""
        return self._end(signal.SIGKILL)

    def restart(self) -> None:
        if self.running:
            self.stop()
        self.start()

    def close(self) -> None:
        """Stop if running, and insist."""
        if not self.running:
            return
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()

    def output(self) -> str:
        """Everything that the node printed, over all its starts."""
        path = self.directory / "output.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def complaints(self) -> list[str]:
        """What the node printed that should not happen in any company."""
        lines = self.output().splitlines()
        return [
            f"{line}\n    {after}"
            for line, after in zip_longest(lines, lines[1:], fillvalue="")
            if _ALARMING.search(line) and not _HARMLESS.search(line + after)
        ]

    def properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}"
            f",CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            **_SINGLE_NODE,
            **self.config,
        }

    @property
    def properties_path(self) -> Path:
        return self.directory / "server.properties"

    def write_properties(self) -> None:
        lines = [f"{key}={value}\n" for key, value in self.properties().items()]
        self.properties_path.write_text("".join(lines))

    def prepare(self) -> None:
        """Whatever must be on disk before the process starts."""
        self.write_properties()

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _accepts(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def _end(self, signum: signal.Signals) -> int:
        assert self.process is not None, f"{self.name} is not running"
        self.process.send_signal(signum)
        status = self.process.wait(STOP_SECONDS_MAX)
        self.process = None
        return status


class ApacheNode(Node):
    """Apache Kafka, one combined KRaft node, with its defaults, in a JVM for a short life."""

    name = "Apache Kafka"

    def __init__(
        self,
        directory: Path,
        *,
        config: Mapping[str, str] | None = None,
        data: Path | None = None,
        port: int | None = None,
        heap: tuple[str, ...] = apache.HEAP_TESTS,
        options: tuple[str, ...] = apache.JVM_SHORT,
    ) -> None:
        super().__init__(directory, config=config, data=data, port=port)
        self.heap = heap
        self.options = options

    def prepare(self) -> None:
        self.write_properties()
        directories = self.properties()["log.dirs"].split(",")
        if all((Path(each) / "meta.properties").exists() for each in directories):
            return
        made = apache.run_tool(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            self.cluster_id,
            "-c",
            str(self.properties_path),
            "--ignore-formatted",  # a directory that was lost is formatted beside the others
            *self.format_words,
            options=self.options,
        )
        if made.returncode != 0:
            raise NodeFailed(f"Apache Kafka could not format {directories}: {made.stderr}")

    def command(self) -> list[str]:
        java = apache.java(heap=self.heap, options=self.options)
        return [*java, "kafka.Kafka", str(self.properties_path)]


class PenstockNode(Node):
    """Penstock out of this checkout."""

    name = "Penstock"

    def prepare(self) -> None:
        self.write_properties()
        directories = self.properties()["log.dirs"].split(",")
        if not all((Path(each) / "meta.properties").exists() for each in directories):
            format_penstock(self.properties_path, self.cluster_id, *self.format_words)

    def command(self) -> list[str]:
        return [sys.executable, "-m", "penstock", "server", str(self.properties_path)]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "PYTHONUNBUFFERED": "1"}


def format_penstock(properties: Path, cluster_id: str, *words: str) -> None:
    """Format a node's directories, unless they are; `words` are further ones for the command."""
    from penstock.cli.main import run

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = run(["storage", "format", "-g", "-t", cluster_id, "-c", str(properties), *words])
    if status != 0:
        raise NodeFailed(f"Penstock could not format: {said.getvalue()}")


TARGETS: dict[str, type[Node]] = {"apache": ApacheNode, "penstock": PenstockNode}

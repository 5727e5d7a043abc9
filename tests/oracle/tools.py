"""Apache Kafka's command-line tools, run one after another in one warm JVM."""

from __future__ import annotations

import base64
import contextlib
import select
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.oracle import apache

_RUNNER = Path(__file__).with_name("ToolRunner.java")


class ToolResult(NamedTuple):
    """What a tool did: its exit status and all that it printed."""

    status: int
    out: str
    err: str


class Tools:
    """A JVM that runs the tools' main classes on request (see ToolRunner.java).

    A tool that exceeds its time takes the JVM with it; the next call starts another. `options` are
    further ones of the JVM.
    """

    def __init__(self, *options: str) -> None:
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, name: str, *arguments: str, stdin: str = "", seconds_max: float = 60
    ) -> ToolResult:
        """Run `name` (TopicCommand, kafka.admin.ConfigCommand, ...) with its arguments."""
        if "." not in name:
            name = f"org.apache.kafka.tools.{name}"
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        words = [base64.b64encode(word.encode()) for word in (stdin, name, *arguments)]
        process.stdin.write(b"i" + b" ".join(words) + b"\n")
        process.stdin.flush()
        answered = select.poll()  # not select(), which knows no descriptor above 1023
        answered.register(process.stdout, select.POLLIN)
        if not answered.poll(seconds_max * 1000):
            self.close()
            raise TimeoutError(f"{name} {' '.join(arguments)} took more than {seconds_max} s")
        answer = process.stdout.readline().split()
        if len(answer) != 3:
            self.close()
            raise RuntimeError(f"the tools' JVM died in {name} {' '.join(arguments)}")
        out, err = (base64.b64decode(word[1:]).decode(errors="replace") for word in answer[1:])
        return ToolResult(int(answer[0]), out, err)

    def check(self, name: str, *arguments: str, stdin: str = "", seconds_max: float = 60) -> str:
        """Run a tool that must succeed, and return what it printed on stdout."""
        result = self.run(name, *arguments, stdin=stdin, seconds_max=seconds_max)
        assert result.status == 0, f"{name} ended with {result.status}:\n{result.out}{result.err}"
        return result.out

    def close(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            options = (*apache.JVM_SHORT, *self._options)
            self._process = subprocess.Popen(
                [*apache.java(options=options), str(_RUNNER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._process

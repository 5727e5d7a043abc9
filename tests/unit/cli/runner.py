"""Running the command as a user's shell would."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

SOURCE = Path(__file__).resolve().parents[3] / "src"
SECONDS_MAX = 60


class Penstock:
    """The `penstock` command in a directory, pointed at a cluster if there is one."""

    def __init__(self, directory: Path, bootstrap: str | None = None) -> None:
        self.directory = directory
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        for name in ("PENSTOCK_BOOTSTRAP", "PENSTOCK_PROFILE", "PENSTOCK_COMMAND_CONFIG"):
            self.environment.pop(name, None)
        if bootstrap is not None:
            self.environment["PENSTOCK_BOOTSTRAP"] = bootstrap

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "penstock", *words]

    def __call__(self, *words: str, stdin: str | bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run to the end; the status and what was printed."""
        ran = subprocess.run(
            self.command(*words),
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=self.directory,
            env=self.environment,
            timeout=SECONDS_MAX,
        )
        return subprocess.CompletedProcess(
            ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
        )

    def out(self, *words: str, stdin: str | bytes = b"") -> str:
        """What a command that succeeds prints on standard output."""
        ran = self(*words, stdin=stdin)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start it, and leave it running."""
        return subprocess.Popen(
            self.command(*words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.directory,
            env=self.environment,
            preexec_fn=_hear_interrupts,
        )


def _hear_interrupts() -> None:
    """Whoever runs tests in a shell's background has told them to ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class InProcess(Penstock):
    """The same in this process, for tests of many commands: none waits for its imports again."""

    def __call__(self, *words: str, stdin: str | bytes = b"") -> subprocess.CompletedProcess[str]:
        from penstock.cli.main import run

        assert not stdin, "standard input is this process' own"
        out, error = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment, clear=True),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(error),
        ):
            status = run(words)
        return subprocess.CompletedProcess(list(words), status, out.getvalue(), error.getvalue())

"""A PostgreSQL of this test process: its own folder, its own port, gone afterwards."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.ports import free_ports

USER = "penstock"
PASSWORD = "open-sesame"
START_SECONDS_MAX = 60.0
QUICK = {
    # What a test writes need not outlive the machine, only the server.
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "40",
}


class Postgres:
    """A database server that clients reach over TCP with a password, and `query` as its owner."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self._programs = programs
        self._owner = _owner(folder)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of the database `shop`, for JDBC."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/shop"

    def start(self) -> None:
        settings = [part for key, value in QUICK.items() for part in ("-c", f"{key}={value}")]
        command: list[str | Path] = [
            self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder,
            "-h", "127.0.0.1", "-p", str(self.port), *settings,
        ]  # fmt: skip
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, user=self._owner
            )
        due = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if time.monotonic() > due or self._process.poll() is not None:
                raise RuntimeError(
                    f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}"
                )
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: in good order, or with SIGQUIT at once and without a checkpoint."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def query(self, sql: str, *, database: str = "shop") -> list[tuple[str, ...]]:
        """The rows of a statement, every value as text."""
        done = subprocess.run(
            [*self._psql(database), "-c", sql],
            capture_output=True,
            text=True,
            timeout=60,
            user=self._owner,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [tuple(line.split("\x1f")) for line in done.stdout.splitlines()]

    def make(self) -> None:
        """Make the server's folder and the database, and leave it running."""
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        subprocess.run(
            [
                self._programs / "initdb", "-D", self.folder / "data", "-U", USER, "-N",
                "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={password}",
                "--encoding=UTF8", "--locale=C",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            user=self._owner,
        )  # fmt: skip
        self.start()
        self.query("CREATE DATABASE shop", database="postgres")

    def _answers(self) -> bool:
        asked: list[str | Path] = [
            self._programs / "pg_isready",
            "-q",
            "-h",
            self.folder,
            "-p",
            str(self.port),
        ]
        return subprocess.run(asked, timeout=10).returncode == 0

    def _psql(self, database: str) -> list[str]:
        return [
            str(self._programs / "psql"), "-h", str(self.folder), "-p", str(self.port),
            "-U", USER, "-X", "-A", "-t", "-q", "-F", "\x1f", "-v", "ON_ERROR_STOP=1", database,
        ]  # fmt: skip


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One PostgreSQL for all tests of this process; its tables are theirs to name apart."""
    programs = find_programs()
    if programs is None:
        missing = "no PostgreSQL here (Debian's package postgresql)"
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI runs every test, but: {missing}", pytrace=False)
        pytest.skip(missing)
    # Not pytest's own folder: another user has to pass through it, and a socket's path is short.
    folder = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
    server = Postgres(folder, programs)
    try:
        server.make()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def find_programs() -> Path | None:
    """The folder with the server's programs: on PATH, or where Debian puts them."""
    places = [os.path.dirname(os.path.realpath(shutil.which("initdb") or ""))]
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    needed = ("initdb", "postgres", "pg_isready", "psql")
    for place in map(Path, places):
        if all((place / program).exists() for program in needed):
            return place
    return None


def _owner(folder: Path) -> str | None:
    """Whom the server runs as: it refuses to be root, so root gives the folder to another user."""
    if os.geteuid() != 0:
        return None
    user = "nobody"
    shutil.chown(folder, user)
    return user

"""A real broker for a test: its own process, its own port, its own data, gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from typing import IO, Any

READY = "penstock is ready on "
PLAINTEXT = "PLAINTEXT"
LOG_LINES_MAX = 10_000
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0


class BrokerFailed(RuntimeError):
    """A broker did not start, or ended when nobody had asked it to; the message has its output."""


class Broker:
    """A Penstock broker that lives as long as a `with` block.

        with Broker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    `async with` works as well. It takes a free port, and keeps it over restarts, so that clients
    find it again. `config` holds broker settings, such as `{"num.partitions": "3"}`. Data lives in
    a temporary directory that is removed at the end; `data` names a directory to keep. With a
    `protocol` such as SASL_SSL its listener bears that name and asks for that proof; what to prove
    is up to `config`.

    A `secure` one asks for TLS and a login, and for rights, as `penstock up --secure` does.
    `client_settings` has what its admin needs to come in.

    To see how your code takes a crash: `kill()`, then `start()`. When the process that made the
    broker dies, the broker ends too.
    """

    COMMAND = (sys.executable, "-m", "penstock.testing.child")

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        *,
        data: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        protocol: str = PLAINTEXT,
        secure: bool = False,
        start_seconds_max: float = START_SECONDS_MAX,
    ) -> None:
        self.config = dict(config or {})
        self.host = host
        self.port = port
        self.protocol = protocol
        self.secure = secure
        self._kept = data is not None
        self._data = None if data is None else os.fspath(data)
        self._start_seconds_max = start_seconds_max
        self._process: subprocess.Popen[str] | None = None
        self._output: _Output | None = None
        self._lines: deque[str] = deque(maxlen=LOG_LINES_MAX)

    @property
    def bootstrap_servers(self) -> str:
        """What a client's `bootstrap.servers` wants."""
        if not self.port:
            raise BrokerFailed("the broker has no port yet: start it first")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def client_settings(self) -> dict[str, str]:
        """Settings of a client of librdkafka's; those of the admin where the broker is `secure`."""
        settings = {"bootstrap.servers": self.bootstrap_servers}
        if not self.secure:
            return settings
        from penstock.app.secure import client_settings

        return settings | client_settings(self.data)

    @property
    def data(self) -> str:
        """The directory that holds the data."""
        if self._data is None:
            self._data = tempfile.mkdtemp(prefix="penstock-")
        return self._data

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether the broker's process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The last 10,000 lines that the broker printed, over all its starts."""
        return "".join(self._lines)

    def start(self) -> None:
        """Start, and return when the broker takes requests."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Start, and do not wait: brokers that need each other are begun together."""
        if self.running:
            raise BrokerFailed(f"the broker is running already, with pid {self.pid}")
        settings = [f"{key}={value}" for key, value in self._settings().items()]
        keep = "keep" if self._kept else "drop"
        guard = "secure" if self.secure else "open"
        self._process = subprocess.Popen(
            [*self.COMMAND, self.host, str(self.port), self.data, keep, guard, *settings],
            stdin=subprocess.PIPE,  # held and never written: see penstock.testing.child
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C is for the tests; they end the broker in their time
        )
        assert self._process.stdout is not None
        self._output = _Output(self._process.stdout, self._lines)

    def _settings(self) -> dict[str, str]:
        if self.protocol == PLAINTEXT:
            return self.config
        host = f"[{self.host}]" if ":" in self.host else self.host
        listener = f"{self.protocol}://{host}:{self.port}"
        return {
            "listeners": f"{listener},CONTROLLER://localhost:0",
            "advertised.listeners": listener,
            **protocol_settings(self.protocol, PLAINTEXT),
            **self.config,
        }

    def wait_ready(self) -> None:
        """Return when a broker that was begun takes requests."""
        assert self._output is not None, "begin comes first"
        address = self._output.wait_ready(self._start_seconds_max)
        if address is None:
            problem = (
                "ended" if self._output.ended else f"took {self._start_seconds_max:g} s and more"
            )
            self._end(signal.SIGKILL)
            raise self._failure(f"the broker {problem} before it was ready")
        self.port = int(address.rpartition(":")[2])

    def stop(self) -> None:
        """Stop it in an orderly way, as SIGTERM does; the data stays."""
        self._running()
        try:
            status = self._end(signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self._end(signal.SIGKILL)
            raise self._failure(f"the broker did not stop within {STOP_SECONDS_MAX:g} s") from None
        if status != 0:
            raise self._failure(f"the broker stopped with status {status}")

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would; the data stays."""
        self._running()
        self._end(signal.SIGKILL)

    def reap(self) -> None:
        """Collect a process that somebody else has ended, and what it still printed."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start again, with the same data, on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it if it runs, and remove its data unless it was to be kept."""
        try:
            if self._process is not None:
                self.stop()
        finally:
            if not self._kept and self._data is not None:
                shutil.rmtree(self._data, ignore_errors=True)
                self._data = None

    def __enter__(self) -> Broker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        try:
            self.close()
        except BrokerFailed as failure:
            if problem is None:
                raise
            problem.add_note(str(failure))  # what went wrong in the block matters more

    async def __aenter__(self) -> Broker:
        import asyncio

        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *raised: Any) -> None:
        import asyncio

        await asyncio.to_thread(self.__exit__, *raised)

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.running else "not running"
        return f"<Broker {self.host}:{self.port}, {state}>"

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise BrokerFailed("the broker is not running: start it first")
        status = self._process.poll()
        if status is not None:
            self._end(signal.SIGKILL)
            raise self._failure(f"the broker had ended by itself, with status {status}")
        return self._process

    def _end(self, signum: signal.Signals) -> int:
        """Send a signal, and collect the process and all that it still printed."""
        process, output = self._process, self._output
        assert process is not None and output is not None
        process.send_signal(signum)
        status = process.wait(STOP_SECONDS_MAX)
        output.finish()
        if process.stdin is not None:
            process.stdin.close()
        self._process = None
        return status

    def _failure(self, problem: str) -> BrokerFailed:
        return BrokerFailed(f"{problem}\n{self.log[-8000:] or '(it printed nothing)'}")


def protocol_settings(protocol: str, controller_protocol: str) -> dict[str, str]:
    """Which proof listeners ask for: the brokers' bears the protocol's name."""
    if protocol == controller_protocol == PLAINTEXT:
        return {}
    return {
        "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:{controller_protocol}",
        "inter.broker.listener.name": protocol,
    }


class _Output:
    """Takes in what a process prints, so that it never blocks, and looks for the ready line."""

    def __init__(self, stream: IO[str], lines: deque[str]) -> None:
        self._stream = stream
        self._lines = lines
        self._settled = threading.Event()
        self._address: str | None = None
        self.ended = False
        self._thread = threading.Thread(target=self._drain, name="broker output", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        for line in self._stream:
            self._lines.append(line)
            if line.startswith(READY):
                self._address = line.removeprefix(READY).split()[0]
                self._settled.set()
        self.ended = True
        self._settled.set()

    def wait_ready(self, seconds_max: float) -> str | None:
        """The address of the ready line; None if it did not come."""
        self._settled.wait(seconds_max)
        return self._address

    def finish(self) -> None:
        self._thread.join(STOP_SECONDS_MAX)
        self._stream.close()

"""The proxy cuts, slows and tears what it should, and nothing else."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.testing.proxy import CLEAR, CUT, DEAF, MUTE, Conditions, Proxy, owner_of

SECONDS_MAX = 10.0
SOON = 0.3


class Echo:
    """Answers everything with itself, and remembers what it heard."""

    def __init__(self) -> None:
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65_536):
                self.heard += data
                connection.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as running:
        yield running


def call(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), SECONDS_MAX)


def hears(connection: socket.socket, seconds: float) -> bytes | None:
    """What comes within this time; None: nothing."""
    connection.settimeout(seconds)
    try:
        return connection.recv(65_536)
    except TimeoutError:
        return None


def is_refused(port: int) -> bool:
    """Whether a new connection is reset, be it at once or a moment later."""
    try:
        with call(port) as client:
            hears(client, SECONDS_MAX)
            return False
    except ConnectionResetError:
        return True


def test_bytes_pass_in_both_directions(echo: Echo, proxy: Proxy) -> None:
    with call(proxy.forward("echo", "127.0.0.1", echo.port)) as client:
        client.sendall(b"hello")
        assert hears(client, SECONDS_MAX) == b"hello"
        assert proxy.connections("client", "echo") == 1


def test_a_cut_holds_bytes_and_healing_delivers_them(echo: Echo, proxy: Proxy) -> None:
    with call(proxy.forward("echo", "127.0.0.1", echo.port)) as client:
        proxy.set("client", "echo", CUT)
        client.sendall(b"late")
        assert hears(client, SOON) is None
        assert echo.heard == b""
        proxy.set("client", "echo", CLEAR)
        assert hears(client, SECONDS_MAX) == b"late"


def test_a_deaf_road_loses_questions_and_a_mute_one_only_answers(echo: Echo, proxy: Proxy) -> None:
    with call(proxy.forward("echo", "127.0.0.1", echo.port)) as client:
        proxy.set("client", "echo", DEAF)
        client.sendall(b"one ")
        assert hears(client, SOON) is None
        assert echo.heard == b""
        proxy.set("client", "echo", MUTE)
        assert hears(client, SOON) is None
        assert echo.heard == b"one "
        proxy.clear()
        assert hears(client, SECONDS_MAX) == b"one "


def test_a_connection_that_begins_during_a_cut_is_silent_until_it_heals(
    echo: Echo, proxy: Proxy
) -> None:
    port = proxy.forward("echo", "127.0.0.1", echo.port)
    proxy.set("client", "echo", CUT)
    with call(port) as client:
        client.sendall(b"anybody?")
        assert hears(client, SOON) is None
        proxy.clear()
        assert hears(client, SECONDS_MAX) == b"anybody?"


def test_who_closes_during_a_cut_tells_nobody_and_its_last_words_arrive_after_it(
    echo: Echo, proxy: Proxy
) -> None:
    port = proxy.forward("echo", "127.0.0.1", echo.port)
    with call(port) as client:
        client.sendall(b"a")
        assert hears(client, SECONDS_MAX) == b"a"
        proxy.set("client", "echo", CUT)
        client.sendall(b"b")
    time.sleep(SOON)
    assert (echo.heard, proxy.connections("client", "echo")) == (b"a", 1)
    proxy.clear()
    deadline = time.monotonic() + SECONDS_MAX
    while (echo.heard, proxy.connections("client", "echo")) != (b"ab", 0):
        assert time.monotonic() < deadline, echo.heard
        time.sleep(0.01)


def test_a_reset_breaks_what_there_is_and_a_refusal_what_begins(echo: Echo, proxy: Proxy) -> None:
    port = proxy.forward("echo", "127.0.0.1", echo.port)
    with call(port) as client:
        client.sendall(b"x")
        assert hears(client, SECONDS_MAX) == b"x"
        proxy.set("client", "echo", Conditions(refuse=True))
        proxy.reset("client", "echo")
        with pytest.raises(ConnectionResetError):
            hears(client, SECONDS_MAX)
    assert is_refused(port)


def test_a_destination_without_a_listener_looks_like_a_reset(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    assert is_refused(proxy.forward("nobody", "127.0.0.1", nobody))


def test_delay_and_throttle_take_their_time(echo: Echo, proxy: Proxy) -> None:
    with call(proxy.forward("echo", "127.0.0.1", echo.port)) as client:
        for slow in (Conditions(delay_seconds=0.1), Conditions(bytes_per_second=50)):
            proxy.set("client", "echo", slow)
            began = time.monotonic()
            client.sendall(b"12345")
            assert hears(client, SECONDS_MAX) == b"12345"
            assert time.monotonic() - began >= 0.19


def test_roads_of_two_sources_to_one_port_are_told_apart(echo: Echo) -> None:
    program = (
        "import socket, sys\n"
        "with socket.create_connection(('127.0.0.1', int(sys.stdin.readline()))) as s:\n"
        "    s.sendall(b'from a process')\n"
        "    print(s.recv(100), flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    pids = {"me": os.getpid(), "child": child.pid}
    with Proxy(lambda port, to: owner_of(port, to, pids)) as proxy:
        port = proxy.forward("echo", "127.0.0.1", echo.port)
        proxy.set("me", "echo", CUT)
        child.stdin.write(f"{port}\n")
        child.stdin.flush()
        assert child.stdout.readline() == "b'from a process'\n"
        child.wait(SECONDS_MAX)
        with call(port) as client:
            client.sendall(b"from here")
            assert hears(client, SOON) is None
            proxy.clear()
            assert hears(client, SECONDS_MAX) == b"from here"
    child.stdin.close()
    child.stdout.close()

"""Floods: what they cost a node in memory, and those who work in time.

Each attack comes from a process of its own while a client that has logged in writes, one request
after the other. PENSTOCK_FLOOD_SECONDS and PENSTOCK_FLOOD_CONNECTIONS make the attacks longer and
larger.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.security.jaas import PLAIN_MODULE
from penstock.testing import Broker
from tests.oracle import wire
from tests.oracle.nodes import REPOSITORY
from tests.system.flooding import TOPIC

SECONDS = float(os.environ.get("PENSTOCK_FLOOD_SECONDS", "1.2"))
CONNECTIONS = int(os.environ.get("PENSTOCK_FLOOD_CONNECTIONS", "10000"))

SLOWER_MAX = 5
"""How much longer than in quiet the slowest of a hundred requests may take."""

NOISE_MS = 10.0
"""What the machine itself may add to one request in a hundred: attacker, node and client share
it, where in life they would not."""

RSS_MB_MAX = 200
"""The bound on the memory of a small node under any of these attacks: some 60 MB of its own, 64 MB
for frames of strangers and as much for what lies beside them, 12 KB for each of ten thousand
connections."""

QUIET_REQUESTS = 400
REQUESTS_MIN = 60
ATTEMPTS = 3
"""Something else may be busy beside an attack; beside three of them it hardly is."""

SASL_AUTHENTICATE = 36


class Client(wire.Wire):
    """A client that writes; logged in, where one has to be."""

    def __init__(self, broker: Broker, user: str = "") -> None:
        super().__init__(broker.port, 30)
        if user:
            self.call(17, 1, wire.string("PLAIN"))
            token = f"\0{user}\0{user}-secret".encode()
            answer = self.call(SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
            assert answer.int16() == 0
        assert wire.create_topic(self, TOPIC) == 0
        for _ in range(5):
            assert wire.produce(self, TOPIC, wire.batch([bytes(800_000)])).error == 0
        self._batch = wire.batch([bytes(100)])

    def times_ms(self, count: int = 0, until: float = 0.0) -> list[float]:
        """How long each of so many requests took, or of those before a time."""
        times: list[float] = []
        while len(times) < count or time.monotonic() < until:
            began = time.perf_counter()
            assert wire.produce(self, TOPIC, self._batch).error == 0
            times.append((time.perf_counter() - began) * 1000)
            time.sleep(0.001)
        return times


def p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def rss_mb(broker: Broker) -> float:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


@contextlib.contextmanager
def attacked(broker: Broker, kind: str, count: int, seconds: float = SECONDS) -> Iterator[None]:
    """An attack is under way; it is over when this is."""
    words = [kind, str(broker.port), str(count), str(seconds)]
    attacker = subprocess.Popen(
        [sys.executable, "-m", "tests.system.flooding", *words],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    with attacker:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == "attacking\n"
        yield
        attacker.terminate()  # unless it is over already


def withstand(broker: Broker, client: Client, kind: str, count: int) -> None:
    """Work through an attack: as fast as it should be, and in as little memory."""
    reports: list[str] = []
    for _ in range(ATTEMPTS):
        quiet = p99(client.times_ms(count=QUIET_REQUESTS))
        with attacked(broker, kind, count):
            times = client.times_ms(count=REQUESTS_MIN, until=time.monotonic() + SECONDS * 0.8)
        loud, memory = p99(times), rss_mb(broker)
        reports.append(
            f"{kind}: p99 {quiet:.1f} ms in quiet, {loud:.1f} ms under attack ({len(times)} "
            f"requests), {memory:.0f} MB"
        )
        print(reports[-1])
        assert memory < RSS_MB_MAX, reports
        if loud <= SLOWER_MAX * quiet + NOISE_MS:
            return
    pytest.fail(f"too slow: {reports}")


@pytest.fixture(scope="module", autouse=True)
def many_files() -> Iterator[None]:
    """Let brokers of these tests open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """A broker that asks who is there."""
    config = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required user_admin="admin-secret";',
    }
    with Broker(config, protocol="SASL_PLAINTEXT") as running:
        yield running


@pytest.fixture(scope="module")
def known(guarded: Broker) -> Iterator[Client]:
    with Client(guarded, "admin") as client:
        client.times_ms(count=200)  # what is imported at the first request is imported now
        yield client


@pytest.fixture(scope="module")
def open_to_all() -> Iterator[Broker]:
    """A broker for everybody, with room for ten thousand connections of one address."""
    room = str(CONNECTIONS + 100)
    with Broker({"max.connections": room, "max.connections.per.ip": room}) as running:
        yield running


@pytest.fixture(scope="module")
def anybody(open_to_all: Broker) -> Iterator[Client]:
    with Client(open_to_all) as client:
        client.times_ms(count=200)
        yield client


@pytest.mark.parametrize("kind", ["storm", "garbage", "heads", "unfinished", "handshakes"])
def test_strangers_hold_nobody_up_and_fill_no_memory(
    guarded: Broker, known: Client, kind: str
) -> None:
    withstand(guarded, known, kind, 500)


@pytest.mark.parametrize(("kind", "count"), [("storm", 1000), ("trickle", 1000), ("deaf", 50)])
def test_clients_of_an_open_node_hold_nobody_up_and_fill_no_memory(
    open_to_all: Broker, anybody: Client, kind: str, count: int
) -> None:
    withstand(open_to_all, anybody, kind, count)


def test_ten_thousand_connections_leave_time_and_memory_for_those_who_work(
    open_to_all: Broker, anybody: Client
) -> None:
    quiet = p99(anybody.times_ms(count=QUIET_REQUESTS))
    before = rss_mb(open_to_all)
    began = time.monotonic()
    with attacked(open_to_all, "idle", CONNECTIONS, 60):
        while held(open_to_all) < CONNECTIONS:
            anybody.times_ms(count=10)
            assert time.monotonic() - began < 50, f"{held(open_to_all)} connections"
        loud = min(p99(anybody.times_ms(count=QUIET_REQUESTS)) for _ in range(ATTEMPTS))
    memory = rss_mb(open_to_all)
    print(f"{CONNECTIONS} connections: {memory:.0f} MB, {memory - before:.0f} MB of it for them")
    assert memory < RSS_MB_MAX
    assert loud <= SLOWER_MAX * quiet + NOISE_MS, (quiet, loud)


def held(broker: Broker) -> int:
    """Sockets that the broker's process has."""
    folder = f"/proc/{broker.pid}/fd"
    count = 0
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            count += os.readlink(f"{folder}/{name}").startswith("socket:")
    return count

"""Ports are given to one process at a time, and are free."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from penstock.testing import ports

OTHER = """
from penstock.testing import ports
ports.PORT_FIRST, ports.PORT_LAST = {first}, {last}
print(*ports.free_ports({count}), flush=True)
input()
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """A range so small that chance alone would soon give one twice."""
    first = ports.free_ports(1)[0] % 10_000 + 20_000
    monkeypatch.setattr(ports, "PORT_FIRST", first)
    monkeypatch.setattr(ports, "PORT_LAST", first + 199)
    return first, first + 199


def test_no_two_processes_are_given_the_same(few: tuple[int, int]) -> None:
    program = OTHER.format(first=few[0], last=few[1], count=15)
    others = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        given = [int(port) for other in others for port in _line(other).split()]
        given += ports.free_ports(15)
        assert len(set(given)) == 45
    finally:
        for other in others:
            other.communicate("\n")
    # What they had is free again now that they are gone.
    assert set(ports.free_ports(40)) & set(given[:30])


def test_a_port_that_somebody_listens_on_is_not_given(few: tuple[int, int]) -> None:
    listening = [socket.socket() for _ in range(10)]
    try:
        taken = ports.free_ports(10)
        for sock, port in zip(listening, taken, strict=True):
            sock.bind((ports.HOST, port))
            sock.listen()
        ports._given.difference_update(taken)
        assert not set(ports.free_ports(60)) & set(taken)
    finally:
        for sock in listening:
            sock.close()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()

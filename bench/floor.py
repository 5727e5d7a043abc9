"""What the kernel alone takes to send files: the least that any broker on it could need.

A process that does nothing else sends files with `sendfile` to a reader that throws all of it
away. Whatever a broker takes beyond that for the same bytes is its own.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

from tests.oracle.nodes import REPOSITORY

SLICE_BYTES = 1 << 20
"""Sent in one call: what librdkafka asks for of a partition."""
UNSENT_BYTES_MAX = 48 * 1024
"""The best of what was tried (docs/decisions/0028-unpaced.md)."""
SECONDS_MAX = 60


def sending(paths: Sequence[Path]) -> float:
    """CPU seconds of a process for sending the contents of some files to another."""
    came: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        reader = Thread(target=_read, args=(server, came))
        reader.start()
        ran = subprocess.run(
            [sys.executable, "-m", "bench.floor", str(server.getsockname()[1]), *map(str, paths)],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
        )  # fmt: skip
        reader.join()
    sizes = sum(path.stat().st_size for path in paths)
    if sum(came) != sizes:
        raise RuntimeError(f"{sum(came)} bytes came, of {sizes}")
    return float(ran.stdout)


def _read(server: socket.socket, came: list[int]) -> None:
    server.settimeout(SECONDS_MAX)
    client, _ = server.accept()
    room = bytearray(SLICE_BYTES)
    with client:
        while count := client.recv_into(room):
            came.append(count)


def _send(port: int, paths: Sequence[str]) -> float:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
        sock.setblocking(False)
        room = select.poll()
        room.register(sock, select.POLLOUT)
        files = [os.open(path, os.O_RDONLY) for path in paths]
        begin = time.process_time()
        for file in files:
            at, end = 0, os.fstat(file).st_size
            while at < end:
                try:
                    at += os.sendfile(sock.fileno(), file, at, min(SLICE_BYTES, end - at))
                except BlockingIOError:
                    room.poll()
        return time.process_time() - begin


if __name__ == "__main__":
    print(_send(int(sys.argv[1]), sys.argv[2:]))

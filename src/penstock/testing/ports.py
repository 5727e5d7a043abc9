"""Ports for the nodes of tests: none is given twice, by whichever process of this user.

Many tests run side by side in processes of their own, and a node takes its port some time after it
was chosen, or leaves it for a while when it is killed. Who was given it meanwhile would talk to the
other's node. So each port is a byte of one file that its process has locked until it ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket

from penstock.platform.chance import SystemChance

HOST = "127.0.0.1"
PORT_FIRST, PORT_LAST = 15_000, 32_000
"""Below those that the kernel gives to whoever connects."""

_given: set[int] = set()
_locks: list[int] = []  # the descriptor of the file, once it is open; closing it would free all


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, kept for this process. A stranger may still be quicker."""
    chance = SystemChance()
    found: list[int] = []
    while len(found) < count:
        port = chance.between(PORT_FIRST, PORT_LAST)
        if port not in _given and _lock(port):
            if _is_free(port):
                _given.add(port)
                found.append(port)
            else:
                _unlock(port)
    return found


def _lock(port: int) -> bool:
    try:
        fcntl.lockf(_descriptor(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError as problem:
        if problem.errno in (errno.EAGAIN, errno.EACCES):
            return False  # another process has it
        raise
    return True


def _unlock(port: int) -> None:
    fcntl.lockf(_descriptor(), fcntl.LOCK_UN, 1, port)


def _descriptor() -> int:
    if not _locks:
        # Not where TMPDIR says: that may be another place for each process.
        path = f"/tmp/penstock-ports-{os.getuid()}"
        _locks.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    return _locks[0]


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        try:
            sock.bind((HOST, port))
        except OSError:
            return False
        return True

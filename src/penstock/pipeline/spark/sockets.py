"""Sockets between Spark's Java and its Python workers, where only this user can open them.

Over TCP each task waits for 40 ms: Java holds back what it has to send until what it sent is
acknowledged, and the other side waits for more before it does that. Whoever can open a Unix socket
is trusted, so they lie in a folder of the user's own.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from penstock.pipeline.spark.cache import cache_folder

PATH_BYTES_MAX = 103  # of a socket's address, on the stricter of Linux and macOS
NAME_BYTES = len("/.00000000-0000-0000-0000-000000000000.sock")
LEFT_SECONDS_MIN = 3600
"""A socket that nobody listens to is left over, unless it is about to be listened to."""


def socket_settings() -> dict[str, str]:
    """Settings that make Spark use such sockets; none where there is no place for them."""
    folder = cache_folder() / "sockets"
    if len(os.fsencode(folder)) + NAME_BYTES > PATH_BYTES_MAX:
        return {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError:
        return {}  # TCP serves as well, if not as fast
    sweep(folder)
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
    }


def sweep(folder: Path) -> None:
    """Remove what processes left that were killed."""
    for path in folder.glob("*.sock"):
        try:
            if time.time() - path.stat().st_mtime > LEFT_SECONDS_MIN and not _is_open(path):
                path.unlink()
        except FileNotFoundError:
            continue  # its owner was faster


def _is_open(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0

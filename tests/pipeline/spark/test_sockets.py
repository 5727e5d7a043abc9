"""Sockets between Java and Python."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from penstock.pipeline.spark.sockets import LEFT_SECONDS_MIN, socket_settings, sweep

FOLDER = "spark.python.unix.domain.socket.dir"


def test_only_the_user_may_enter_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as short:
        monkeypatch.setenv("XDG_CACHE_HOME", short)
        folder = Path(socket_settings()[FOLDER])
        folder.chmod(0o777)
        assert socket_settings()["spark.python.unix.domain.socket.enabled"] == "true"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_tcp_stays_where_a_path_is_too_long_or_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("long" * 25)))
    assert socket_settings() == {}
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert socket_settings() == {}


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left, young, used = (tmp_path / f"{name}.sock" for name in ("left", "young", "used"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(used))
        listening.listen()
        for path in (left, young):
            with socket.socket(socket.AF_UNIX) as ended:
                ended.bind(str(path))
        for path in (left, used):
            before = path.stat().st_mtime - LEFT_SECONDS_MIN - 1
            os.utime(path, (before, before))
        sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["used.sock", "young.sock"]

"""One process per data directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.platform.directory_lock import DirectoryInUse, DirectoryLock

HOLDER = """
import sys
from penstock.platform.directory_lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin and holder.stdout and holder.stdout.readline() == b"locked\n"
        with pytest.raises(DirectoryInUse, match=f"in use by process {holder.pid}") as refusal:
            DirectoryLock(str(tmp_path))
        assert refusal.value.pid == holder.pid
        holder.kill()
        holder.wait()
        DirectoryLock(str(tmp_path)).release()  # a lock ends with its process, however it ends


def test_a_second_node_in_the_same_process_is_refused(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(DirectoryInUse):
        DirectoryLock(f"{tmp_path}/../{tmp_path.name}")
    lock.release()
    DirectoryLock(str(tmp_path)).release()


def test_releasing_twice_does_not_release_the_next_owners_lock(tmp_path: Path) -> None:
    first = DirectoryLock(str(tmp_path))
    first.release()
    second = DirectoryLock(str(tmp_path))
    first.release()
    with pytest.raises(DirectoryInUse):
        DirectoryLock(str(tmp_path))
    second.release()

"""What the kernel says of a running process."""

from __future__ import annotations

import os
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of all the process' threads since it started."""
    with open(f"/proc/{pid}/stat") as file:
        # The command's name may hold spaces: count fields after its closing bracket.
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mb(pid: int) -> float:
    """Resident memory now."""
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has no memory: it has ended")


class Spent(NamedTuple):
    """CPU time at a moment; `since()` tells what was spent from then on."""

    pid: int
    at: float

    @classmethod
    def now(cls, pid: int) -> Spent:
        return cls(pid, cpu_seconds(pid))

    def since(self) -> float:
        return cpu_seconds(self.pid) - self.at

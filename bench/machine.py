"""The machine that a result belongs to."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import timeit
from importlib import metadata
from pathlib import Path

from tests.oracle import apache
from tests.oracle.nodes import REPOSITORY


def describe() -> dict[str, str]:
    """Everything one needs to know before comparing a result with one's own."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _output("git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": platform.release(),
        "python": f"{platform.python_version()}, {_loop_seconds():.2f} s for ten million steps",
        "java": _output("java", "-version").splitlines()[0],
        "Apache Kafka": f"{apache.VERSION} ({' '.join(apache.HEAP_SHIPPED)}, G1, default settings)",
        "client": f"librdkafka in confluent-kafka {metadata.version('confluent-kafka')}",
        "event loop": f"uvloop {metadata.version('uvloop')}",
    }


def _loop_seconds() -> float:
    """How quick this build of Python is: some are compiled with profiles, and a fifth quicker."""

    def steps() -> int:
        total = 0
        for number in range(10_000_000):
            total += number & 1
        return total

    return min(timeit.repeat(steps, number=1, repeat=3))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _output(*command: str) -> str:
    try:
        ran = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return ran.stdout.strip()

"""Apache's own clients, as their performance tools drive them, each in a JVM of its own.

A JVM that has just started takes much of the machine for itself; a broker's CPU is as good a
measure as ever, but what such a client sees per second says little about the broker.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from bench.rdkafka import ClientFailed
from tests.oracle import apache

RECORD_BYTES = 100
SECONDS_MAX = 600
PATIENCE_MS = 60_000
"""Between two records. A consumer that joins on a busy machine may need more than the tool's ten
seconds."""


def produce(bootstrap: str, topic: str, count: int, settings: Path | None = None) -> float:
    """Send so many records with ProducerPerformance; how many it sent in a second."""
    printed = _run(
        "ProducerPerformance", bootstrap, topic, count, settings,
        "--record-size", str(RECORD_BYTES), "--throughput", "-1",
    )  # fmt: skip
    return sent_rate(printed, count)


def consume(bootstrap: str, topic: str, count: int, settings: Path | None = None) -> float:
    """Read so many records with ConsumerPerformance; how many it read in a second of fetching."""
    printed = _run(
        "ConsumerPerformance", bootstrap, topic, count, settings,
        "--timeout", str(PATIENCE_MS), "--hide-header",
    )  # fmt: skip
    return read_rate(printed, count)


def sent_rate(printed: str, count: int) -> float:
    """Out of the line with all records in it; `ClientFailed` unless there is one."""
    found = re.search(rf"^{count} records sent, ([\d.]+) records/sec", printed, re.M)
    if not found:
        raise ClientFailed(f"ProducerPerformance printed {printed!r}")
    return float(found[1])


def read_rate(printed: str, count: int) -> float:
    """Out of the one line of ten fields; `ClientFailed` unless all records came.

    Its last field leaves the time out that joining a group takes.
    """
    lines = [line.split(", ") for line in printed.splitlines() if line.count(", ") == 9]
    if len(lines) != 1 or int(lines[0][4]) < count:
        raise ClientFailed(f"ConsumerPerformance printed {printed!r}")
    return float(lines[0][9])


def _run(
    tool: str, bootstrap: str, topic: str, count: int, settings: Path | None, *words: str
) -> str:
    told = ["--command-config", str(settings)] if settings is not None else []
    ran = subprocess.run(
        [*apache.java(), f"org.apache.kafka.tools.{tool}", "--bootstrap-server", bootstrap,
         "--topic", topic, "--num-records", str(count), *told, *words],
        capture_output=True, text=True, timeout=SECONDS_MAX,
    )  # fmt: skip
    if ran.returncode:
        raise ClientFailed(f"{tool} ended with {ran.returncode}: {ran.stderr}")
    return ran.stdout

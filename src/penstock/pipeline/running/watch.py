"""Watching queries at work: gathers what they report, and tells everyone who wants to know."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.pipeline.running.group import Group, reads_topics
from penstock.pipeline.running.query import RunningQuery
from penstock.pipeline.running.registry import Entry
from penstock.pipeline.running.status import (
    Gauge,
    Offsets,
    PipelineStatus,
    smallest,
)
from penstock.pipeline.spec.model import Pipeline

TELL_SECONDS = 1.0
"""At least so often everyone is told, whether or not something happened."""

Listener = Callable[[PipelineStatus], None]


class Watch:
    """What one run of a pipeline has done so far."""

    def __init__(self, pipeline: Pipeline, entry: Entry, listener: Listener | None) -> None:
        file = os.path.abspath(pipeline.place.file)
        self.status = PipelineStatus(pipeline.name, file, os.getpid(), time.time())
        self._entry = entry
        self._listener = listener
        self._group = Group(pipeline) if reads_topics(pipeline) else None
        self._gauges: dict[str, Gauge] = {}
        self._seen: dict[str, tuple[int, str]] = {}
        self._told = 0.0

    def add(self, query: RunningQuery) -> None:
        """Watch this one, too."""
        gauge = Gauge(query.name)
        self._gauges[query.name] = gauge
        self.status.queries[query.name] = gauge.status

    def look(self, queries: list[RunningQuery]) -> None:
        """Gather what is new, commit offsets that have been passed, tell if it is time."""
        news = False
        for query in queries:
            for report in self._reports(query):
                self._gauges[query.name].take(report, time.time())
                news = True
        if self._group is not None and news:
            self._group.commit(self.passed())
        if news or time.monotonic() >= self._told + TELL_SECONDS:
            self.tell()

    def turn(self, state: str, message: str = "") -> None:
        """The pipeline is in another state: tell at once."""
        self.status.state = state
        self.status.message = message
        self.tell()

    def tell(self) -> None:
        """Write the status down, and tell whoever listens."""
        now = time.time()
        self.status.updated = now
        for gauge in self._gauges.values():
            gauge.age(now)
        self._told = time.monotonic()
        self._entry.write(self.status)
        if self._listener is not None:
            self._listener(self.status)

    def close(self) -> None:
        """Commit what was passed in the end."""
        if self._group is not None:
            self._group.close(self.passed())

    def passed(self) -> Offsets:
        """What every query has passed; nothing before each of them has told where it is."""
        reached = [gauge.status.offsets for gauge in self._gauges.values()]
        if any(name not in self._seen for name in self._gauges):
            return {}
        return smallest([each for each in reached if each])

    def _reports(self, query: RunningQuery) -> Iterator[Mapping[str, Any]]:
        """Reports of Spark's that were not seen before, oldest first."""
        streaming = query.streaming._jsq
        last = streaming.lastProgress()
        if last is None or _mark(last) == self._seen.get(query.name):
            return
        # PySpark would bring over all of the last hundred each time.
        recent = streaming.recentProgress()
        fresh = []
        for number in range(len(recent) - 1, -1, -1):
            if _mark(recent[number]) == self._seen.get(query.name):
                break
            fresh.append(recent[number])
        for each in reversed(fresh):
            self._seen[query.name] = _mark(each)
            yield json.loads(each.json())


def _mark(report: Any) -> tuple[int, str]:
    return int(report.batchId()), str(report.timestamp())

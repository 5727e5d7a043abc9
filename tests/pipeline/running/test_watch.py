"""What is gathered from queries at work, and what of it is committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.pipeline.running import watch as watching
from penstock.pipeline.running.query import RunningQuery
from penstock.pipeline.running.registry import Claim
from penstock.pipeline.running.watch import Watch
from tests.pipeline.running.scene import pipeline_in


class Report:
    """A report of Spark's about one batch."""

    def __init__(self, batch: int, start: int, end: int) -> None:
        self._batch = batch
        self._told = {
            "batchId": batch,
            "numInputRows": end - start,
            "durationMs": {"addBatch": 1, "triggerExecution": 2},
            "stateOperators": [],
            "sources": [
                {
                    "startOffset": {"orders": {"0": start}},
                    "endOffset": {"orders": {"0": end}},
                    "latestOffset": {"orders": {"0": 100}},
                }
            ],
        }

    def batchId(self) -> int:
        return self._batch

    def timestamp(self) -> str:
        return f"2026-11-15T00:00:{self._batch:02}Z"

    def json(self) -> str:
        return json.dumps(self._told)


class Script:
    """A query whose reports are given."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.streaming = self
        self._jsq = self
        self.reports: list[Report] = []

    def lastProgress(self) -> Report | None:
        return self.reports[-1] if self.reports else None

    def recentProgress(self) -> list[Report]:
        return self.reports


class Committed:
    """A group that remembers what was committed."""

    def __init__(self, _pipeline: object) -> None:
        self.all: list[Any] = []

    def commit(self, offsets: Any) -> None:
        self.all.append(offsets)


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.setattr(watching, "Group", Committed)
    pipeline = pipeline_in(tmp_path)
    return Watch(pipeline, Claim(pipeline).entry, None)


def look(watch: Watch, *queries: Script) -> Any:
    watch.look([cast(RunningQuery, query) for query in queries])
    committed = cast(Committed, watch._group).all
    return committed[-1] if committed else None


def test_no_batch_is_missed_and_none_is_counted_twice(watch: Watch) -> None:
    query = Script("clean")
    watch.add(cast(RunningQuery, query))
    query.reports += [Report(0, 0, 10), Report(1, 10, 30)]
    look(watch, query)
    look(watch, query)
    query.reports += [Report(2, 30, 35), Report(3, 35, 40)]
    look(watch, query)
    assert watch.status.rows == 40
    assert watch.status.queries["clean"].batch == 3


def test_of_several_queries_over_one_topic_the_slowest_is_committed(watch: Watch) -> None:
    fast, slow = Script("fast"), Script("slow")
    watch.add(cast(RunningQuery, fast))
    watch.add(cast(RunningQuery, slow))
    fast.reports.append(Report(0, 0, 30))
    assert look(watch, fast, slow) == {}, "nobody knows yet where the slow one is"
    slow.reports.append(Report(0, 0, 10))
    assert look(watch, fast, slow) == {"orders": {0: 10}}
    slow.reports.append(Report(1, 10, 40))
    assert look(watch, fast, slow) == {"orders": {0: 30}}

"""What a running pipeline has done and how far it lags: plain values, for people and programs."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.pipeline.assembly import DEAD_LETTERS

RATE_SECONDS = 10.0
"""Rates are measured over so much of the past."""

ERRORS = "penstock_errors"
BYTES = "penstock_bytes"

Offsets = Mapping[str, Mapping[int, int]]
"""Topic: partition: the next offset to read."""

STARTING, RUNNING, RETRYING = "starting", "running", "retrying"
STOPPING, STOPPED, DONE, FAILED = "stopping", "stopped", "done", "failed"
ENDED = frozenset({STOPPED, DONE, FAILED})


@dataclass(slots=True)
class QueryStatus:
    """One query: what it has done since the start, and its last batch."""

    name: str
    batch: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    bytes: int | None = None
    bytes_per_second: float | None = None
    batch_seconds: float = 0.0
    lag: int | None = None
    """Records that were there and not taken yet when the last batch began; None if unknown."""
    bad: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class PipelineStatus:
    """A pipeline as other terminals see it."""

    pipeline: str
    file: str
    pid: int
    started: float
    state: str = STARTING
    updated: float = 0.0
    message: str = ""
    restarts: int = 0
    queries: dict[str, QueryStatus] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows that were read, dead letters not counted again."""
        return sum(each.rows for each in self._main())

    @property
    def rows_per_second(self) -> float:
        return sum(each.rows_per_second for each in self._main())

    @property
    def bytes_per_second(self) -> float | None:
        known = [each.bytes_per_second for each in self._main() if each.bytes_per_second]
        return sum(known) if known else None

    @property
    def lag(self) -> int | None:
        """How far the query is behind that is furthest behind."""
        known = [each.lag for each in self.queries.values() if each.lag is not None]
        return max(known, default=None)

    @property
    def bad(self) -> int:
        """Records that could not be read, whatever became of them."""
        return sum(each.bad for each in self.queries.values())

    @property
    def batch_seconds(self) -> float:
        return max((each.batch_seconds for each in self._main()), default=0.0)

    @property
    def state_rows(self) -> int:
        return sum(each.state_rows for each in self.queries.values())

    def _main(self) -> list[QueryStatus]:
        return [each for each in self.queries.values() if each.name != DEAD_LETTERS]

    def document(self) -> dict[str, Any]:
        """All of it, as JSON can say it."""
        totals = {
            "rows": self.rows,
            "rows_per_second": round(self.rows_per_second, 1),
            "bytes_per_second": self.bytes_per_second,
            "lag": self.lag,
            "batch_seconds": self.batch_seconds,
            "bad": self.bad,
            "state_rows": self.state_rows,
        }
        told = asdict(self)
        queries = list(told.pop("queries").values())
        return {**told, **totals, "queries": queries}


def read_status(document: Mapping[str, Any]) -> PipelineStatus:
    """The status that `PipelineStatus.document` told."""
    queries = {}
    for each in document["queries"]:
        offsets = {
            topic: {int(number): offset for number, offset in partitions.items()}
            for topic, partitions in each["offsets"].items()
        }
        queries[each["name"]] = QueryStatus(**{**each, "offsets": offsets})
    own = ("pipeline", "file", "pid", "started", "state", "updated", "message", "restarts")
    return PipelineStatus(**{name: document[name] for name in own}, queries=queries)


class Gauge:
    """Turns Spark's reports about one query into its status."""

    def __init__(self, name: str) -> None:
        self.status = QueryStatus(name)
        self._recent: deque[tuple[float, int, int]] = deque()

    def take(self, report: Mapping[str, Any], now: float) -> None:
        """One report of Spark's, as its JSON says it."""
        status = self.status
        rows, passes = _rows_and_passes(report)
        worked = rows > 0 or "addBatch" in report["durationMs"]
        status.batch = int(report["batchId"]) if worked else status.batch
        if worked:
            status.batch_seconds = report["durationMs"].get("triggerExecution", 0) / 1000
        bad = _observed(report, ERRORS, "bad")
        if status.name == DEAD_LETTERS:
            # It reads every record, once for each place that can refuse one, and writes the bad.
            rows = bad
        else:
            bad //= passes
        status.bad += bad
        status.rows += rows
        size = _observed(report, BYTES, "bytes") // passes
        if size:
            status.bytes = (status.bytes or 0) + size
        status.state_rows = sum(each["numRowsTotal"] for each in report["stateOperators"])
        status.state_bytes = sum(each["memoryUsedBytes"] for each in report["stateOperators"])
        self._take_positions(report)
        self._recent.append((now, rows, size))
        self.age(now)

    def age(self, now: float) -> None:
        """Let rates follow the time, whether or not there is something to report."""
        while self._recent and self._recent[0][0] < now - RATE_SECONDS:
            self._recent.popleft()
        rows = sum(each for _, each, _ in self._recent)
        sizes = sum(each for _, _, each in self._recent)
        self.status.rows_per_second = round(rows / RATE_SECONDS, 1)
        if self.status.bytes is not None:
            self.status.bytes_per_second = round(sizes / RATE_SECONDS, 1)

    def _take_positions(self, report: Mapping[str, Any]) -> None:
        reached: dict[str, dict[int, int]] = {}
        lag: int | None = None
        for source in report["sources"]:
            end = offsets_of(source.get("endOffset"))
            _keep_smallest(reached, end)
            latest = offsets_of(source.get("latestOffset"))
            if end and latest:
                lag = (lag or 0) + lag_between(end, latest)
        if reached:
            self.status.offsets = reached
        if lag is not None:
            self.status.lag = lag


def _rows_and_passes(report: Mapping[str, Any]) -> tuple[int, int]:
    """How many rows a batch has, and how often it was read.

    Spark counts what is read, and a sink may go through a batch twice. Offsets tell the truth, but
    for records that are not there (markers of transactions, what compaction removed).
    """
    read = int(report["numInputRows"])
    there = 0
    for source in report["sources"]:
        end = offsets_of(source.get("endOffset"))
        if not end:
            return read, 1
        there += lag_between(offsets_of(source.get("startOffset")), end)
    if read <= there or not there:
        return read, 1
    passes = round(read / there)
    return read // passes, passes


def offsets_of(told: object) -> dict[str, dict[int, int]]:
    """Offsets of topics as Spark writes them; nothing for sources of other kinds."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    if not isinstance(told, dict):
        return {}
    found: dict[str, dict[int, int]] = {}
    for topic, partitions in told.items():
        if not isinstance(partitions, dict):
            return {}
        for number, offset in partitions.items():
            if not str(number).isdigit() or not isinstance(offset, int):
                return {}
            found.setdefault(topic, {})[int(number)] = offset
    return found


def lag_between(end: Offsets, latest: Offsets) -> int:
    """Records from `end` on that are there."""
    return sum(
        max(0, offset - end.get(topic, {}).get(number, 0))
        for topic, partitions in latest.items()
        for number, offset in partitions.items()
    )


def _keep_smallest(kept: dict[str, dict[int, int]], more: Offsets) -> None:
    for topic, partitions in more.items():
        mine = kept.setdefault(topic, {})
        for number, offset in partitions.items():
            mine[number] = min(offset, mine.get(number, offset))


def smallest(all_offsets: list[Offsets]) -> dict[str, dict[int, int]]:
    """What all have passed: the smallest offset of each partition."""
    kept: dict[str, dict[int, int]] = {}
    for each in all_offsets:
        _keep_smallest(kept, each)
    return kept


def _observed(report: Mapping[str, Any], name: str, column: str) -> int:
    """The sum of a column over all observations whose names begin so."""
    return sum(
        int(row.get(column) or 0)
        for observed, row in (report.get("observedMetrics") or {}).items()
        if observed.startswith(name)
    )

"""Spark's reports, turned into what people want to know."""

from __future__ import annotations

import json
from typing import Any

from penstock.pipeline.assembly import DEAD_LETTERS
from penstock.pipeline.running.status import (
    RATE_SECONDS,
    Gauge,
    PipelineStatus,
    offsets_of,
    read_status,
    smallest,
)
from tests.pipeline.running.scene import a_status


def source(start: object, end: object, latest: object) -> dict[str, Any]:
    return {"startOffset": start, "endOffset": end, "latestOffset": latest}


def report(*sources: dict[str, Any], rows: int, batch: int = 0, **more: Any) -> dict[str, Any]:
    made = {
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"addBatch": 900, "triggerExecution": 1250},
        "stateOperators": [],
        "sources": list(sources),
    }
    return {**made, **more}


def topic(*offsets: int) -> dict[str, dict[str, int]]:
    return {"t": {str(number): offset for number, offset in enumerate(offsets)}}


def test_lag_is_what_was_there_and_is_not_taken() -> None:
    gauge = Gauge("clean")
    gauge.take(report(source(topic(0, 0), topic(10, 5), topic(10, 9)), rows=15), now=0)
    assert gauge.status.lag == 4
    assert gauge.status.offsets == {"t": {0: 10, 1: 5}}
    assert gauge.status.batch_seconds == 1.25


def test_a_partition_that_appeared_meanwhile_lags_by_all_it_has() -> None:
    gauge = Gauge("clean")
    gauge.take(report(source(topic(0), topic(10), topic(10, 9)), rows=10), now=0)
    assert gauge.status.lag == 9


def test_a_source_without_offsets_of_topics_has_no_lag_to_tell() -> None:
    gauge = Gauge("clean")
    gauge.take(report(source(3, 4, 4), source('{"a/b.log": 17}', "{}", None), rows=10), now=0)
    assert gauge.status.lag is None
    assert gauge.status.offsets == {}
    assert gauge.status.rows == 10


def test_a_batch_that_its_sink_reads_twice_is_counted_once() -> None:
    gauge = Gauge("clean")
    observed = {"penstock_errors.orders": {"bad": 6}}
    one = report(source(topic(0, 0), topic(10, 5), topic(10, 5)), rows=30, observedMetrics=observed)
    gauge.take(one, now=0)
    assert gauge.status.rows == 15
    assert gauge.status.bad == 3


def test_markers_of_transactions_are_not_rows() -> None:
    gauge = Gauge("clean")
    gauge.take(report(source(topic(0), topic(12), topic(12)), rows=10), now=0)
    assert gauge.status.rows == 10


def test_two_sources_of_one_topic_have_passed_what_both_have_passed() -> None:
    gauge = Gauge("clean")
    both = (source(topic(0), topic(12), topic(12)), source(topic(0), topic(7), topic(12)))
    gauge.take(report(*both, rows=19), now=0)
    assert gauge.status.offsets == {"t": {0: 7}}
    assert gauge.status.lag == 5


def test_the_dead_letter_query_counts_what_it_writes() -> None:
    gauge = Gauge(DEAD_LETTERS)
    observed = {"penstock_errors": {"bad": 2}}
    gauge.take(
        report(source(topic(0), topic(10), topic(10)), rows=10, observedMetrics=observed), now=0
    )
    assert (gauge.status.rows, gauge.status.bad) == (2, 2)


def test_rates_fade_when_nothing_comes() -> None:
    gauge = Gauge("clean")
    gauge.take(report(source(topic(0), topic(100), topic(100)), rows=100), now=0)
    assert gauge.status.rows_per_second == 100 / RATE_SECONDS
    gauge.age(RATE_SECONDS + 1)
    assert gauge.status.rows_per_second == 0


def test_an_idle_report_leaves_the_last_batch_as_it_was() -> None:
    gauge = Gauge("clean")
    gauge.take(report(source(topic(0), topic(10), topic(10)), rows=10, batch=4), now=0)
    idle = report(
        source(topic(10), topic(10), topic(25)), rows=0, batch=5, durationMs={"triggerExecution": 2}
    )
    gauge.take(idle, now=1)
    assert (gauge.status.batch, gauge.status.batch_seconds) == (4, 1.25)
    assert gauge.status.lag == 15


def test_a_pipeline_lags_as_its_slowest_query() -> None:
    status = PipelineStatus("orders", "orders.yml", 1, 0.0)
    for name, lag in (("a", 3), ("b", 9), ("c", None)):
        status.queries[name] = Gauge(name).status
        status.queries[name].lag = lag
    assert status.lag == 9


def test_a_status_survives_being_written_and_read() -> None:
    status = a_status()
    assert read_status(json.loads(json.dumps(status.document()))) == status


def test_what_all_have_passed_is_the_smallest_of_each_partition() -> None:
    assert smallest([{"t": {0: 5, 1: 9}}, {"t": {0: 7}, "u": {0: 1}}]) == {
        "t": {0: 5, 1: 9},
        "u": {0: 1},
    }


def test_offsets_of_other_sources_are_not_taken_for_a_topics() -> None:
    for told in (None, 7, "7", "text", {"logOffset": 3}, {"t": {"a": 1}}, {"t": {"0": "x"}}):
        assert offsets_of(told) == {}
    assert offsets_of('{"t": {"0": 3}}') == {"t": {0: 3}}

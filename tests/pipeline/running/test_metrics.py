from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.running.metrics import METRICS, MetricsServer, render
from tests.pipeline.running.scene import a_status


def test_every_query_has_its_numbers_under_its_names() -> None:
    lines = render([a_status(), a_status("clicks")]).splitlines()
    assert 'penstock_pipeline_rows_total{pipeline="orders",query="clean"} 100' in lines
    assert 'penstock_pipeline_lag_records{pipeline="clicks",query="clean"} 7' in lines
    assert 'penstock_pipeline_state{pipeline="orders",state="running"} 1' in lines
    assert 'penstock_pipeline_state{pipeline="orders",state="failed"} 0' in lines


def test_what_is_not_known_is_left_out() -> None:
    status = a_status()
    status.queries["clean"].lag = None
    text = render([status])
    assert "penstock_pipeline_lag_records{" not in text
    assert "penstock_pipeline_bytes_total{" not in text


def test_every_metric_has_one_type_and_one_help() -> None:
    lines = render([a_status(), a_status("clicks")]).splitlines()
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types)) == len(METRICS) + 2


def test_names_are_escaped() -> None:
    status = a_status('a"b\\c')
    assert r'pipeline="a\"b\\c"' in render([status])


def test_a_scrape_gets_the_numbers_of_the_moment() -> None:
    status = a_status()
    server = MetricsServer(0, lambda: [status])
    try:
        status.queries["clean"].rows = 101
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b'rows_total{pipeline="orders",query="clean"} 101' in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/")
    finally:
        server.close()


def test_a_port_that_is_taken_is_told() -> None:
    server = MetricsServer(0, list)
    try:
        with pytest.raises(Problem, match=f"port {server.port}"):
            MetricsServer(server.port, list)
    finally:
        server.close()

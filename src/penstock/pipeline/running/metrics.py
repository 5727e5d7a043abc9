"""A pipeline's numbers for Prometheus, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from penstock.pipeline.problem import Problem
from penstock.pipeline.running.status import (
    DONE,
    FAILED,
    RETRYING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    PipelineStatus,
    QueryStatus,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = (STARTING, RUNNING, RETRYING, STOPPING, STOPPED, DONE, FAILED)


class Metric(NamedTuple):
    """One number of each query."""

    name: str
    kind: str
    help: str
    value: Callable[[QueryStatus], float | None]


METRICS = (
    Metric("rows_total", "counter", "Rows read since the start.", lambda q: q.rows),
    Metric("bytes_total", "counter", "Bytes read since the start, where known.", lambda q: q.bytes),
    Metric("bad_records_total", "counter", "Records that could not be read.", lambda q: q.bad),
    Metric("lag_records", "gauge", "Records that were there and not taken yet.", lambda q: q.lag),
    Metric("batch", "gauge", "The number of the last batch.", lambda q: q.batch),
    Metric("batch_seconds", "gauge", "How long the last batch took.", lambda q: q.batch_seconds),
    Metric("rows_per_second", "gauge", "Rows a second, lately.", lambda q: q.rows_per_second),
    Metric("state_rows", "gauge", "Rows kept as state.", lambda q: q.state_rows),
    Metric("state_bytes", "gauge", "Memory that state takes.", lambda q: q.state_bytes),
)


def render(statuses: Iterable[PipelineStatus]) -> str:
    """The numbers of all these pipelines, in Prometheus' text format."""
    known = list(statuses)
    lines: list[str] = []
    for metric in METRICS:
        lines += _head(metric.name, metric.kind, metric.help)
        lines += _values(metric, known)
    lines += _head("restarts_total", "counter", "Queries started again after a failure.")
    for status in known:
        lines.append(_line("restarts_total", {"pipeline": status.pipeline}, status.restarts))
    lines += _head("state", "gauge", "1 for the state that the pipeline is in.")
    for status in known:
        for state in STATES:
            labels = {"pipeline": status.pipeline, "state": state}
            lines.append(_line("state", labels, int(status.state == state)))
    return "\n".join([*lines, ""])


def _values(metric: Metric, statuses: list[PipelineStatus]) -> Iterator[str]:
    for status in statuses:
        for query in list(status.queries.values()):
            value = metric.value(query)
            if value is not None:
                labels = {"pipeline": status.pipeline, "query": query.name}
                yield _line(metric.name, labels, value)


def _head(name: str, kind: str, told: str) -> list[str]:
    return [f"# HELP penstock_pipeline_{name} {told}", f"# TYPE penstock_pipeline_{name} {kind}"]


def _line(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(each)}"' for key, each in labels.items())
    return f"penstock_pipeline_{name}{{{inside}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MetricsServer:
    """Answers `GET /metrics` on this machine until it is closed."""

    def __init__(self, port: int, statuses: Callable[[], Iterable[PipelineStatus]]) -> None:
        """Listen on `port`; 0 takes a free one."""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "only /metrics is here")
                    return
                body = render(statuses()).encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody wants a line per scrape."""

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as refusal:
            raise Problem(
                f"metrics cannot be served on port {port}: {refusal.strerror}",
                "Choose another --metrics-port; 0 takes a free one.",
            ) from None
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()

"""Command line: run Penstock and Apache Kafka side by side."""

from __future__ import annotations

import argparse
import compileall
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import (
    chart,
    cluster,
    delayed,
    groups,
    lifecycle,
    machine,
    pipelines,
    report,
    security,
    share,
    traffic,
    txn,
)
from bench.model import FULL, QUICK, Case
from bench.runner import TARGETS, Runner, progress
from tests.oracle import apache
from tests.oracle.nodes import REPOSITORY

RESULTS = Path(__file__).with_name("results")
CASES = (
    *traffic.CASES,
    *txn.CASES,
    *groups.CASES,
    *share.CASES,
    *pipelines.CASES,
    *lifecycle.CASES,
    *delayed.CASES,
    *cluster.CASES,
    *security.CASES,
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    # Asked to end, it ends its brokers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if options.list:
        print("".join(f"{case.name:24} {case.title}\n" for case in CASES), end="")
        return 0
    if (reason := apache.missing()) and "apache" in options.targets:
        print(f"Apache Kafka cannot run here: {reason}", file=sys.stderr)
        return 2
    scale = QUICK if options.quick else FULL
    if options.rounds:
        scale = scale._replace(rounds=options.rounds, own_node_rounds=options.rounds)
    cases = _chosen(options.only)
    about = machine.describe()
    progress("".join(f"{key}: {value}\n" for key, value in about.items()))

    # As if it were installed: otherwise each process might compile what it imports.
    compileall.compile_dir(REPOSITORY / "src", quiet=1)
    runner = Runner(scale, options.targets)
    rows = runner.run(cases)
    sections = {} if options.only else {"Codecs": _codecs()}
    # Only a whole run on full scale is a result to quote; the rest is kept out of its way.
    whole = len(cases) == len(CASES) and not options.quick and options.targets == list(TARGETS)
    whole = whole and not runner.failures
    result = report.Result(rows, sections, scale, about)
    name = "side-by-side" if whole else "partial"
    _write(name, result)
    if options.renew and not runner.failures:
        _write("side-by-side", report.load(RESULTS, "side-by-side", CASES).renewed(result))
    print(report.table(rows))
    for section in sections.values():
        print(section)
    missed = [row for row in rows if row.apache and row.penstock and not row.ok]
    print(f"{len(rows)} measures, {len(missed)} missed. Written to {RESULTS}/{name}.*")
    for case, problem in runner.failures.items():
        print(f"{case} failed: {problem}", file=sys.stderr)
    return 1 if runner.failures or (missed and options.strict) else 0


def _write(name: str, result: report.Result) -> None:
    report.write(RESULTS, name, result)
    chart.draw(RESULTS / f"{name}.png", result.rows)


def _codecs() -> str:
    """Microseconds per message, measured in a process that does nothing else."""
    ran = subprocess.run(
        [sys.executable, "-m", "bench.codec"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )
    return ran.stdout


def _chosen(only: Sequence[str]) -> list[Case]:
    """The cases whose names begin with one of `only`, or all."""
    return [case for case in CASES if not only or case.name.startswith(tuple(only))]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small and fast; not worth quoting")
    parser.add_argument(
        "--only", action="append", default=[], metavar="CASE",
        help="only cases whose name begins so; may be repeated",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, help="rounds of each case")
    parser.add_argument(
        "--targets", nargs="+", choices=TARGETS, default=list(TARGETS), help="brokers to run"
    )
    parser.add_argument(
        "--renew", action="store_true",
        help="put the cases of --only into the last whole result, which then says so",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="status 1 if a target is missed")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    options = parser.parse_args(arguments)
    if options.only and not _chosen(options.only):
        parser.error(f"no case begins with {options.only}; --list names them")
    if options.renew and (options.quick or options.targets != list(TARGETS)):
        parser.error("--renew wants both brokers and the full scale: the result is one to quote")
    return options


if __name__ == "__main__":
    raise SystemExit(main())

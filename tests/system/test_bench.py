"""The benchmark is a good guest: whoever ends it ends its brokers. And it loses no number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import bare, chart, report
from bench.floor import sending
from bench.model import QUICK, Case, Measures, Row, Scale, cpu, throughput
from bench.process import cpu_seconds
from bench.rdkafka import ClientFailed, Consumer, Payload, Producer
from bench.runner import Runner
from penstock.records.batch import BatchHead, crc_of, read_head
from penstock.records.compression import LZ4, NONE
from penstock.testing import Broker
from tests.oracle.nodes import REPOSITORY, Node

SECONDS_MAX = 60


def test_a_benchmark_that_is_asked_to_end_leaves_no_broker_behind(tmp_path: Path) -> None:
    bench = subprocess.Popen(
        [sys.executable, "-m", "bench", "--targets", "penstock", "--only", "produce-large"],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while not (brokers := _children(bench.pid)):
            assert bench.poll() is None and time.monotonic() < deadline, "no broker was started"
            time.sleep(0.05)
        bench.terminate()
        assert bench.wait(SECONDS_MAX) == 128 + signal.SIGTERM
    finally:
        bench.kill()
        bench.wait()
    assert [pid for pid in brokers if Path(f"/proc/{pid}").exists()] == []
    assert list(tmp_path.iterdir()) == []


def test_a_case_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    def good(_: Node, __: Scale) -> Measures:
        return {"rate": 2.0}

    rounds = iter((1.0, 3.0))

    def failing(_: Node, __: Scale) -> Measures:
        found = next(rounds, None)
        if found is None:
            raise ClientFailed("refused")
        return {"rate": found}

    def hopeless(_: Node, __: Scale) -> Measures:
        raise ClientFailed("gone")

    cases = [
        Case(run.__name__, run.__name__, run, (throughput(),), own_node=True, warm_ups=0)
        for run in (failing, hopeless, good)
    ]
    runner = Runner(QUICK._replace(own_node_rounds=2))
    rows = runner.run(cases)
    assert {name: str(why) for name, why in runner.failures.items()} == {
        "failing": "refused",
        "hopeless": "gone",
    }
    assert [(row.apache, row.penstock) for row in rows] == [
        ([1.0], [3.0]),
        ([], []),
        ([2.0, 2.0], [2.0, 2.0]),
    ]
    report.write(tmp_path, "partial", report.Result(rows, {}, QUICK, {}))
    chart.draw(tmp_path / "partial.png", rows)
    page = (tmp_path / "partial.md").read_text()
    assert "failing" in page and "not compared" in page


def test_cases_that_are_measured_anew_stand_in_the_last_result_with_their_day(
    tmp_path: Path,
) -> None:
    cases = [
        Case(name, name, lambda _, __: {}, (throughput(), cpu(0.5))) for name in ("left", "right")
    ]
    whole = report.Result(
        [Row(case, each, [1.0, 1.0], [2.0, 2.0]) for case in cases for each in case.criteria],
        {"Codecs": "quick"},
        QUICK,
        {"date": "Monday"},
    )
    report.write(tmp_path, "whole", whole)
    assert report.load(tmp_path, "whole", cases) == whole

    about = {"date": "Friday", "commit": "abc", "processor": "p", "kernel": "k", "python": "3"}
    right = cases[1]
    right = right._replace(criteria=(*right.criteria, cpu(0.1)._replace(measure="more")))
    newer = [Row(right, each, [4.0] * 3, [1.0] * 3) for each in right.criteria]
    newer_result = report.Result(newer, {}, QUICK, about)
    renewed = report.load(tmp_path, "whole", cases).renewed(newer_result)
    assert renewed.rows == whole.rows[:2] + newer
    assert (renewed.sections, renewed.scale) == (whole.sections, whole.scale)
    assert renewed.machine["date"] == "Monday"
    assert renewed.machine["measured anew on Friday"].startswith("right, 3 rounds, commit abc")

    again = renewed.renewed(newer_result._replace(machine=about | {"date": "Saturday"}))
    assert [key for key in again.machine if "anew" in key] == ["measured anew on Saturday"]
    left = [
        Row(cases[0], each, [4.0] * rounds, [1.0] * rounds)
        for rounds, each in zip((1, 2), cases[0].criteria, strict=True)
    ]
    both = renewed.renewed(newer_result._replace(rows=left, machine=about | {"date": "Sunday"}))
    assert [key[-6:] for key in both.machine if "anew" in key] == ["Friday", "Sunday"]
    assert both.machine["measured anew on Sunday"].startswith("left, 1 to 2 rounds, commit abc")


def test_what_a_bare_sendfile_takes_is_measured_with_all_bytes_sent(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(20_000_000))
    (tmp_path / "small").write_bytes(b"small")
    took = sending([tmp_path / "large", tmp_path / "small"])
    assert 0 < sending([tmp_path / "small"]) < took < 10


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("batch", ["200", "100000", "1000000"])
def test_a_bare_loop_stores_what_is_sent_and_answers(
    tmp_path: Path, codec: str, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    payload, count = Payload(100, count=1_000), 40_000
    with (
        bare.running() as (port, _),
        Producer(f"127.0.0.1:{port}", batch_size=batch, compression_type=codec) as producer,
    ):
        for partition in range(bare.PARTITIONS):
            producer.send("any", payload, count // bare.PARTITIONS, partition)
        producer.flush()
        paths = list(tmp_path.glob("bench-bare-*/*"))
        heads = [head for path in paths for head in batches_in(path.read_bytes())]
    assert sum(head.count for head in heads) == count
    # The client leaves what is small as it is.
    expected = {LZ4} if codec == "lz4" and batch != "200" else {NONE}
    assert {head.compression for head in heads if head.count > 100 or batch == "200"} == expected
    assert list(tmp_path.iterdir()) == []


def test_a_bare_loop_ends_with_whoever_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.bare", str(tmp_path)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdin and process.stdout
            assert int(process.stdout.readline()) > 0
            process.stdin.close()
            assert process.wait(SECONDS_MAX) == 0
        finally:
            process.kill()


def batches_in(data: bytes) -> Iterator[BatchHead]:
    at = 0
    while at < len(data):
        head = read_head(data, at)
        assert crc_of(memoryview(data), at, at + head.size) == head.crc
        yield head
        at += head.size


def test_a_reader_counts_records_and_nothing_else(
    penstock_broker: Broker, penstock_topic: str
) -> None:
    payload = Payload(100, count=10)
    with Producer(penstock_broker.bootstrap_servers) as producer:
        producer.send(penstock_topic, payload, 1_000, partition=0)
        producer.flush()
    with Consumer(penstock_broker.bootstrap_servers) as consumer:
        assert consumer.read(penstock_topic, [0], 1_000, 30) >= 0
    with (
        Consumer(penstock_broker.bootstrap_servers) as consumer,
        pytest.raises(ClientFailed, match=r"^1 records did not come"),
    ):
        consumer.read(penstock_topic, [0], 1_001, 3)


def test_the_cpu_time_of_another_process_is_its_own_count() -> None:
    busy = "import sys, time\nwhile time.process_time() < 0.2: pass\nprint(time.process_time())\n"
    child = subprocess.Popen(
        [sys.executable, "-u", "-c", busy + "sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin and child.stdout
    with child:
        counted = float(child.stdout.readline())
        time.sleep(0.1)  # it is about to wait for its input
        assert counted <= cpu_seconds(child.pid) < counted + 0.05
        child.stdin.close()


def _children(pid: int) -> list[int]:
    """The brokers among a process' children."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"server.properties" in command:
            found.append(int(child))
    return found

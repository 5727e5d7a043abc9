"""Apache Kafka's own tool looks at compacted logs and at producer snapshots."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.oracle.tools import Tools
from tests.unit.storage.compaction_bench import CONFIG, DAY, Bench

pytestmark = pytest.mark.java

FAULTS = re.compile(
    r"mismatch|corrupt|invalid|exception|not found|Found timestamp|unconsecutive", re.I
)


def dump(tools: Tools, path: str | Path, *options: str) -> str:
    out = tools.check("DumpLogSegments", "--files", str(path), *options)
    assert not FAULTS.search(out), out
    return out


def compacted(root: str) -> Bench:
    """Codecs, tombstones, transactions, emptied batches and horizons, after several rounds."""
    bench = Bench(root, CONFIG._replace(index_interval_bytes=200))
    for number in range(4):
        for codec in range(5):
            rows = [(b"k%d" % n, b"v%d" % number * 20) for n in range(10 * codec, 10 * codec + 9)]
            bench.append([*rows, (b"gone%d" % codec, None)], compression=codec)
        producer = {"producer_id": 7, "producer_epoch": 0}
        bench.append([(b"a", b"1")], base_sequence=2 * number, transactional=True, **producer)
        bench.end_txn(7, commit=number % 2 == 0)
        bench.append(
            [(b"k0", b"x"), (b"k1", b"y")],
            producer_id=8,
            producer_epoch=1,
            base_sequence=2 * number,
        )
        bench.roll()
        assert bench.compact() is not None
        bench.now += DAY // 2
    return bench


def test_dump_log_segments_finds_no_fault_in_a_compacted_log(tmp_path: Path, tools: Tools) -> None:
    bench = compacted(str(tmp_path))
    stored = {offset for offset, _, _ in bench.records()}
    seen: set[int] = set()
    for segment in bench.log.segments[:-1]:
        out = dump(tools, segment.file.path, "--deep-iteration", "--print-data-log")
        records = [line for line in out.splitlines() if line.startswith("|")]
        data = [line for line in records if "endTxnMarker" not in line]
        seen |= {int(found) for line in data for found in re.findall(r"offset: (\d+)", line)[:1]}
        for suffix in (".index", ".timeindex"):
            path = segment.path(suffix)
            assert "passed sanity check" in dump(tools, path, "--index-sanity-check")
            dump(tools, path)
        if Path(segment.path(".txnindex")).exists():
            assert "producerId: 7" in dump(tools, segment.path(".txnindex"))
    assert seen == stored


def test_dump_log_segments_reads_our_producer_snapshots(tmp_path: Path, tools: Tools) -> None:
    bench = compacted(str(tmp_path))
    newest = max(Path(bench.directory).glob("*.snapshot"))
    lines = dump(tools, newest).splitlines()
    by_id = {
        int(found[0]): line for line in lines if (found := re.findall(r"producerId: (\d+)", line))
    }
    assert "lastSequence: 7 " in by_id[8] + " "
    assert "producerEpoch: 1 " in by_id[8]
    assert 7 in by_id

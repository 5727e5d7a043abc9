"""Apache's DumpLogSegments over the files that a broker leaves behind."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compat.filling import Stored, fill
from tests.oracle.nodes import Node
from tests.oracle.tools import Tools

pytestmark = pytest.mark.java


class Left(NamedTuple):
    """A stopped broker's directory, and what was acknowledged into it."""

    data: Path
    records: list[Stored]


@pytest.fixture(scope="module", params=["stopped", "killed"])
def left(
    request: pytest.FixtureRequest,
    target: Callable[..., Node],
    tmp_path_factory: pytest.TempPathFactory,
) -> Left:
    node = target(tmp_path_factory.mktemp("files"))
    with node:
        records = fill(node)
        if request.param == "killed":
            # A crash leaves indexes to rebuild: what recovery writes must be as good.
            node.kill()
            node.start()
        node.stop()
    return Left(node.data, records)


def files(left: Left, pattern: str) -> str:
    """The data topics' files, as the tools take them."""
    found = sorted(left.data.glob(f"filled-*/{pattern}"))
    assert found, f"no {pattern} under {left.data}"
    return ",".join(map(str, found))


def test_every_batch_is_valid_and_every_record_is_there(left: Left, tools: Tools) -> None:
    out = tools.check("DumpLogSegments", "--deep-iteration", "--files", files(left, "*.log"))
    assert "isvalid: false" not in out and "Found" not in out
    assert out.count("isvalid: true") == len(re.findall(r"^baseOffset", out, re.MULTILINE))
    assert len(re.findall(r"^\| offset: ", out, re.MULTILINE)) == len(left.records)


def test_segments_were_rolled_so_that_there_is_something_to_check(left: Left) -> None:
    names = {path.name for path in left.data.glob("filled-none-0/*.log")}
    assert len(names) > 1


def test_offset_and_time_indexes_pass_the_sanity_check(left: Left, tools: Tools) -> None:
    paths = files(left, "*index")
    out = tools.check("DumpLogSegments", "--index-sanity-check", "--files", paths)
    # An active segment's index may still be empty, which the tool says instead.
    assert out.count("passed sanity check.") + out.count("is empty.") == len(paths.split(","))


def test_offset_and_time_indexes_agree_with_their_segments(left: Left, tools: Tools) -> None:
    paths = files(left, "*.index") + "," + files(left, "*.timeindex")
    out = tools.check("DumpLogSegments", "--verify-index-only", "--files", paths)
    assert re.sub(r"(Dumping .*|.* is empty\.)\n", "", out) == ""


def test_sealed_segments_have_index_entries(left: Left, tools: Tools) -> None:
    sealed = sorted(left.data.glob("filled-none-0/*.index"))[0]
    for path in (sealed, sealed.with_suffix(".timeindex")):
        out = tools.check("DumpLogSegments", "--files", str(path))
        assert len(re.findall(r"offset: \d+", out)) > 10, out


def test_producer_snapshots_are_decoded(left: Left, tools: Tools) -> None:
    newest = sorted(left.data.glob("filled-none-0/*.snapshot"))[-1]
    out = tools.check("DumpLogSegments", "--files", str(newest))
    assert re.search(r"producerId: \d+ producerEpoch: 0 .*lastSequence: \d+ lastOffset: \d+", out)
    last = max(each.offset for each in left.records if each[:2] == ("filled-none", 0))
    assert f"lastOffset: {last} " in out and int(newest.stem) == last + 1


def test_the_metadata_log_is_decoded(left: Left, tools: Tools) -> None:
    path = left.data / "__cluster_metadata-0" / "00000000000000000000.log"
    out = tools.check("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
    assert "isvalid: false" not in out and "could not be decoded" not in out.lower()
    for kind in ("FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "TOPIC_RECORD",
                 "PARTITION_RECORD", "CONFIG_RECORD", "PRODUCER_IDS_RECORD"):  # fmt: skip
        assert f'"type":"{kind}"' in out, f"no {kind}"
    assert "LeaderChange" in out

"""What Penstock's share coordinator writes down, Apache's loads and goes on with, and back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import uuid_text
from tests.oracle import apache
from tests.oracle.nodes import ApacheNode, Node, PenstockNode
from tests.unit.server.asking import asking
from tests.unit.server.share_state_talk import Row, ShareTalk

pytestmark = pytest.mark.java

CONFIG = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
}
LATER = 4_000_000_000_000
"""A time for which a record waits; only Penstock knows what that means."""


async def at_work(
    node: Node, topic_id: bytes | None, batches: list[Row]
) -> tuple[bytes, list[Row]]:
    """Begin unless somebody has, write batches one by one, and answer what is known then."""
    async with asking(node.port) as asker:
        begins = topic_id is None
        talk = ShareTalk(asker, topic_id or await asker.create("orders"))
        async with asyncio.timeout(60):
            while (await talk.find(f"workers:{uuid_text(talk.topic_id)}:0")).error_code or (
                await talk.summary()
            )[0]:
                await asyncio.sleep(0.1)
        if begins:
            assert await talk.initialize(epoch=1, start=10) == ErrorCode.NONE
        for batch in batches:
            assert await talk.write([batch], epoch=1) == ErrorCode.NONE
        error, epoch, start, rows = await talk.read()
        assert (error, epoch, start) == (0, 1, 10)
        return talk.topic_id, rows


@pytest.mark.penstock_only
async def test_a_directory_goes_from_penstock_to_apache_and_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    ours, theirs, again = (
        PenstockNode(tmp_path / "ours", config=CONFIG, data=data),
        ApacheNode(tmp_path / "theirs", config=CONFIG, data=data),
        PenstockNode(tmp_path / "again", config=CONFIG, data=data),
    )
    first = [(20 + 2 * at, 20 + 2 * at, 2, 1, 0) for at in range(6)]
    with ours:
        topic_id, rows = await at_work(ours, None, [*first, (40, 41, 0, 2, LATER)])
    assert rows == [*first, (40, 41, 0, 2, LATER)]
    segment = data / "__share_group_state-0" / "00000000000000000000.log"
    dump = apache.run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--share-group-state-decoder",
        "--files",
        str(segment),
    )
    assert dump.returncode == 0, dump.stderr
    assert '"groupId":"workers"' in dump.stdout
    assert '"firstOffset":40,"lastOffset":41,"deliveryState":0,"deliveryCount":2' in dump.stdout
    with theirs:
        _, rows = await at_work(theirs, topic_id, [(21, 21, 2, 1)])
    apart = [(20, 22, 2, 1, 0), *first[2:]]
    assert joined(rows) == [*apart, (40, 41, 0, 2, 0)], "Apache knows of no waits"
    with again:
        _, rows = await at_work(again, topic_id, [(40, 40, 2, 2)])
    assert rows[:-2] == apart
    assert [row[:4] for row in rows[-2:]] == [(40, 40, 2, 2), (41, 41, 0, 2)]


def joined(rows: list[Row]) -> list[Row]:
    """Apache leaves some batches apart that touch and say the same."""
    found: list[Row] = []
    for row in rows:
        if found and found[-1][1] + 1 == row[0] and found[-1][2:] == row[2:]:
            row = (found.pop()[0], *row[1:])
        found.append(row)
    return found

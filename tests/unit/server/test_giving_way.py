"""Long work for one client gives way to the short requests of others."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.delete_groups import DeleteGroupsRequest
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.protocol.generated.metadata import MetadataRequest
from penstock.server.handlers import delete_groups, list_offsets
from tests.unit.server.asking import NOON, asking, batch, port_of, running_node

PARTITIONS = 100


async def test_a_search_by_time_in_many_partitions_lets_others_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = list_offsets._find

    def slow_find(*arguments: Any) -> Any:
        time.sleep(0.01)
        return find(*arguments)

    async with (
        running_node(tmp_path) as node,
        asking(port_of(node)) as searcher,
        asking(port_of(node)) as other,
    ):
        await searcher.create("t", PARTITIONS)
        await searcher.produce("t", batch(5), index=7)
        monkeypatch.setattr(list_offsets, "_find", slow_find)
        asked = [ListOffsetsPartition(partition_index=i, timestamp=NOON) for i in range(PARTITIONS)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=asked)])
        searching = asyncio.ensure_future(searcher.ask(request, 7))
        await asyncio.sleep(0.05)
        assert await other.ask(MetadataRequest(topics=[]), 9)
        assert not searching.done()
        (found,) = (await searching).topics
        assert [item.partition_index for item in found.partitions] == list(range(PARTITIONS))
        assert {item.error_code for item in found.partitions} == {ErrorCode.NONE}
        assert found.partitions[7].offset == 0


async def test_deleting_very_many_groups_lets_others_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = delete_groups._delete

    def slow_delete(*arguments: Any) -> Any:
        time.sleep(0.01)
        return delete(*arguments)

    async with (
        running_node(tmp_path) as node,
        asking(port_of(node)) as deleter,
        asking(port_of(node)) as other,
    ):
        await other.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
        monkeypatch.setattr(delete_groups, "_delete", slow_delete)
        names = [f"group-{number}" for number in range(50)]
        deleting = asyncio.ensure_future(deleter.ask(DeleteGroupsRequest(groups_names=names), 2))
        await asyncio.sleep(0.05)
        assert await other.ask(MetadataRequest(topics=[]), 9)
        assert not deleting.done()
        results = (await deleting).results
        assert [result.group_id for result in results] == names
        assert {result.error_code for result in results} == {ErrorCode.GROUP_ID_NOT_FOUND}

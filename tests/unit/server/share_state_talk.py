"""Requests to share coordinators, as leaders and group coordinators send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.coordination.delivery.effects import StateBatch
from penstock.protocol.generated import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest

SHARE = 2
"""What kind of coordinator is looked for."""

Row = tuple[int, ...]


class ShareTalk:
    """One group on one topic, over a connection to its coordinator."""

    def __init__(self, asker: Any, topic_id: bytes, group_id: str = "workers") -> None:
        self.asker = asker
        self.topic_id = topic_id
        self.group_id = group_id

    async def _ask(self, module: Any, request: str, topic: str, version: int, **fields: Any) -> Any:
        item = module.PartitionData(**fields)
        data = getattr(module, topic)(topic_id=self.topic_id, partitions=[item])
        message = getattr(module, request)(group_id=self.group_id, topics=[data])
        answer = await self.asker.ask(message, version)
        (result,) = answer.results
        assert result.topic_id == self.topic_id
        (told,) = result.partitions
        assert told.partition == fields["partition"]
        return told

    async def find(self, key: str) -> Any:
        """Who coordinates a key."""
        request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])
        return (await self.asker.ask(request, 6)).coordinators[0]

    async def initialize(self, partition: int = 0, epoch: int = 0, start: int = 0) -> int:
        told = await self._ask(
            initialize_share_group_state,
            "InitializeShareGroupStateRequest",
            "InitializeStateData",
            0,
            partition=partition,
            state_epoch=epoch,
            start_offset=start,
        )
        return int(told.error_code)

    async def read(self, partition: int = 0, leader: int = 0) -> tuple[int, int, int, list[Row]]:
        """Error, state epoch, start, batches."""
        told = await self._ask(
            read_share_group_state,
            "ReadShareGroupStateRequest",
            "ReadStateData",
            0,
            partition=partition,
            leader_epoch=leader,
        )
        rows: list[Row] = [
            (it.first_offset, it.last_offset, it.delivery_state, it.delivery_count, it.not_before)
            for it in told.state_batches
        ]
        return told.error_code, told.state_epoch, told.start_offset, rows

    async def write(
        self,
        batches: Sequence[StateBatch | Row],
        partition: int = 0,
        *,
        epoch: int = 0,
        leader: int = 0,
        start: int = -1,
        complete: int = -1,
        version: int = 1,
    ) -> int:
        told = await self._ask(
            write_share_group_state,
            "WriteShareGroupStateRequest",
            "WriteStateData",
            version,
            partition=partition,
            state_epoch=epoch,
            leader_epoch=leader,
            start_offset=start,
            delivery_complete_count=complete,
            state_batches=[
                write_share_group_state.StateBatch(
                    first_offset=it[0],
                    last_offset=it[1],
                    delivery_state=it[2],
                    delivery_count=it[3],
                    not_before=it[4] if len(it) > 4 else 0,
                )
                for it in batches
            ],
        )
        return int(told.error_code)

    async def delete(self, partition: int = 0) -> int:
        told = await self._ask(
            delete_share_group_state,
            "DeleteShareGroupStateRequest",
            "DeleteStateData",
            0,
            partition=partition,
        )
        return int(told.error_code)

    async def summary(self, partition: int = 0, version: int = 1) -> Row:
        """Error, state epoch, leader epoch, start, how many are done."""
        told = await self._ask(
            read_share_group_state_summary,
            "ReadShareGroupStateSummaryRequest",
            "ReadStateSummaryData",
            version,
            partition=partition,
        )
        return (
            told.error_code,
            told.state_epoch,
            told.leader_epoch,
            told.start_offset,
            told.delivery_complete_count,
        )

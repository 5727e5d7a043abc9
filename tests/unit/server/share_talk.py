"""Members of share groups who say exactly what a test wants them to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.generated.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from penstock.protocol.generated.share_fetch import AcknowledgementBatch as FetchedBatch
from penstock.protocol.generated.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from penstock.server.broker import Broker
from penstock.server.share_persister import ShareKey
from tests.unit.server.asking import Asker

SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
VERSION = 2
GROUP_RESOURCE = 32
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class Said(NamedTuple):
    """What a member says about offsets: one word, or one for each."""

    first: int
    last: int
    words: tuple[int, ...] = (ACCEPT,)


def broker_of(node: Node) -> Broker:
    assert node._broker is not None
    return node._broker


async def begin_group(
    node: Node, group: str, topic_id: bytes, partitions: int = 1, start: int = 0
) -> None:
    """What the group's coordinator does before it assigns a partition."""
    persister = broker_of(node).coordinators.persister
    for index in range(partitions):
        error = await persister.initialize(ShareKey(group, topic_id, index), 0, start)
        assert error is ErrorCode.NONE


async def configure(asker: Asker, group: str, settings: Mapping[str, str]) -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=GROUP_RESOURCE,
                resource_name=group,
                configs=[
                    AlterableConfig(name=name, config_operation=0, value=value)
                    for name, value in settings.items()
                ],
            )
        ]
    )
    answer = (await asker.ask(request, 1)).responses[0]
    assert answer.error_code == ErrorCode.NONE, answer.error_message


class Talker:
    """One member on one connection, which counts its session's epochs itself."""

    def __init__(self, asker: Asker, topic_id: bytes, group: str = "g", name: str = "anna") -> None:
        self.asker = asker
        self.topic_id = topic_id
        self.group = group
        self.name = name
        self.epoch = 0

    def request(
        self,
        *partitions: int,
        said: Mapping[int, Sequence[Said]] | None = None,
        forgotten: Sequence[int] = (),
        **options: Any,
    ) -> ShareFetchRequest:
        """The next fetch. Partitions are to be named in the first one only."""
        talked_of = said or {}
        indexes = dict.fromkeys([*partitions, *talked_of])
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch,
            **{
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 1 << 24,
                "max_records": 500,
                "batch_size": 500,
                **options,
            },
        )
        if indexes:
            parts = [
                FetchPartition(
                    partition_index=index,
                    acknowledgement_batches=[
                        FetchedBatch(
                            first_offset=each.first,
                            last_offset=each.last,
                            acknowledge_types=list(each.words),
                        )
                        for each in talked_of.get(index, ())
                    ],
                )
                for index in indexes
            ]
            request.topics = [FetchTopic(topic_id=self.topic_id, partitions=parts)]
        if forgotten:
            request.forgotten_topics_data = [
                ForgottenTopic(topic_id=self.topic_id, partitions=list(forgotten))
            ]
        return request

    def send(self, *partitions: int, **options: Any) -> None:
        """Fetch, and do not wait for the answer."""
        self.asker.send(self.request(*partitions, **options), VERSION)
        self.epoch += 1

    async def answer(self) -> ShareFetchResponse:
        response: ShareFetchResponse = await self.asker.receive(SHARE_FETCH, VERSION)
        return response

    async def fetch(self, *partitions: int, **options: Any) -> ShareFetchResponse:
        self.send(*partitions, **options)
        return await self.answer()

    async def acknowledge(
        self, *said: Said, index: int = 0, epoch: int | None = None, **options: Any
    ) -> ShareAcknowledgeResponse:
        """Say something about one partition's records."""
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=[
                AcknowledgeTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                AcknowledgementBatch(
                                    first_offset=each.first,
                                    last_offset=each.last,
                                    acknowledge_types=list(each.words),
                                )
                                for each in said
                            ],
                        )
                    ],
                )
            ],
            **options,
        )
        response: ShareAcknowledgeResponse = await self.asker.ask(request, VERSION)
        if epoch is None and not response.error_code:
            self.epoch += 1
        return response

    async def close(self) -> ShareAcknowledgeResponse:
        """Say good-bye."""
        request = ShareAcknowledgeRequest(
            group_id=self.group, member_id=self.name, share_session_epoch=-1
        )
        response: ShareAcknowledgeResponse = await self.asker.ask(request, VERSION)
        return response


def parts(response: ShareFetchResponse) -> dict[int, PartitionData]:
    assert response.error_code == ErrorCode.NONE, (response.error_code, response.error_message)
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def acquired(response: ShareFetchResponse, index: int = 0) -> list[tuple[int, int, int]]:
    """(first, last, delivery count) of what a partition gave."""
    part = parts(response).get(index)
    if part is None:
        return []
    assert part.error_code == ErrorCode.NONE, ErrorCode(part.error_code).name
    return [
        (each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records
    ]


def error_of(response: ShareFetchResponse, index: int = 0) -> ErrorCode:
    return ErrorCode(parts(response)[index].error_code)


def verdict(response: ShareAcknowledgeResponse | ShareFetchResponse) -> ErrorCode:
    """What became of what was said about the only partition."""
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code).name
    part = response.responses[0].partitions[0]
    if isinstance(part, PartitionData):
        return ErrorCode(part.acknowledge_error_code)
    return ErrorCode(part.error_code)

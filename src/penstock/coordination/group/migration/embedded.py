"""What consumers say to each other inside the classic protocol: subscriptions and assignments."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from penstock.protocol.generated.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from penstock.protocol.primitives import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.metadata.topics import TopicsImage

_VERSION = Struct(">h")
_VERSION_MAX = ConsumerProtocolSubscription.VERSIONS.stop - 1


def version_of(data: bytes) -> int:
    """The version in which something is said; those of the future begin like the last one."""
    if len(data) < _VERSION.size:
        raise ProtocolError("a consumer's message has no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"a consumer's message has version {version}")
    return min(version, _VERSION_MAX)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a consumer wants. Raises ProtocolError if it makes no sense."""
    return ConsumerProtocolSubscription.read(data, version_of(data), _VERSION.size)[0]


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What a consumer got. Raises ProtocolError if it makes no sense."""
    return ConsumerProtocolAssignment.read(data, version_of(data), _VERSION.size)[0]


def write_assignment(
    partitions: Mapping[bytes, Iterable[int]], topics: TopicsImage, version: int
) -> bytes:
    """What a consumer gets, of topics that exist."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(
                topic=topics.by_id[topic_id].name, partitions=sorted(numbers)
            )
            for topic_id, numbers in partitions.items()
            if topic_id in topics.by_id
        ]
    )
    out = bytearray(_VERSION.pack(version))
    assignment.write(version, out)
    return bytes(out)


def by_id(named: Iterable[tuple[str, list[int]]], topics: TopicsImage) -> dict[bytes, list[int]]:
    """Partitions by their topics' ids; topics that do not exist are left out."""
    found = ((topics.by_name.get(name), numbers) for name, numbers in named)
    return {topic.id: numbers for topic, numbers in found if topic is not None and numbers}

"""StreamsGroupDescribe, version 0: groups of Kafka Streams instances, their topology, members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.streams.describing import describe
from penstock.protocol.generated.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)
from penstock.server.group_descriptions import Kind, describe_groups
from penstock.server.handlers.streams_group_heartbeat import is_enabled

if TYPE_CHECKING:
    from penstock.protocol.generated.streams_group_describe import StreamsGroupDescribeRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: StreamsGroupDescribeRequest) -> Any:
    """Each group by itself, in the order of the request."""
    return describe_groups(broker, call, request, _KIND)


def _topics(group: DescribedGroup) -> Iterator[str]:
    for it in (group.topology and group.topology.subtopologies) or ():
        yield from it.source_topics
        yield from it.repartition_sink_topics
        for topic in (*it.repartition_source_topics, *it.state_changelog_topics):
            yield topic.name


_KIND = Kind(
    StreamsGroupDescribeResponse,
    DescribedGroup,
    is_enabled,
    describe,
    _topics,
    "The application uses topics that you may not describe.",
)

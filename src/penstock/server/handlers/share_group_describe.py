"""ShareGroupDescribe, version 1: groups that share partitions, and their members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.share.describing import describe
from penstock.protocol.generated.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeResponse,
)
from penstock.server.group_descriptions import Kind, describe_groups
from penstock.server.handlers.share_group_heartbeat import is_enabled

if TYPE_CHECKING:
    from penstock.protocol.generated.share_group_describe import ShareGroupDescribeRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: ShareGroupDescribeRequest) -> Any:
    """Each group by itself, in the order of the request."""
    return describe_groups(broker, call, request, _KIND)


def _topics(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for each in member.assignment.topic_partitions:
            yield each.topic_name


_KIND = Kind(
    ShareGroupDescribeResponse,
    DescribedGroup,
    is_enabled,
    describe,
    _topics,
    "The group reads topics that you may not describe.",
)

"""ConsumerGroupDescribe, versions 0 and 1: groups whose coordinator assigns, and their members.

Version 1 adds which protocol a member speaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.consumer.describing import describe
from penstock.protocol.generated.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from penstock.server.group_descriptions import Kind, describe_groups
from penstock.server.handlers.consumer_group_heartbeat import is_enabled

if TYPE_CHECKING:
    from penstock.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: ConsumerGroupDescribeRequest) -> Any:
    """Each group by itself, in the order of the request."""
    return describe_groups(broker, call, request, _KIND)


def _topics(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for each in assignment.topic_partitions:
                yield each.topic_name


_KIND = Kind(
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    is_enabled,
    describe,
    _topics,
    "The group reads topics that you may not describe.",
)

"""Describing groups of one kind: the same way for consumer, share and streams groups.

Groups that hash to another node's shards are answered with NOT_COORDINATOR, each for itself. It
takes a right to describe each group, and one to describe all topics that it has to do with.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.server.handlers.describe_groups import GROUP_OPERATIONS
from penstock.server.rights import may_group, rights_bits
from penstock.server.topic_rights import shows_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.server.broker import Broker
    from penstock.server.call import Call


class Kind(NamedTuple):
    """What is different between the kinds."""

    response: type[Any]
    described: type[Any]
    """One group in the response."""
    is_enabled: Callable[[Broker], bool]
    describe: Callable[[Any, str], Any]
    """(shard, group id): a response about this one group."""
    topics: Callable[[Any], Iterable[str]]
    """Names in a described group that not everybody may see."""
    hidden: str
    """What is said where somebody may not."""

    def failed(self, group_id: str, error: ErrorCode) -> Any:
        """A response about a group that cannot be described."""
        return self.response(groups=[self.described(group_id=group_id, error_code=error)])


def describe_groups(broker: Broker, call: Call, request: Any, kind: Kind) -> Any:
    """Each group by itself, in the order of the request."""
    group_ids = dict.fromkeys(request.group_ids)
    if not kind.is_enabled(broker):
        failed = [kind.failed(it, ErrorCode.UNSUPPORTED_VERSION) for it in group_ids]
        return _respond(broker, call, failed, request, kind)
    answers = [_describe(broker, call, group_id, kind) for group_id in group_ids]
    if any(asyncio.isfuture(it) for it in answers):
        return _gather(broker, call, answers, request, kind)
    return _respond(broker, call, answers, request, kind)


def _describe(broker: Broker, call: Call, group_id: str, kind: Kind) -> Any:
    if not may_group(broker, call, Operation.DESCRIBE, group_id):
        return kind.failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return kind.failed(group_id, ErrorCode.INVALID_GROUP_ID)
    return broker.coordinators.groups.call(
        group_id,
        lambda shard, _at, out, ticket: out.reply(ticket, kind.describe(shard, group_id)),
        lambda error: kind.failed(group_id, error),
    )


async def _gather(
    broker: Broker, call: Call, answers: Sequence[Any], request: Any, kind: Kind
) -> Any:
    done = [await it if asyncio.isfuture(it) else it for it in answers]
    return _respond(broker, call, done, request, kind)


def _respond(broker: Broker, call: Call, answers: Sequence[Any], request: Any, kind: Kind) -> Any:
    groups = [group for answer in answers for group in answer.groups]
    if broker.authorizer is not None:
        groups = [_shown(broker, call, group, kind) for group in groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = rights_bits(
                    broker, call, ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
                )
    return kind.response(groups=groups)


def _shown(broker: Broker, call: Call, group: Any, kind: Kind) -> Any:
    """The group, or nothing of it if it has to do with what the client must not know of."""
    if all(shows_topic(broker, call, topic) for topic in dict.fromkeys(kind.topics(group))):
        return group
    return kind.described(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=kind.hidden,
    )

"""ConsumerGroupHeartbeat: a member says that it lives, what it wants and what it has.

Most heartbeats say nothing new, and get an answer from memory. Others change what the group wants,
or what the member holds, step by step until it holds what the target gives it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.consumer.changing import Change, carry_out
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.leaving import leave
from penstock.coordination.group.consumer.member import JOINING, Held, Member
from penstock.coordination.group.consumer.membership import find_member
from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.consumer.sessions import begin_session, renew_session
from penstock.coordination.group.migration.upgrading import consumer_group_for
from penstock.model.errors import ErrorCode
from penstock.model.ids import uuid_text
from penstock.protocol.generated.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.model.ids import Millis
    from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

UNSAID = -1
"""A rebalance timeout that is as it was."""


class Client(NamedTuple):
    """Where a request came from, as groups write it down."""

    client_id: str
    host: str
    sees: Callable[[str], bool] | None = None
    """Which topics it may know of; None: all."""


def heartbeat(
    shard: GroupShard,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
) -> None:
    """Answer a heartbeat that `checks` found nothing wrong with."""
    known = answer_if_nothing_new(shard, request, client.client_id, client.host, at.mono)
    if known is not None:
        out.reply(ticket, known)
        return
    response: ConsumerGroupHeartbeatResponse | Refusal
    if request.member_epoch < JOINING:
        response = leave(shard, request, at, out)
    else:
        response = _join_or_go_on(shard, request, client, at, out)
    if isinstance(response, Refusal):
        out.drop()
        response = refused(response)
    out.reply(ticket, response)


def answer_if_nothing_new(
    shard: GroupShard,
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    host: str,
    now: Millis,
) -> ConsumerGroupHeartbeatResponse | None:
    """The answer to a heartbeat that changes nothing, of a member that has all it is to have.

    It needs no step: nothing is written, and no timer moves. It tells of the member's epoch, so it
    may leave only when all that the shard knows is committed.
    """
    group = shard.groups.get(request.group_id)
    if type(group) is not ConsumerGroup or request.member_epoch <= 0:
        return None
    member = group.members.get(request.member_id)
    if member is None or not _says_nothing_new(group, member, request, client_id, host):
        return None
    pace = shard.consumers.pace(group.group_id)
    renew_session(group, member.member_id, pace.session_ms, now)
    return _answer(member, pace.heartbeat_ms)


def refused(refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
    """The answer to a heartbeat that is not granted."""
    return ConsumerGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)


def _says_nothing_new(
    group: ConsumerGroup,
    member: Member,
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    host: str,
) -> bool:
    return (
        request.member_epoch == member.epoch
        and member.is_settled_at(group.target_epoch)
        and group.epoch == group.target_epoch
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == UNSAID
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id == member.instance_id
        and not group.subscriptions.regexes
        and not group.must_check_topics
        and client_id == member.client_id
        and host == member.client_host
        and member.classic is None
    )


def _join_or_go_on(
    shard: GroupShard,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    at: Moment,
    out: Effects,
) -> ConsumerGroupHeartbeatResponse | Refusal:
    joins = request.member_epoch == JOINING
    group = consumer_group_for(shard, request.group_id, joins, at, out)
    if isinstance(group, Refusal):
        return group
    size_max = shard.settings.consumer_size_max
    if len(group.members) >= size_max and request.member_id not in group.members:
        return Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )
    member_id = request.member_id or uuid_text(shard.chance.uuid())
    owned = None
    if request.topic_partitions is not None:
        owned = {it.topic_id: it.partitions for it in request.topic_partitions if it.partitions}
    member = find_member(group, member_id, request.instance_id, request.member_epoch, owned, out)
    if isinstance(member, Refusal):
        return member
    updated = _updated(group, member, request, client)
    new = carry_out(shard, group, Change(member, updated, owned, client.sees), at, out)
    if isinstance(new, Refusal):
        return new
    pace = shard.consumers.pace(group.group_id)
    if joins:
        begin_session(group, member_id, pace.session_ms, at, out)
    else:
        renew_session(group, member_id, pace.session_ms, at.mono)
    response = _answer(new, pace.heartbeat_ms)
    if joins or _is_full(request) or new.assigned != member.assigned:
        response.assignment = _assignment(new.assigned)
    return response


def _updated(
    group: ConsumerGroup, member: Member, request: ConsumerGroupHeartbeatRequest, client: Client
) -> Member:
    """The member with what the request says; what it does not mention is as it was."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == UNSAID else timeout_ms,
        topics=member.topics if names is None else group.subscriptions.shared(frozenset(names)),
        regex=member.regex if regex is None else regex,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        client_id=client.client_id,
        client_host=client.host,
        classic=None,
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the client said all that there is, and so expects to hear all."""
    wants = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    says_owned = request.topic_partitions is not None
    return wants and says_owned and request.rebalance_timeout_ms != UNSAID


def _answer(member: Member, heartbeat_ms: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id, member_epoch=member.epoch, heartbeat_interval_ms=heartbeat_ms
    )


def _assignment(held: Held) -> Assignment:
    return Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(
                topic_id=topic_id, partitions=sorted(numbers)
            )
            for topic_id, numbers in held.items()
        ]
    )

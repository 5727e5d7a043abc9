"""JoinGroup, versions 0 to 9: become a member of a classic group, or stay one.

Version 1 brought a timeout of its own for rebalances; version 4 gives a new member its id first, to
come back with; version 5 brought static members, version 7 the protocol's type in the answer,
version 8 a reason, for our log; version 9 can tell a leader not to assign. It takes a right to read
the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.joining import Join, join
from penstock.coordination.group.classic.replies import join_refused
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.join_group import JoinGroupResponse
from penstock.server.rights import may_group
from penstock.server.topic_rights import sight

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.join_group import JoinGroupRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_ID_FIRST_FROM = 4
_NULL_FROM = 7
"""The first version in which an answer need not name a protocol."""
_CAN_SKIP_FROM = 9


def handle(
    broker: Broker, call: Call, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """The answer comes with the next generation, if the member is let in."""
    answer = _join(broker, call, request)
    if call.version >= _NULL_FROM:
        return answer
    if isinstance(answer, JoinGroupResponse):
        return _named(answer)
    return _wait_and_name(answer)


def _join(
    broker: Broker, call: Call, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if not may_group(broker, call, Operation.READ, request.group_id):
        return join_refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return join_refused(ErrorCode.INVALID_GROUP_ID, request.member_id)
    if not _session_is_in_bounds(broker, request.session_timeout_ms):
        return join_refused(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    asked = _asked(broker, call, request)
    answer: JoinGroupResponse | Awaitable[JoinGroupResponse] = broker.coordinators.groups.call(
        request.group_id,
        lambda shard, at, out, ticket: join(shard, at, out, ticket, asked),
        join_refused,
    )
    return answer


async def _wait_and_name(answer: Awaitable[JoinGroupResponse]) -> JoinGroupResponse:
    return _named(await answer)


def _named(response: JoinGroupResponse) -> JoinGroupResponse:
    """Older clients expect a name where there is none."""
    if response.protocol_name is None:
        response.protocol_name = ""
    return response


def _session_is_in_bounds(broker: Broker, session_timeout_ms: int) -> bool:
    number = broker.config.get_int
    low, high = number("group.min.session.timeout.ms"), number("group.max.session.timeout.ms")
    return low <= session_timeout_ms <= high


def _asked(broker: Broker, call: Call, request: JoinGroupRequest) -> Join:
    session = request.session_timeout_ms
    return Join(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id or "",
        client_host=java_address(call.host),
        protocol_type=request.protocol_type,
        protocols=tuple((it.name, bytes(it.metadata)) for it in request.protocols),
        session_timeout_ms=session,
        rebalance_timeout_ms=request.rebalance_timeout_ms if call.version else session,
        id_first=call.version >= _ID_FIRST_FROM,
        can_skip=call.version >= _CAN_SKIP_FROM,
        sees=sight(broker, call),
    )


def java_address(host: str) -> str:
    """A client's address as Kafka's records and tools spell it."""
    if ":" in host:
        from ipaddress import IPv6Address

        groups = IPv6Address(host.partition("%")[0]).exploded.split(":")
        host = ":".join(format(int(it, 16), "x") for it in groups)
    return f"/{host}"

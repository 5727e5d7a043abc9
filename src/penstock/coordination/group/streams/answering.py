"""What a member hears: its epoch, its tasks if they are news, and where others can be queried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.streams.endpoints import partitions_by_endpoint
from penstock.coordination.group.streams.member import JOINING
from penstock.coordination.group.streams.status import StatusCode, status
from penstock.protocol.generated.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseTaskIds,
)

if TYPE_CHECKING:
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.streams.changing import Changed
    from penstock.coordination.group.streams.group import StreamsGroup
    from penstock.coordination.group.streams.member import Member
    from penstock.coordination.group.streams.tasks import Assignment, Tasks
    from penstock.protocol.generated.streams_group_heartbeat import StreamsGroupHeartbeatRequest


def answer(
    shard: GroupShard,
    group: StreamsGroup,
    request: StreamsGroupHeartbeatRequest,
    before: Member,
    owned: Assignment | None,
    changed: Changed,
) -> StreamsGroupHeartbeatResponse:
    """The answer to a heartbeat that was granted.

    `before` is the member as it came, and `owned` what it says to have. If that is not what it was
    told to have, it is told again: an answer may have been lost on its way, and its epoch does not
    show that. (Kafka does not; there such a member waits for the next change, or is fenced.)
    """
    member, statuses = changed.member, changed.statuses
    response = StreamsGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=shard.streams.pace(group.group_id).heartbeat_ms,
        status=statuses,
    )
    is_news = request.member_epoch == JOINING or _has_changed(member, before)
    if is_news or owned is not None:
        tasks = member.assigned.numbers()
        if is_news or tasks != owned:
            response.active_tasks = _ids(tasks.active)
            response.standby_tasks = _ids(tasks.standby)
            response.warmup_tasks = _ids(tasks.warmup)
    if is_news and member.endpoint is not None:
        group.endpoints_epoch += 1
    if group.endpoints_epoch != request.endpoint_information_epoch:
        others = [it for it in group.members.values() if it.member_id != member.member_id]
        response.partitions_by_user_endpoint = partitions_by_endpoint(
            [*others, member], changed.configured.work, shard.streams.image.topics
        )
    if group.group_id in shard.groups:  # else it is made by this very step, and made anew
        response.endpoint_information_epoch = group.endpoints_epoch
    if changed.configured.problem is not None:
        statuses.append(status(*changed.configured.problem))
    if group.shutdown_by is not None:
        what = f"Member {group.shutdown_by} has failed, and asks the whole application to stop."
        statuses.append(status(StatusCode.SHUTDOWN_APPLICATION, what))
    return response


def _has_changed(member: Member, before: Member) -> bool:
    if member.assigned is before.assigned:
        return False  # as with nearly all heartbeats
    return member.assigned.numbers() != before.assigned.numbers()


def _ids(tasks: Tasks) -> list[StreamsGroupHeartbeatResponseTaskIds]:
    return [
        StreamsGroupHeartbeatResponseTaskIds(subtopology_id=it, partitions=sorted(tasks[it]))
        for it in sorted(tasks)
    ]

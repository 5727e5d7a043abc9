"""AlterPartition, versions 2 and 3: a leader says who is in sync with it.

The leader knows best who keeps up; the controller knows best who leads and who is alive. So every
proposal names the epochs that it was made from, and one that is out of date changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.decision import Context, Decision
from penstock.controller.elections import settle
from penstock.controller.leaders import rules_for
from penstock.controller.partition_changes import PartitionChanges
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)

if TYPE_CHECKING:
    from penstock.metadata.topics import PartitionImage
    from penstock.protocol.generated.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionRequestPartitionData,
    )

RECOVERED, RECOVERING = 0, 1
EPOCHS_FROM = 3
"""From this version on, each member of the ISR comes with its broker's epoch."""
ANY_EPOCH = -1


def alter_partition(context: Context, request: AlterPartitionRequest) -> Decision:
    """AlterPartition: each partition succeeds or fails by itself."""
    if not context.speaks_for(request.broker_id, request.broker_epoch):
        return Decision([], AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    changes = PartitionChanges(context)
    topics = [
        AlterPartitionResponseTopicData(
            topic_id=topic.topic_id,
            partitions=[
                _altered(context, changes, request.broker_id, topic.topic_id, wanted)
                for wanted in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return Decision(changes.records, AlterPartitionResponse(topics=topics), atomic=False)


def _altered(
    context: Context,
    changes: PartitionChanges,
    leader: int,
    topic_id: bytes,
    wanted: AlterPartitionRequestPartitionData,
) -> AlterPartitionResponsePartitionData:
    index = wanted.partition_index
    topic = changes.topic_of(topic_id)
    if topic is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_ID)
    old = changes.partition(topic, index)
    if old is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    members = _members(context, wanted)
    error = (
        _out_of_date(old, leader, wanted)
        or _misstated(old, members, wanted)
        or _ineligible(context, members)
    )
    if error is not None:
        return _refused(index, error)
    asked = old._replace(recovering=wanted.leader_recovery_state == RECOVERING)
    isr = tuple(member.broker_id for member in members)
    settled = settle(asked, isr, rules_for(context, topic.name, old))
    state = changes.change(topic, index, old, settled)
    if state.leader != leader:
        # A move to other brokers is complete, and the leader was not to stay.
        return _refused(index, ErrorCode.NEW_LEADER_ELECTED)
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=RECOVERING if state.recovering else RECOVERED,
        partition_epoch=state.partition_epoch,
    )


def _members(context: Context, wanted: AlterPartitionRequestPartitionData) -> list[BrokerState]:
    if context.version >= EPOCHS_FROM:
        return wanted.new_isr_with_epochs
    return [BrokerState(broker_id=node, broker_epoch=ANY_EPOCH) for node in wanted.new_isr]


def _out_of_date(
    partition: PartitionImage, leader: int, wanted: AlterPartitionRequestPartitionData
) -> ErrorCode | None:
    """Whether the proposal was made from another state than the latest."""
    if wanted.leader_epoch > partition.leader_epoch:
        return ErrorCode.NOT_CONTROLLER  # there is one who knows more: ask around
    if wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return None


def _misstated(
    partition: PartitionImage,
    members: list[BrokerState],
    wanted: AlterPartitionRequestPartitionData,
) -> ErrorCode | None:
    """Whether the proposal makes no sense from any state."""
    isr = {member.broker_id for member in members}
    recovering = wanted.leader_recovery_state == RECOVERING
    if (
        len(isr) != len(members)
        or not isr <= set(partition.replicas)
        or partition.leader not in isr
        or wanted.leader_recovery_state not in (RECOVERED, RECOVERING)
        # Who leads without having everything leads alone, until it says that it is done.
        or (recovering and len(isr) > 1)
        or (recovering and not partition.recovering)
    ):
        return ErrorCode.INVALID_REQUEST
    return None


def _ineligible(context: Context, members: list[BrokerState]) -> ErrorCode | None:
    """Whether a member of the ISR is not up, or not the process that was in sync."""
    for member in members:
        broker = context.image.cluster.brokers.get(member.broker_id)
        if broker is None or not broker.active:
            return ErrorCode.INELIGIBLE_REPLICA
        if member.broker_epoch not in (ANY_EPOCH, broker.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return None


def _refused(index: int, error: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=index, error_code=error)

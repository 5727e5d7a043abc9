"""AlterPartitionReassignments and ListPartitionReassignments: partitions move to other brokers.

A move adds the new replicas first and drops the old ones when all that stay are in sync; until then
it can be called off, or sent elsewhere. Each partition of a request succeeds or fails by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.assignment import moving_back, moving_to
from penstock.controller.decision import RECORDS_MAX, Context, Decision, Refusal
from penstock.controller.elections import Election, settle
from penstock.controller.leaders import rules_for, unclean_allowed
from penstock.controller.partition_changes import PartitionChanges
from penstock.controller.partitions import misassigned
from penstock.controller.placement import directory_for
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.metadata.topics import PartitionImage, TopicImage
    from penstock.protocol.generated.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )
    from penstock.protocol.generated.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
    )

_DONE = Refusal(ErrorCode.NONE)
_NOT_MOVING = Refusal(
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.message
)
_TOO_MANY = Refusal(
    ErrorCode.POLICY_VIOLATION, f"One request may move at most {RECORDS_MAX} partitions."
)


def alter_reassignments(context: Context, request: AlterPartitionReassignmentsRequest) -> Decision:
    """AlterPartitionReassignments: begin moves, send them elsewhere, or call them off."""
    changes = PartitionChanges(context)
    same_number = not request.allow_replication_factor_change
    responses = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            outcome = _altered(context, changes, topic.name, wanted, same_number)
            partitions.append(
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=outcome.error,
                    error_message=outcome.message,
                )
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=responses,
    )
    return Decision(changes.records, response)


def _altered(
    context: Context,
    changes: PartitionChanges,
    name: str,
    wanted: ReassignablePartition,
    same_number: bool,
) -> Refusal:
    """Change one partition; answers NONE, or why not."""
    index = wanted.partition_index
    topic = changes.topic(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    old = changes.partition(topic, index)
    if old is None:
        message = f"There is no partition {index} of topic '{name}'."
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if len(changes.records) >= RECORDS_MAX:
        return _TOO_MANY
    if wanted.replicas is None:
        new = _called_off(context, topic, index, old)
    else:
        new = _begun(context, topic, old, wanted.replicas, same_number)
    if isinstance(new, Refusal):
        return new
    changes.change(topic, index, old, new)
    return _DONE


def _begun(
    context: Context,
    topic: TopicImage,
    old: PartitionImage,
    target: Sequence[int],
    same_number: bool,
) -> PartitionImage | Refusal:
    problem = misassigned(context, target, None)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    # While it moves, a partition counts the replicas that it will have.
    count = len(set(old.replicas) - set(old.removing))
    if same_number and len(target) != count:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {count} replica(s) and would have {len(target)}, which the "
            "request does not allow.",
        )
    brokers = context.image.cluster.brokers
    moving = moving_to(old, target, lambda node: directory_for(brokers.get(node)))
    return settle(moving, moving.isr, rules_for(context, topic.name, moving, Election.ONLINE))


def _called_off(
    context: Context, topic: TopicImage, index: int, old: PartitionImage
) -> PartitionImage | Refusal:
    if not old.reassigning:
        return _NOT_MOVING
    back = moving_back(old)
    isr = tuple(node for node in old.isr if node in back.replicas)
    safe = isr or set(old.elr) & set(back.replicas)
    if not safe and not unclean_allowed(context, topic.name):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Only brokers that partition {index} of '{topic.name}' moves to are in sync: without "
            "them records would be lost, and the topic does not allow that.",
        )
    settled = settle(back, isr, rules_for(context, topic.name, back))
    if set(settled.isr) <= set(back.replicas):
        return settled
    # Nobody is up, and without ELR the ISR must not be empty: wait for the preferred leader.
    return settled._replace(isr=back.replicas[:1])


def list_reassignments(context: Context, request: ListPartitionReassignmentsRequest) -> Decision:
    """ListPartitionReassignments: all that move, or those of the topics asked about."""
    topics = context.image.topics
    asked: Iterable[tuple[TopicImage, Iterable[int]]]
    if request.topics is None:
        asked = ((topic, sorted(topic.partitions)) for topic in topics.by_id.values())
    else:
        asked = (
            (topics.by_name[wanted.name], wanted.partition_indexes)
            for wanted in request.topics
            if wanted.name in topics.by_name
        )
    found = []
    for topic, indexes in asked:
        partitions = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and partition.reassigning
        ]
        if partitions:
            found.append(OngoingTopicReassignment(name=topic.name, partitions=partitions))
    return Decision([], ListPartitionReassignmentsResponse(topics=found))

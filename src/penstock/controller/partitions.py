"""New partitions: placed by us, or where the client says; for CreateTopics and CreatePartitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.controller.decision import PARTITIONS_MAX, RECORDS_MAX, Context, Decision, Refusal
from penstock.controller.placement import candidates, directory_for, place
from penstock.metadata.topics import PartitionImage
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.protocol.generated.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

TOO_MANY = Refusal(
    ErrorCode.POLICY_VIOLATION,
    f"One topic may get at most {PARTITIONS_MAX} partitions at once, and one request may make at "
    f"most {RECORDS_MAX} changes.",
)


def placed(
    context: Context, start: int, count: int, replicas: int
) -> list[PartitionImage] | Refusal:
    """New partitions on brokers of our choice."""
    if count > PARTITIONS_MAX:
        return TOO_MANY
    brokers = candidates(context.image.cluster.brokers)
    found = place(brokers, start, count, replicas, context.chance)
    if isinstance(found, Refusal):
        return found
    made: dict[tuple[int, ...], PartitionImage] = {}
    partitions = []
    for nodes in found:
        partition = made.get(nodes)
        if partition is None:
            fresh = new_partition(context, nodes)
            if fresh is None:
                return Refusal(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"Unable to replicate the partition {replicas} time(s): "
                    "All brokers are currently fenced or in controlled shutdown.",
                )
            partition = made[nodes] = fresh
        partitions.append(partition)
    return partitions


def assigned(
    context: Context, start: int, assignments: Sequence[Sequence[int]], replicas: int | None
) -> list[PartitionImage] | Refusal:
    """New partitions where the client wants them; `replicas` is how many each must have."""
    if len(assignments) > PARTITIONS_MAX:
        return TOO_MANY
    partitions = []
    for index, nodes in enumerate(assignments, start):
        problem = _misassigned(context, nodes, replicas)
        if problem is not None:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        replicas = len(nodes)
        partition = new_partition(context, tuple(nodes))
        if partition is None:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in the manual partition assignment for partition "
                f"{index} are fenced or in controlled shutdown.",
            )
        partitions.append(partition)
    return partitions


def new_partition(context: Context, nodes: tuple[int, ...]) -> PartitionImage | None:
    """A partition's first state: the first broker that is up leads. None if none is up."""
    cluster = context.image.cluster
    isr = tuple(node for node in nodes if cluster.active(node))
    if not isr:
        return None
    directories = tuple(directory_for(cluster.brokers.get(node)) for node in nodes)
    return PartitionImage(nodes, directories, isr, isr[0], 0, 0)


def _misassigned(context: Context, nodes: Sequence[int], replicas: int | None) -> str | None:
    if not nodes:
        return "The manual partition assignment includes an empty replica list."
    for node in sorted(nodes):
        if node not in context.image.cluster.brokers:
            return (
                f"The manual partition assignment includes broker {node}, "
                "but no such broker is registered."
            )
    if len(set(nodes)) != len(nodes):
        twice = next(node for node in sorted(nodes) if nodes.count(node) > 1)
        return f"The manual partition assignment includes the broker {twice} more than once."
    if replicas is not None and len(nodes) != replicas:
        return (
            f"The manual partition assignment includes a partition with {len(nodes)} replica(s), "
            f"but the partitions before it have {replicas}."
        )
    return None


def create_partitions(context: Context, request: CreatePartitionsRequest) -> Decision:
    """CreatePartitions: each topic succeeds or fails by itself."""
    named = [topic.name for topic in request.topics]
    twice = (
        {name for name in named if named.count(name) > 1} if len(set(named)) < len(named) else ()
    )
    records: list[Any] = []
    results = [_result(name, _DUPLICATE) for name in sorted(twice)]
    for topic in request.topics:
        if topic.name in twice:
            continue
        outcome = _grown(context, topic)
        if isinstance(outcome, Refusal):
            results.append(_result(topic.name, outcome))
        elif len(records) + len(outcome) > RECORDS_MAX:
            results.append(_result(topic.name, TOO_MANY))
        else:
            records.extend(outcome)
            results.append(CreatePartitionsTopicResult(name=topic.name))
    response = CreatePartitionsResponse(results=results)
    return Decision([] if request.validate_only else records, response)


_DUPLICATE = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def _result(name: str, refusal: Refusal) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name, error_code=refusal.error, error_message=refusal.message
    )


def _grown(context: Context, wanted: CreatePartitionsTopic) -> list[Any] | Refusal:
    topic = context.image.topics.by_name.get(wanted.name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    count = len(topic.partitions)
    if wanted.count == count:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if wanted.count < count:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {count} partition(s); "
            f"{wanted.count} would not be an increase.",
        )
    more = wanted.count - count
    replicas = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        made = placed(context, count, more, replicas)
    elif len(wanted.assignments) != more:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {more} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified.",
        )
    else:
        nodes = [assignment.broker_ids for assignment in wanted.assignments]
        made = assigned(context, count, nodes, replicas)
    if isinstance(made, Refusal):
        return made
    return [partition.record(topic.id, index) for index, partition in enumerate(made, count)]

"""New partitions: placed by us, or where the client says; for CreateTopics and CreatePartitions."""

from __future__ import annotations

from collections import Counter
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
    context: Context, start: int, count: int, replicas: int, room: int
) -> list[PartitionImage] | Refusal:
    """New partitions on brokers of our choice, `room` of them at the most."""
    if count > min(room, PARTITIONS_MAX):
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
                    "No broker is up to lead the new partitions: all are fenced or shutting down.",
                )
            partition = made[nodes] = fresh
        partitions.append(partition)
    return partitions


def assigned(
    context: Context,
    start: int,
    assignments: Sequence[Sequence[int]],
    replicas: int | None,
    room: int,
) -> list[PartitionImage] | Refusal:
    """New partitions where the client wants them; `replicas` is how many each must have."""
    if len(assignments) > min(room, PARTITIONS_MAX):
        return TOO_MANY
    partitions = []
    for index, nodes in enumerate(assignments, start):
        problem = misassigned(context, nodes, replicas)
        if problem is not None:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        replicas = len(nodes)
        partition = new_partition(context, tuple(nodes))
        if partition is None:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"No broker assigned to partition {index} is up: all are fenced or shutting down.",
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


def misassigned(context: Context, nodes: Sequence[int], replicas: int | None) -> str | None:
    """Why a partition cannot be on these nodes, or None; `replicas` is how many it must have."""
    if not nodes:
        return "A partition is assigned to no broker at all."
    for node in sorted(nodes):
        if node not in context.image.cluster.brokers:
            return f"A partition is assigned to broker {node}, which is not registered."
    if len(set(nodes)) != len(nodes):
        twice = next(node for node in sorted(nodes) if nodes.count(node) > 1)
        return f"A partition is assigned to broker {twice} twice."
    if replicas is not None and len(nodes) != replicas:
        return (
            f"A partition is assigned to {len(nodes)} broker(s), "
            f"where the partitions before it have {replicas} replica(s)."
        )
    return None


def create_partitions(context: Context, request: CreatePartitionsRequest) -> Decision:
    """CreatePartitions: each topic succeeds or fails by itself."""
    named = Counter(topic.name for topic in request.topics)
    twice = {name for name, times in named.items() if times > 1}
    records: list[Any] = []
    results = [_result(name, _DUPLICATE) for name in sorted(twice)]
    for topic in request.topics:
        if topic.name in twice:
            continue
        outcome = _grown(context, topic, RECORDS_MAX - len(records))
        if isinstance(outcome, Refusal):
            results.append(_result(topic.name, outcome))
        else:
            records.extend(outcome)
            results.append(CreatePartitionsTopicResult(name=topic.name))
    response = CreatePartitionsResponse(results=results)
    return Decision([] if request.validate_only else records, response)


_DUPLICATE = Refusal(ErrorCode.INVALID_REQUEST, "The request names the topic twice.")


def _result(name: str, refusal: Refusal) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name, error_code=refusal.error, error_message=refusal.message
    )


def _grown(context: Context, wanted: CreatePartitionsTopic, room: int) -> list[Any] | Refusal:
    topic = context.image.topics.by_name.get(wanted.name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    count = len(topic.partitions)
    if wanted.count == count:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS, f"{topic.name} has {count} partition(s) already."
        )
    if wanted.count < count:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} has {count} partition(s), and a topic cannot shrink to {wanted.count}.",
        )
    more = wanted.count - count
    replicas = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        made = placed(context, count, more, replicas, room)
    elif len(wanted.assignments) != more:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{more} new partition(s) need as many assignments, not {len(wanted.assignments)}.",
        )
    else:
        nodes = [assignment.broker_ids for assignment in wanted.assignments]
        made = assigned(context, count, nodes, replicas, room)
    if isinstance(made, Refusal):
        return made
    refusal = context.too_fast(more)
    if refusal is not None:
        return refusal
    return [partition.record(topic.id, index) for index, partition in enumerate(made, count)]

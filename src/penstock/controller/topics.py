"""CreateTopics and DeleteTopics: each topic of a request succeeds or fails by itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.controller import isr_min
from penstock.controller.decision import (
    RECORDS_MAX,
    TOO_MUCH_CONFIG,
    ConfigRoom,
    Context,
    Decision,
    Refusal,
)
from penstock.controller.partitions import assigned, placed
from penstock.controller.topic_names import METADATA_TOPIC, TopicNames, refuse_name
from penstock.metadata.configs import TOPIC
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated.create_topics import CreatableTopicResult, CreateTopicsResponse
from penstock.protocol.generated.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from penstock.protocol.generated.metadata_records import (
    ConfigRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from penstock.metadata.topics import PartitionImage, TopicImage
    from penstock.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
    from penstock.protocol.generated.delete_topics import DeleteTopicsRequest

T = TypeVar("T")

_DUPLICATE_NAME = Refusal(ErrorCode.INVALID_REQUEST, "The request names the topic twice.")
_PROHIBITED = Refusal(
    ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is the cluster's own and cannot be created."
)


def create_topics(context: Context, request: CreateTopicsRequest) -> Decision:
    """CreateTopics: the records of all the topics that may be are one atomic batch."""
    seen: set[str] = set()
    twice: set[str] = set()
    for topic in request.topics:
        (twice if topic.name in seen else seen).add(topic.name)
    fresh = TopicNames()
    config_room = ConfigRoom()
    records: list[Any] = []
    results = []
    for topic in request.topics:
        if topic.name in twice:
            continue
        outcome = _refused(context, topic, fresh) or _created(context, topic, records, config_room)
        if isinstance(outcome, Refusal):
            results.append(_failure(topic.name, outcome))
        else:
            fresh.add(topic.name)
            results.append(outcome)
    results.extend(_failure(name, _DUPLICATE_NAME) for name in sorted(twice))
    response = CreateTopicsResponse(topics=results)
    return Decision([] if request.validate_only else records, response)


def _failure(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.error, error_message=refusal.message)


def _refused(context: Context, topic: CreatableTopic, fresh: TopicNames) -> Refusal | None:
    """Why the topic may not be, as far as its name and configuration tell."""
    name = topic.name
    if name == METADATA_TOPIC:
        return _PROHIBITED
    if name in context.image.topics.by_name:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    refusal = refuse_name(name, context.names, fresh)
    if refusal is not None or not topic.configs:
        return refusal
    return context.rules.refuse(TOPIC, name, {c.name: c.value for c in topic.configs})


def _created(
    context: Context, topic: CreatableTopic, records: list[Any], config_room: ConfigRoom
) -> CreatableTopicResult | Refusal:
    room = RECORDS_MAX - len(records) - 1 - len(topic.configs)
    partitions = _partitions(context, topic, room)
    if isinstance(partitions, Refusal):
        return partitions
    # Sorted, so that the same request always makes the same records.
    overrides = {c.name: c.value for c in sorted(topic.configs, key=lambda c: c.name)}
    if not config_room.take(topic.name, overrides):
        return TOO_MUCH_CONFIG
    refusal = context.too_fast(len(partitions))
    if refusal is not None:
        return refusal
    topic_id = context.chance.uuid()
    records.append(TopicRecord(name=topic.name, topic_id=topic_id))
    for key, value in overrides.items():
        record = ConfigRecord(resource_type=TOPIC, resource_name=topic.name, name=key, value=value)
        records.append(record)
        records.extend(isr_min.after_change(context, record))
    for index, partition in enumerate(partitions):
        records.append(partition.record(topic_id, index))
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=context.rules.created_configs(overrides, context.image.configs),
    )


def _partitions(
    context: Context, topic: CreatableTopic, room: int
) -> list[PartitionImage] | Refusal:
    if topic.assignments:
        return _manual(context, topic, room)
    factor, count = topic.replication_factor, topic.num_partitions
    if factor < -1 or factor == 0:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"A topic needs at least 1 replica, or -1 for the default, not {factor}.",
        )
    if count < -1 or count == 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"A topic needs at least 1 partition, or -1 for the default, not {count}.",
        )
    settings = context.settings
    return placed(
        context,
        0,
        settings.partitions_default if count == -1 else count,
        settings.replication_default if factor == -1 else factor,
        room,
    )


def _manual(context: Context, topic: CreatableTopic, room: int) -> list[PartitionImage] | Refusal:
    for name, value in (
        ("the replication factor", topic.replication_factor),
        ("the partition count", topic.num_partitions),
    ):
        if value != -1:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Replicas are assigned by hand, so {name} must be -1, not {value}.",
            )
    by_index = {a.partition_index: a.broker_ids for a in topic.assignments}
    if len(by_index) != len(topic.assignments):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "A partition has more than one manual assignment.",
        )
    if sorted(by_index) != list(range(len(by_index))):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The partitions of a manual assignment must be numbered from 0 without a gap.",
        )
    return assigned(context, 0, [by_index[i] for i in range(len(by_index))], None, room)


def delete_topics(context: Context, request: DeleteTopicsRequest) -> Decision:
    """DeleteTopics, by name or by id."""
    responses: list[DeletableTopicResult] = []
    names, ids = _wanted(request, responses)
    if not context.settings.delete_topics:
        return Decision([], _all_refused(names, ids, context.version))
    doomed: dict[bytes, str | None] = {}
    topics = context.image.topics
    for topic_id in ids:
        found = topics.by_id.get(topic_id)
        if found is None:
            responses.append(_unknown(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            doomed[topic_id] = found.name
    for name in names:
        _doom(name, topics.by_name.get(name), doomed, responses)
    records = []
    for topic_id, doomed_name in doomed.items():
        if doomed_name is None:
            continue
        refusal = context.too_fast(len(topics.by_id[topic_id].partitions))
        if refusal is None:
            records.append(RemoveTopicRecord(topic_id=topic_id))
            responses.append(DeletableTopicResult(name=doomed_name, topic_id=topic_id))
        else:
            responses.append(
                DeletableTopicResult(
                    name=doomed_name,
                    topic_id=topic_id,
                    error_code=refusal.error,
                    error_message=refusal.message,
                )
            )
    return Decision(records, DeleteTopicsResponse(responses=responses))


def _doom(
    name: str,
    topic: TopicImage | None,
    doomed: dict[bytes, str | None],
    responses: list[DeletableTopicResult],
) -> None:
    if topic is None:
        responses.append(_unknown(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    elif topic.id in doomed:
        doomed[topic.id] = None  # asked for twice: neither request is taken
        responses.append(_refusal(name, topic.id, "The topic's name and its id were both given."))
    else:
        doomed[topic.id] = name


def _wanted(
    request: DeleteTopicsRequest, responses: list[DeletableTopicResult]
) -> tuple[list[str], list[bytes]]:
    """Names and ids that were given once; what was given wrongly is answered right away."""
    names: list[str] = list(request.topic_names)
    ids: list[bytes] = []
    for topic in request.topics:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            responses.append(_refusal(None, ZERO_UUID, "Give the topic's name or its id."))
        elif topic.name is None:
            ids.append(topic.topic_id)
        elif topic.topic_id == ZERO_UUID:
            names.append(topic.name)
        else:
            responses.append(
                _refusal(topic.name, topic.topic_id, "Give the topic's name or its id, not both.")
            )
    names, names_twice = _once_and_twice(names)
    message = "The request names the topic twice."
    responses.extend(_refusal(name, ZERO_UUID, message) for name in names_twice)
    ids, ids_twice = _once_and_twice(ids)
    message = "The request has the topic's id twice."
    responses.extend(_refusal(None, topic_id, message) for topic_id in ids_twice)
    return names, ids


def _once_and_twice(given: list[T]) -> tuple[list[T], list[T]]:
    times = Counter(given)
    return [it for it in given if times[it] == 1], [it for it, count in times.items() if count > 1]


def _refusal(name: str | None, topic_id: bytes, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=message
    )


def _unknown(name: str | None, topic_id: bytes, error: ErrorCode) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error, error_message=error.message
    )


def _all_refused(names: list[str], ids: list[bytes], version: int) -> DeleteTopicsResponse:
    # Clients older than the error code take an invalid request for an answer.
    error = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    refused = [_unknown(name, ZERO_UUID, error) for name in names]
    refused.extend(_unknown(None, topic_id, error) for topic_id in ids)
    return DeleteTopicsResponse(responses=refused)

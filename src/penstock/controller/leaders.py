"""Partition changes that follow when a broker comes or goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.controller.config_rules import UNCLEAN_ELECTION
from penstock.controller.decision import Context
from penstock.controller.elections import Election, Rules, change_record, settle
from penstock.controller.isr_min import isr_min_of
from penstock.metadata.configs import TOPIC
from penstock.metadata.topics import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
)
from penstock.model.ids import NO_NODE, ZERO_UUID
from penstock.protocol.generated.metadata_records import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.metadata.topics import PartitionImage, TopicImage


def after_leaving(context: Context, broker: int) -> list[PartitionChangeRecord]:
    """A broker was fenced or is shutting down: it leaves every ISR, and leads nothing."""
    return _changes(
        context,
        touched=lambda p: broker in p.isr or p.leader == broker,
        isr_of=lambda p: tuple(node for node in p.isr if node != broker),
        acceptable=lambda node: node != broker and context.image.cluster.active(node),
    )


def after_unclean_stop(context: Context, broker: int) -> list[PartitionChangeRecord]:
    """A broker stopped without flushing: it may have lost what it acknowledged."""
    return _changes(
        context,
        touched=lambda p: broker in p.isr or broker in p.elr or p.leader == broker,
        isr_of=lambda p: tuple(node for node in p.isr if node != broker),
        acceptable=lambda node: node != broker and context.image.cluster.active(node),
        lost=broker,
    )


def after_return(context: Context, broker: int) -> list[PartitionChangeRecord]:
    """A broker was unfenced: it may lead partitions that have nobody."""
    return _changes(
        context,
        touched=lambda p: p.leader == NO_NODE,
        isr_of=lambda p: p.isr,
        acceptable=lambda node: node == broker or context.image.cluster.active(node),
    )


def after_directories_failed(
    context: Context, broker: int, directories: frozenset[bytes]
) -> list[PartitionChangeRecord]:
    """Directories of a broker went offline: what lies in them is neither led nor followed."""
    return _changes(
        context,
        touched=lambda p: broker in p.isr and p.directory_of(broker) in directories,
        isr_of=lambda p: tuple(node for node in p.isr if node != broker),
        acceptable=lambda node: node != broker and context.image.cluster.active(node),
    )


def rules_for(
    context: Context, topic: str, partition: PartitionImage, election: Election | None = None
) -> Rules:
    """What an election goes by when every broker that is up may lead; it goes as far as the topic
    allows if it is not said how far."""
    if election is None:
        election = Election.UNCLEAN if unclean_allowed(context, topic) else Election.ONLINE
    return Rules(
        lambda node: _usable(context, partition, node),
        context.image.features.elr_enabled,
        # A partition cannot be asked for more replicas in sync than it has.
        min(isr_min_of(context, topic), len(partition.replicas)),
        election,
    )


def without_replica(
    context: Context, topic: TopicImage, index: int, broker: int
) -> PartitionChangeRecord | None:
    """One replica cannot be used: the change that takes it out of its partition's ISR."""
    partition = topic.partitions[index]
    usable = rules_for(context, topic.name, partition)
    rules = usable._replace(acceptable=lambda node: node != broker and usable.acceptable(node))
    isr = tuple(node for node in partition.isr if node != broker)
    return change_record(topic.id, index, partition, settle(partition, isr, rules))


def leads_any(context: Context, broker: int) -> bool:
    return any(
        partition.leader == broker
        for topic in context.image.topics.by_id.values()
        for partition in topic.partitions.values()
    )


def _changes(
    context: Context,
    *,
    touched: Callable[[PartitionImage], bool],
    isr_of: Callable[[PartitionImage], tuple[int, ...]],
    acceptable: Callable[[int], bool],
    lost: int | None = None,
) -> list[PartitionChangeRecord]:
    records = []
    elr_enabled = context.image.features.elr_enabled
    known: dict[Any, PartitionChangeRecord | None] = {}
    for topic, index, partition in _partitions(context):
        if not touched(partition):
            continue
        # A partition cannot be asked for more replicas in sync than it has.
        isr_min = min(isr_min_of(context, topic.name), len(partition.replicas))
        allowed = unclean_allowed(context, topic.name)
        # Most partitions of a broker are in one of a few states: each is thought through once.
        key = (_without_epochs(partition), isr_min, allowed)
        change = known.get(key, _UNSEEN)
        if change is _UNSEEN:
            rules = Rules(
                _in_working_directory(context, partition, acceptable),
                elr_enabled,
                isr_min,
                Election.UNCLEAN if allowed else Election.ONLINE,
                () if lost is None else (lost,),
            )
            settled = settle(partition, isr_of(partition), rules)
            change = known[key] = change_record(ZERO_UUID, 0, partition, settled)
        if change is not None:
            records.append(_for(change, topic.id, index))
    return records


def _in_working_directory(
    context: Context, partition: PartitionImage, acceptable: Callable[[int], bool]
) -> Callable[[int], bool]:
    return lambda node: acceptable(node) and _directory_works(context, partition, node)


def _usable(context: Context, partition: PartitionImage, node: int) -> bool:
    return context.image.cluster.active(node) and _directory_works(context, partition, node)


def _directory_works(context: Context, partition: PartitionImage, node: int) -> bool:
    broker = context.image.cluster.brokers.get(node)
    directory = partition.directory_of(node)
    if broker is None or directory is None or directory == DIRECTORY_LOST:
        return False
    # Not said yet where, by the broker or by a release that did not ask: taken on trust.
    unknown = directory in (DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED)
    return unknown or not broker.directories or directory in broker.directories


_UNSEEN = PartitionChangeRecord()


def _without_epochs(partition: PartitionImage) -> tuple[Any, ...]:
    return partition[:4] + partition[6:]


def _for(change: PartitionChangeRecord, topic_id: bytes, index: int) -> PartitionChangeRecord:
    """The same change of another partition. Records are never altered, so lists may be shared."""
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=change.isr,
        leader=change.leader,
        replicas=change.replicas,
        removing_replicas=change.removing_replicas,
        adding_replicas=change.adding_replicas,
        directories=change.directories,
        leader_recovery_state=change.leader_recovery_state,
        eligible_leader_replicas=change.eligible_leader_replicas,
        last_known_elr=change.last_known_elr,
    )


def _partitions(context: Context) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic in context.image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            yield topic, index, partition


def unclean_allowed(context: Context, topic: str) -> bool:
    """Whether a replica that lags may lead a topic's partitions when nobody else can."""
    value = context.image.configs.of(TOPIC, topic).get(UNCLEAN_ELECTION)
    if value is None:
        return context.rules.unclean_default(context.image.configs)
    return value.strip().lower() == "true"

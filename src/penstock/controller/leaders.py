"""Partition changes that follow when a broker comes or goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.decision import Context
from penstock.controller.elections import Election, Rules, change_record, settle
from penstock.metadata.configs import BROKER, TOPIC
from penstock.model.ids import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.metadata.topics import PartitionImage, TopicImage
    from penstock.protocol.generated.metadata_records import PartitionChangeRecord

_ISR_MIN = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"


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
    if not context.image.features.elr_enabled:
        return []
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
        unclean=context.settings.unclean_recovery,
    )


def leads_any(context: Context, broker: int) -> bool:
    return any(
        partition.leader == broker
        for topic in context.image.topics.by_id.values()
        for partition in topic.partitions.values()
    )


def isr_min_of(context: Context, topic: str) -> int:
    """min.insync.replicas of a topic: its own, the cluster's, or the controller's setting."""
    configs = context.image.configs
    value = configs.of(TOPIC, topic).get(_ISR_MIN) or configs.of(BROKER, "").get(_ISR_MIN)
    return int(value) if value else context.settings.isr_min_default


def _changes(
    context: Context,
    *,
    touched: Callable[[PartitionImage], bool],
    isr_of: Callable[[PartitionImage], tuple[int, ...]],
    acceptable: Callable[[int], bool],
    lost: int | None = None,
    unclean: bool = False,
) -> list[PartitionChangeRecord]:
    records = []
    rules_of: dict[tuple[int, bool], Rules] = {}
    elr_enabled = context.image.features.elr_enabled
    for topic, index, partition in _partitions(context):
        if not touched(partition):
            continue
        key = (isr_min_of(context, topic.name), unclean and _unclean_allowed(context, topic.name))
        rules = rules_of.get(key)
        if rules is None:
            rules = rules_of[key] = Rules(
                acceptable,
                elr_enabled,
                key[0],
                Election.UNCLEAN if key[1] else Election.ONLINE,
                () if lost is None else (lost,),
            )
        # A partition is as safe as its replicas are many: fewer replicas than the minimum
        # cannot be asked for more.
        if rules.isr_min > len(partition.replicas):
            rules = rules._replace(isr_min=len(partition.replicas))
        settled = settle(partition, isr_of(partition), rules)
        record = change_record(topic.id, index, partition, settled)
        if record is not None:
            records.append(record)
    return records


def _partitions(context: Context) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic in context.image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            yield topic, index, partition


def _unclean_allowed(context: Context, topic: str) -> bool:
    configs = context.image.configs
    value = configs.of(TOPIC, topic).get(_UNCLEAN) or configs.of(BROKER, "").get(_UNCLEAN)
    return value is not None and value.strip().lower() == "true"

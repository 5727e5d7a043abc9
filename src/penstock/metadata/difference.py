"""What changed from one image to another, where no records say so: a snapshot took their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import MetadataImage
from penstock.metadata.topics import TopicChange, TopicImage, TopicsDelta, TopicsImage

K = TypeVar("K")
V = TypeVar("V")


def between(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """The delta that makes `new` out of `old`; parts that are equal are not in it."""
    delta = MetadataDelta(old)
    if old.features != new.features:
        levels = _changed(old.features.levels, new.features.levels)
        delta.begin("features").changed = {name: level or 0 for name, level in levels.items()}
    if old.cluster != new.cluster:
        cluster = delta.begin("cluster")
        cluster.brokers = _changed(old.cluster.brokers, new.cluster.brokers)
        cluster.controllers = _changed(old.cluster.controllers, new.cluster.controllers)
    if old.topics != new.topics:
        _topics(delta.begin("topics"), old.topics, new.topics)
    if old.configs != new.configs:
        configs = delta.begin("configs")
        if delta.topics is not None:
            for topic in delta.topics.deleted.values():
                configs.remove_topic(topic.name)
        # A topic that was made anew begins without what the old one of its name was told.
        kept = {k: v for k, v in old.configs.resources.items() if k not in configs.removed}
        configs.changed = _nested(kept, new.configs.resources)
    if old.client_quotas != new.client_quotas:
        quotas = delta.begin("client_quotas")
        quotas.changed = _nested(old.client_quotas.entities, new.client_quotas.entities)
    if old.producer_ids != new.producer_ids:
        delta.begin("producer_ids").next_id = new.producer_ids.next_id
    for name, entries in (("acls", "by_id"), ("scram", "users"), ("delegation_tokens", "by_id")):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            delta.begin(name).changed = _changed(getattr(before, entries), getattr(after, entries))
    return delta


def _changed(old: Mapping[K, V], new: Mapping[K, V]) -> dict[K, V | None]:
    """New values by key, None for what is gone."""
    gone: dict[K, V | None] = {key: None for key in old if key not in new}
    return gone | {key: value for key, value in new.items() if old.get(key) != value}


def _nested(old: Mapping[K, Mapping[str, Any]], new: Mapping[K, Mapping[str, Any]]) -> Any:
    return {
        key: _changed(old.get(key, {}), new.get(key, {}))
        for key in {**old, **new}
        if old.get(key, {}) != new.get(key, {})
    }


def _topics(delta: TopicsDelta, old: TopicsImage, new: TopicsImage) -> None:
    delta.deleted = {key: topic for key, topic in old.by_id.items() if key not in new.by_id}
    for topic_id, topic in new.by_id.items():
        change = _topic(old.by_id.get(topic_id), topic)
        if change is not None:
            delta.changed[topic_id] = change


def _topic(old: TopicImage | None, new: TopicImage) -> TopicChange | None:
    change = TopicChange(new.name, new.id, old)
    change.partitions = {
        index: partition
        for index, partition in new.partitions.items()
        if change.old(index) != partition
    }
    return change if old is None or change.partitions else None

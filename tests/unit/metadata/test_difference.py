"""A snapshot in the place of records: the difference between two images makes one of the other."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.difference import between
from penstock.metadata.image import EMPTY, MetadataImage
from penstock.metadata.loader import ImageLoader, folded
from penstock.protocol.generated import metadata_records as m

from .samples import broker, config, feature, partition, topic

TOPIC = 2


def random_image(chance: random.Random) -> MetadataImage:
    """A few of everything, so that two of them share some, differ in some, and lack some."""
    records: list[Any] = [feature(level=chance.choice((29, 30)))]
    records += [broker(number, chance.randint(1, 2)) for number in (1, 2) if chance.random() < 0.6]
    for name in "abc":
        if chance.random() < 0.6:
            topic_id = (name + chance.choice("12")).encode() * 8
            records.append(topic(name, topic_id))
            for index in range(2):
                leader = chance.choice((1, 2))
                records.append(partition(index, topic_id, leader=leader))
        for key in ("retention.ms", "segment.bytes"):
            if chance.random() < 0.4:
                records.append(config(TOPIC, name, key, str(chance.randint(1, 2))))
    if chance.random() < 0.5:
        records.append(m.ProducerIdsRecord(broker_id=1, next_producer_id=chance.randint(1, 2)))
    for user in ("ann", "bob"):
        if chance.random() < 0.5:
            who = [m.EntityData(entity_type="user", entity_name=user)]
            rate = float(chance.randint(1, 2))
            records.append(m.ClientQuotaRecord(entity=who, key="producer_byte_rate", value=rate))
    return MetadataDelta(EMPTY).replay_all(records).apply(chance.randint(1, 99), 1)


@pytest.mark.parametrize("seed", range(60))
def test_the_difference_makes_the_new_image_out_of_the_old(seed: int) -> None:
    chance = random.Random(seed)
    old, new = random_image(chance), random_image(chance)
    assert between(old, new).apply(new.offset, new.epoch) == new
    assert between(new, EMPTY).apply(0, 0) == EMPTY
    assert between(new, new).empty


def test_a_topic_that_was_made_anew_is_told_as_deleted_and_created() -> None:
    old = MetadataDelta(EMPTY).replay_all([topic("a", b"1" * 16)]).apply(0, 1)
    new = MetadataDelta(EMPTY).replay_all([topic("a", b"2" * 16)]).apply(1, 1)
    delta = between(old, new).topics
    assert delta is not None
    assert list(delta.deleted) == [b"1" * 16]
    assert delta.changed[b"2" * 16].before is None


def test_what_was_replayed_and_not_told_yet_gives_way_to_a_snapshot() -> None:
    loader = ImageLoader()
    loader.replay([feature(), topic("a", b"1" * 16), m.BeginTransactionRecord()], 2, 1)
    loader.replace(folded([feature(), topic("b", b"2" * 16)], 20, 2))
    image, delta = loader.publish()
    assert sorted(image.topics.by_name) == ["b"]
    assert (image.offset, image.epoch, loader.in_transaction) == (20, 2, False)
    assert delta.topics is not None and not delta.topics.deleted

from __future__ import annotations

import pytest

from penstock.metadata.configs import TOPIC
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY, MetadataImage
from penstock.metadata.topics import DIRECTORY_MIGRATING
from penstock.model.invariants import InvariantViolated
from penstock.protocol.generated.metadata_records import ClearElrRecord, RemoveTopicRecord

from . import samples
from .samples import TOPIC_A, TOPIC_B


def image_of(*records: object) -> MetadataImage:
    return MetadataDelta(EMPTY).replay_all(records).apply(7, 2)


@pytest.fixture
def image() -> MetadataImage:
    return image_of(samples.topic(), samples.partition(0), samples.partition(1))


def test_a_new_topic_is_found_by_name_and_by_id(image: MetadataImage) -> None:
    topic = image.topics.by_name["a"]
    assert topic is image.topics.by_id[TOPIC_A]
    assert sorted(topic.partitions) == [0, 1]
    assert (image.offset, image.epoch) == (7, 2)
    assert image.topics.partition("a", 1) == topic.partitions[1]
    assert image.topics.partition("b", 0) is None


def test_a_delta_shares_with_the_old_image_what_it_does_not_touch(image: MetadataImage) -> None:
    delta = MetadataDelta(image).replay_all([samples.config(TOPIC, "a", "retention.ms", "1")])
    after = delta.apply(8, 2)
    assert after.topics is image.topics
    assert after.configs.of(TOPIC, "a") == {"retention.ms": "1"}
    assert image.configs.of(TOPIC, "a") == {}


def test_naming_a_leader_raises_the_leader_epoch(image: MetadataImage) -> None:
    record = samples.change(leader=2, isr=[2])
    after = MetadataDelta(image).replay_all([record]).apply(8, 2)
    state = after.topics.by_id[TOPIC_A].partitions[0]
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 4, 6)
    assert state.isr == (2,)
    assert state.replicas == (1, 2)


def test_a_change_without_a_leader_raises_only_the_partition_epoch(image: MetadataImage) -> None:
    record = samples.change(isr=[1], eligible_leader_replicas=[2], leader_recovery_state=1)
    after = MetadataDelta(image).replay_all([record]).apply(8, 2)
    state = after.topics.by_id[TOPIC_A].partitions[0]
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 3, 6)
    assert state.elr == (2,)
    assert state.recovering


def test_a_delta_tells_the_old_and_the_new_state_of_what_changed(image: MetadataImage) -> None:
    delta = MetadataDelta(image).replay_all([samples.change(1, leader=2)])
    assert delta.topics is not None
    change = delta.topics.changed[TOPIC_A]
    assert list(change.partitions) == [1]
    before = change.old(1)
    assert before is not None
    assert (before.leader, change.partitions[1].leader) == (1, 2)


def test_a_removed_topic_takes_its_configuration_along(image: MetadataImage) -> None:
    image = (
        MetadataDelta(image)
        .replay_all([samples.config(TOPIC, "a", "retention.ms", "1")])
        .apply(8, 2)
    )
    delta = MetadataDelta(image).replay_all([RemoveTopicRecord(topic_id=TOPIC_A)])
    after = delta.apply(9, 2)
    assert after.topics.by_name == {}
    assert after.configs.of(TOPIC, "a") == {}
    assert delta.topics is not None
    assert list(delta.topics.deleted) == [TOPIC_A]


def test_a_topic_deleted_and_created_again_has_its_new_id(image: MetadataImage) -> None:
    delta = MetadataDelta(image).replay_all(
        [
            RemoveTopicRecord(topic_id=TOPIC_A),
            samples.topic("a", TOPIC_B),
            samples.partition(0, TOPIC_B),
        ]
    )
    after = delta.apply(9, 2)
    assert after.topics.by_name["a"].id == TOPIC_B
    assert list(after.topics.by_id) == [TOPIC_B]


def test_a_topic_created_and_deleted_in_one_delta_never_was() -> None:
    delta = MetadataDelta(EMPTY).replay_all(
        [
            samples.topic(),
            samples.partition(),
            samples.config(TOPIC, "a", "k", "v"),
            RemoveTopicRecord(topic_id=TOPIC_A),
        ]
    )
    assert delta.topics is not None
    assert (delta.topics.changed, delta.topics.deleted) == ({}, {})
    assert delta.apply(1, 1) == EMPTY


def test_clearing_elr_touches_only_partitions_that_have_one() -> None:
    image = image_of(
        samples.topic(),
        samples.partition(0, eligible_leader_replicas=[2], last_known_elr=[1]),
        samples.partition(1),
    )
    delta = MetadataDelta(image).replay_all([ClearElrRecord(topic_name="")])
    assert delta.topics is not None
    assert list(delta.topics.changed[TOPIC_A].partitions) == [0]
    state = delta.apply(8, 2).topics.by_id[TOPIC_A].partitions[0]
    assert (state.elr, state.last_known_elr, state.partition_epoch) == ((), (), 6)


def test_a_partition_without_directories_is_of_the_time_before_them() -> None:
    image = image_of(samples.topic(), samples.partition(0, directories=[]))
    state = image.topics.by_id[TOPIC_A].partitions[0]
    assert state.directories == (DIRECTORY_MIGRATING,) * 2
    assert state.directory_of(2) == DIRECTORY_MIGRATING
    assert state.directory_of(9) is None


def test_changing_an_unknown_partition_stops_the_node(image: MetadataImage) -> None:
    with pytest.raises(InvariantViolated):
        MetadataDelta(image).replay(samples.change(7))
    with pytest.raises(InvariantViolated):
        MetadataDelta(image).replay(RemoveTopicRecord(topic_id=TOPIC_B))

"""Whatever is folded, an image and the records that it writes say the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY
from penstock.metadata.loader import ImageLoader
from penstock.protocol.generated import metadata_records as m
from penstock.raft.batches import decode_records, encode_batch
from penstock.records.batch import read_head

ids = st.integers(1, 4)
uuids = st.integers(1, 6).map(lambda n: bytes([n]) * 16)
words = st.sampled_from(["a", "b", "c"])
nodes = st.lists(ids, min_size=1, max_size=3, unique=True)


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Records that a controller could have written, in an order in which it could have."""
    records: list[Any] = [m.FeatureLevelRecord(name="metadata.version", feature_level=30)]
    topics: dict[bytes, set[int]] = {}
    names: dict[bytes, str] = {}
    epochs: dict[int, int] = {}
    for step in range(draw(st.integers(0, 30))):
        kind = draw(st.integers(0, 8))
        topic_id = draw(uuids)
        if kind == 0 and topic_id not in topics:
            name = draw(words)
            if name not in names.values():
                topics[topic_id], names[topic_id] = set(), name
                records.append(m.TopicRecord(name=name, topic_id=topic_id))
        elif kind == 1 and topic_id in topics:
            index = len(topics[topic_id])
            topics[topic_id].add(index)
            replicas = draw(nodes)
            records.append(
                m.PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas[:1],
                    leader=replicas[0],
                    leader_epoch=draw(st.integers(0, 9)),
                    partition_epoch=draw(st.integers(0, 9)),
                    directories=[draw(uuids) for _ in replicas],
                    eligible_leader_replicas=draw(st.none() | st.just([2])),
                )
            )
        elif kind == 2 and topics.get(topic_id):
            records.append(
                m.PartitionChangeRecord(
                    partition_id=draw(st.sampled_from(sorted(topics[topic_id]))),
                    topic_id=topic_id,
                    isr=draw(st.none() | nodes),
                    leader=draw(st.sampled_from([-2, -1, 1, 2])),
                    leader_recovery_state=draw(st.sampled_from([-1, 0, 1])),
                    last_known_elr=draw(st.none() | nodes),
                )
            )
        elif kind == 3 and topic_id in topics:
            del topics[topic_id], names[topic_id]
            records.append(m.RemoveTopicRecord(topic_id=topic_id))
        elif kind == 4:
            records.append(
                m.ConfigRecord(
                    resource_type=draw(st.sampled_from([4, 16, 32])),
                    resource_name=draw(words),
                    name=draw(words),
                    value=draw(st.none() | words),
                )
            )
        elif kind == 5:
            broker = draw(ids)
            epochs[broker] = step
            records.append(
                m.RegisterBrokerRecord(
                    broker_id=broker,
                    broker_epoch=step,
                    incarnation_id=draw(uuids),
                    rack=draw(st.none() | words),
                    log_dirs=[draw(uuids)],
                )
            )
        elif kind == 6 and epochs:
            broker = draw(st.sampled_from(sorted(epochs)))
            records.append(
                m.BrokerRegistrationChangeRecord(
                    broker_id=broker,
                    broker_epoch=epochs[broker],
                    fenced=draw(st.sampled_from([-1, 0, 1])),
                    cordoned_log_dirs=draw(st.none() | st.just([])),
                )
            )
        elif kind == 7:
            records.append(
                m.ClientQuotaRecord(
                    entity=[m.EntityData(entity_type=draw(words), entity_name=draw(words))],
                    key=draw(words),
                    value=draw(st.floats(0, 1e9)),
                    remove=draw(st.booleans()),
                )
            )
        elif kind == 8:
            records.append(m.ProducerIdsRecord(next_producer_id=step * 1000))
    return records


@given(histories())
def test_an_image_and_its_records_say_the_same(records: list[Any]) -> None:
    image = MetadataDelta(EMPTY).replay_all(records).apply(1, 1)
    assert MetadataDelta(EMPTY).replay_all(image.records()).apply(1, 1) == image


@given(histories(), st.integers(1, 30))
def test_it_does_not_matter_where_images_are_cut(records: list[Any], cut: int) -> None:
    at_once = MetadataDelta(EMPTY).replay_all(records).apply(1, 1)
    image = EMPTY
    for start in range(0, len(records), cut):
        image = MetadataDelta(image).replay_all(records[start : start + cut]).apply(start, 1)
    assert image == at_once


@given(histories())
def test_records_survive_the_log(records: list[Any]) -> None:
    batch = encode_batch(records, 30, 5, 1, 1_700_000_000_000)
    assert decode_records(read_head(batch), batch) == records


@given(histories(), st.integers(0, 30))
def test_a_transaction_changes_nothing_but_the_moment(records: list[Any], at: int) -> None:
    loader = ImageLoader()
    inside = [*records[:at], m.BeginTransactionRecord(), *records[at:], m.EndTransactionRecord()]
    loader.replay(inside, len(inside) - 1, 1)
    plain = MetadataDelta(EMPTY).replay_all(records).apply(1, 1)
    assert loader.publish().image == plain


@given(histories(), st.integers(0, 30))
def test_a_snapshot_in_the_place_of_records_changes_the_same(
    records: list[Any], known: int
) -> None:
    loader = ImageLoader()
    loader.replay(records[:known], known - 1, 1)
    before = loader.publish().image
    expected = MetadataDelta(before).replay_all(records[known:])
    image = expected.apply(99, 2)
    snapshot = MetadataDelta(EMPTY).replay_all(list(image.records()))
    loader.replace(snapshot.apply(99, 2))
    published = loader.publish()
    assert published.image == image
    assert (published.image.offset, published.image.epoch) == (99, 2)
    told, wanted = published.delta.topics, expected.topics
    # A topic that was deleted and made again under its id, as no controller does, is only changed
    # in the eyes of who sees the snapshot.
    gone = {} if wanted is None else wanted.deleted
    gone = {key: topic for key, topic in gone.items() if key not in image.topics.by_id}
    assert (told.deleted if told else {}) == gone
    assert published.delta.image is before

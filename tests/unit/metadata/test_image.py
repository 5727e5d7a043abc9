from __future__ import annotations

import pytest

from penstock.metadata.cluster import Endpoint
from penstock.metadata.configs import BROKER, GROUP, TOPIC
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY
from penstock.metadata.levels import LevelRange, loses_metadata, record_version
from penstock.metadata.loader import ImageLoader, whole
from penstock.model.invariants import InvariantViolated
from penstock.protocol.generated import metadata_records as m

from . import samples

EVERYTHING = [
    samples.feature(),
    samples.feature("group.version", 1),
    m.RegisterControllerRecord(
        controller_id=1,
        incarnation_id=b"c" * 16,
        end_points=[m.ControllerEndpoint(name="CONTROLLER", host="h", port=9093)],
        features=[m.ControllerFeature(name="kraft.version", max_supported_version=1)],
    ),
    samples.broker(1, fenced=False, cordoned_log_dirs=[]),
    samples.broker(2, 11, rack="r"),
    samples.topic(),
    samples.partition(0, adding_replicas=[3], removing_replicas=[2]),
    samples.partition(1, leader_recovery_state=1, eligible_leader_replicas=[2]),
    samples.config(TOPIC, "a", "retention.ms", "1"),
    samples.config(BROKER, "", "min.insync.replicas", "1"),
    m.ClientQuotaRecord(
        entity=[
            m.EntityData(entity_type="user", entity_name="u"),
            m.EntityData(entity_type="client-id", entity_name=None),
        ],
        key="producer_byte_rate",
        value=12.5,
    ),
    m.ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=2000),
    m.AccessControlEntryRecord(
        id=b"a" * 16,
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal="User:u",
        host="*",
        operation=3,
        permission_type=3,
    ),
    m.UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    ),
    m.DelegationTokenRecord(
        owner="User:u",
        requester="User:r",
        renewers=["User:n"],
        issue_timestamp=1,
        max_timestamp=2,
        expiration_timestamp=3,
        token_id="t",
    ),
]


def test_an_image_written_as_records_folds_into_an_equal_image() -> None:
    image = MetadataDelta(EMPTY).replay_all(EVERYTHING).apply(20, 1)
    again = MetadataDelta(EMPTY).replay_all(image.records()).apply(1, 1)
    assert again == image
    assert again != EMPTY
    assert whole(image).delta.apply(20, 1) == image


def test_a_snapshot_says_first_how_to_read_it() -> None:
    image = MetadataDelta(EMPTY).replay_all(EVERYTHING).apply(20, 1)
    first = next(iter(image.records()))
    assert isinstance(first, m.FeatureLevelRecord)
    assert first.name == "metadata.version"


def test_every_record_can_be_taken_back() -> None:
    image = MetadataDelta(EMPTY).replay_all(EVERYTHING).apply(20, 1)
    undone = MetadataDelta(image).replay_all(
        [
            samples.feature("group.version", 0),
            m.UnregisterBrokerRecord(broker_id=1, broker_epoch=10),
            m.RemoveTopicRecord(topic_id=samples.TOPIC_A),
            samples.config(BROKER, "", "min.insync.replicas", None),
            m.ClientQuotaRecord(
                entity=[
                    m.EntityData(entity_type="client-id", entity_name=None),
                    m.EntityData(entity_type="user", entity_name="u"),
                ],
                key="producer_byte_rate",
                remove=True,
            ),
            m.RemoveAccessControlEntryRecord(id=b"a" * 16),
            m.RemoveUserScramCredentialRecord(name="u", mechanism=1),
            m.RemoveDelegationTokenRecord(token_id="t"),
        ]
    )
    after = undone.apply(30, 1)
    assert after.features.levels == {"metadata.version": 30}
    assert list(after.cluster.brokers) == [2]
    assert after.topics.by_name == {}
    assert after.configs.resources == {}
    assert after.client_quotas.entities == {}
    assert after.acls.by_id == {}
    assert after.scram.users == {}
    assert after.delegation_tokens.by_id == {}
    assert after.producer_ids.next_id == 2000


def test_a_broker_registration_changes_field_by_field() -> None:
    image = MetadataDelta(EMPTY).replay_all([samples.broker()]).apply(1, 1)
    broker = image.cluster.brokers[1]
    assert broker.fenced
    assert broker.endpoint("PLAINTEXT") == Endpoint("PLAINTEXT", "h", 9092, 0)
    assert broker.endpoint("SSL") is None
    assert broker.features == {"metadata.version": LevelRange(7, 30)}
    for fields, expected in (
        ({"fenced": -1}, broker._replace(fenced=False)),
        ({"in_controlled_shutdown": 1}, broker._replace(shutting_down=True)),
        ({"log_dirs": [b"x" * 16]}, broker._replace(directories=(b"x" * 16,))),
        ({"cordoned_log_dirs": []}, broker._replace(cordoned=())),
    ):
        record = m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, **fields)
        after = MetadataDelta(image).replay_all([record]).apply(2, 1)
        assert after.cluster.brokers[1] == expected
    assert not image.cluster.active(1)
    fenced = [m.UnfenceBrokerRecord(id=1, epoch=10), m.FenceBrokerRecord(id=1, epoch=10)]
    unfenced = MetadataDelta(image).replay_all(fenced[:1]).apply(2, 1)
    assert unfenced.cluster.active(1)
    assert not MetadataDelta(unfenced).replay_all(fenced[1:]).apply(3, 1).cluster.active(1)


def test_a_change_of_a_broker_at_another_epoch_stops_the_node() -> None:
    image = MetadataDelta(EMPTY).replay_all([samples.broker()]).apply(1, 1)
    with pytest.raises(InvariantViolated):
        MetadataDelta(image).replay(m.FenceBrokerRecord(id=1, epoch=9))


def test_configs_are_listed_by_the_kind_of_resource() -> None:
    image = MetadataDelta(EMPTY).replay_all(EVERYTHING).apply(20, 1)
    assert image.configs.names(TOPIC) == ["a"]
    assert image.configs.names(GROUP) == []


def test_records_without_a_meaning_of_their_own_change_nothing() -> None:
    delta = MetadataDelta(EMPTY).replay_all([m.NoOpRecord(), m.ZkMigrationStateRecord()])
    assert delta.apply(1, 1) == EMPTY


def test_a_transaction_is_seen_whole_at_its_end_across_batches() -> None:
    loader = ImageLoader()
    loader.replay([m.BeginTransactionRecord(name="n"), samples.topic()], 1, 1)
    assert loader.in_transaction
    assert loader.publish().image.topics.by_name == {}
    loader.replay([samples.partition(), m.EndTransactionRecord()], 3, 1)
    image, delta = loader.publish()
    assert list(image.topics.by_name) == ["a"]
    assert delta.topics is not None
    assert image.offset == 3


def test_an_aborted_transaction_leaves_no_trace() -> None:
    loader = ImageLoader()
    loader.replay([m.BeginTransactionRecord(), samples.topic(), m.AbortTransactionRecord()], 2, 1)
    assert not loader.in_transaction
    assert loader.publish().image == EMPTY


@pytest.mark.parametrize(
    "records",
    [
        [m.EndTransactionRecord()],
        [m.AbortTransactionRecord()],
        [m.BeginTransactionRecord(), m.BeginTransactionRecord()],
    ],
)
def test_transactions_that_make_no_sense_stop_the_node(records: list[object]) -> None:
    with pytest.raises(InvariantViolated):
        ImageLoader().replay(records, 0, 1)


def test_records_are_written_in_the_version_that_the_cluster_agreed_on() -> None:
    partition = samples.partition()
    assert [record_version(partition, level) for level in (7, 16, 17, 22, 23, 30)] == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]
    registration = samples.broker()
    assert [record_version(registration, level) for level in (7, 8, 17, 30)] == [1, 2, 3, 4]
    for fields, version in (
        ({"fenced": 1}, 0),
        ({"in_controlled_shutdown": 1}, 1),
        ({"log_dirs": [b"x" * 16]}, 2),
        ({"cordoned_log_dirs": []}, 3),
    ):
        assert record_version(m.BrokerRegistrationChangeRecord(**fields), 30) == version


def test_only_downgrades_across_a_change_of_records_lose_metadata() -> None:
    assert not loses_metadata(29, 24)
    assert loses_metadata(30, 29)
    assert loses_metadata(24, 22)

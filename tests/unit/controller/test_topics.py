from __future__ import annotations

import pytest

from penstock.metadata.configs import TOPIC
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import create_partitions as cp
from penstock.protocol.generated import create_topics as ct
from penstock.protocol.generated import delete_topics as dt
from penstock.protocol.generated.metadata_records import ConfigRecord, PartitionRecord, TopicRecord

from .stage import Stage, manual, topic


def test_a_topic_is_made_of_its_record_its_configs_and_its_partitions() -> None:
    stage = Stage()
    request = ct.CreateTopicsRequest(
        topics=[topic("a", 2, retention_ms="5", cleanup_policy="compact")]
    )
    decision = stage.decide(ApiKey.CREATE_TOPICS, request)
    assert [type(r) for r in decision.records] == [
        TopicRecord,
        ConfigRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]
    assert [r.name for r in decision.records[1:3]] == ["cleanup.policy", "retention.ms"]
    assert decision.atomic
    last = decision.records[-1]
    assert (last.partition_id, last.replicas, last.isr, last.leader) == (1, [1], [1], 1)
    assert (last.leader_epoch, last.partition_epoch) == (0, 0)
    assert last.directories == [bytes([101]) * 16]


def test_the_answer_tells_the_id_the_partitions_and_every_config_with_its_source() -> None:
    stage = Stage()
    (result,) = stage.create(topic("a", 3, retention_ms="5"))
    assert result.error_code == 0
    assert result.topic_id == stage.image.topics.by_name["a"].id
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    assert result.configs is not None
    configs = {c.name: c for c in result.configs}
    assert list(configs) == sorted(configs)
    assert not any(name.startswith("internal.") for name in configs)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == (
        "1073741824",
        5,
    )
    assert stage.image.configs.of(TOPIC, "a") == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("ä", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a\n", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
    ],
)
def test_names_that_no_topic_may_have_are_refused(name: str, error: ErrorCode) -> None:
    (result,) = Stage().create(topic(name))
    assert result.error_code == error
    assert result.error_message


def test_a_name_of_the_greatest_length_is_fine() -> None:
    (result,) = Stage().create(topic("x" * 249))
    assert result.error_code == 0


def test_names_that_metrics_would_mix_up_are_refused() -> None:
    stage = Stage()
    assert stage.create(topic("a.b"))[0].error_code == 0
    (result,) = stage.create(topic("a_b"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.error_message == "Metrics could not tell 'a_b' from the topic 'a.b'"
    first, second = stage.create(topic("c_d"), topic("c.d"))
    assert (first.error_code, second.error_code) == (0, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_a_deleted_topic_no_longer_collides() -> None:
    stage = Stage()
    stage.create(topic("a.b"))
    stage.ask(ApiKey.DELETE_TOPICS, dt.DeleteTopicsRequest(topic_names=["a.b"]))
    assert stage.create(topic("a_b"))[0].error_code == 0


def test_each_topic_of_a_request_succeeds_or_fails_by_itself() -> None:
    stage = Stage()
    results = stage.create(topic("good"), topic("bad name"), topic("rf", replicas=3))
    assert [r.error_code for r in results] == [
        0,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ]
    assert list(stage.image.topics.by_name) == ["good"]


def test_a_topic_that_exists_and_one_named_twice_are_refused() -> None:
    stage = Stage()
    stage.create(topic("a"))
    results = {r.name: r for r in stage.create(topic("a"), topic("b"), topic("b"))}
    assert results["a"].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert results["b"].error_code == ErrorCode.INVALID_REQUEST
    assert list(stage.image.topics.by_name) == ["a"]


def test_minus_one_asks_for_the_nodes_defaults() -> None:
    stage = Stage(3, partitions_default=4, replication_default=2)
    (result,) = stage.create(topic("a", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 2)


@pytest.mark.parametrize(
    ("partitions", "replicas", "error"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (10_001, 1, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_counts_that_cannot_be_are_refused(
    partitions: int, replicas: int, error: ErrorCode
) -> None:
    (result,) = Stage().create(topic("a", partitions, replicas))
    assert result.error_code == error


def test_ten_thousand_partitions_are_one_atomic_change() -> None:
    stage = Stage()
    (result,) = stage.create(topic("a", 10_000))
    assert result.error_code == 0
    assert len(stage.image.topics.by_name["a"].partitions) == 10_000


def test_validate_only_answers_and_changes_nothing() -> None:
    stage = Stage()
    (result,) = stage.create(topic("a", 2), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 2)
    assert stage.image.topics.by_name == {}


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"retention_ms": "abc"}, "retention.ms"),
        ({"nope": "1"}, "Unknown topic config name: nope"),
    ],
)
def test_configs_are_checked(configs: dict[str, str], message: str) -> None:
    (result,) = Stage().create(topic("a", **configs))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message is not None
    assert message in result.error_message


def test_a_topic_may_say_where_its_replicas_go() -> None:
    stage = Stage(3)
    (result,) = stage.create(manual("a", [3, 1], [2, 3]))
    assert result.error_code == 0
    assert stage.partition("a", 0).replicas == (3, 1)
    assert stage.partition("a", 0).leader == 3
    assert stage.partition("a", 1).directories == (bytes([102]) * 16, bytes([103]) * 16)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (manual("a", [7]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("a", [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("a", [1], []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("a", [1], [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("a", [1], replication_factor=1), ErrorCode.INVALID_REQUEST),
        (manual("a", [1], num_partitions=1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_assignments_that_cannot_be_are_refused(
    wanted: ct.CreatableTopic, error: ErrorCode
) -> None:
    (result,) = Stage(2).create(wanted)
    assert result.error_code == error


def test_assignments_with_a_gap_or_a_repetition_are_refused() -> None:
    for indexes in ([0, 2], [1, 1]):
        wanted = manual("a", [1], [1])
        for assignment, index in zip(wanted.assignments, indexes, strict=True):
            assignment.partition_index = index
        (result,) = Stage().create(wanted)
        assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_without_a_live_broker_no_topic_is_created() -> None:
    stage = Stage()
    stage.beat(1, want_fence=True)
    (result,) = stage.create(topic("a"))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    (result,) = stage.create(manual("b", [1]))
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def delete(stage: Stage, *names: str, ids: tuple[bytes, ...] = (), version: int = 6) -> dict:
    request = dt.DeleteTopicsRequest(
        topics=[
            *(dt.DeleteTopicState(name=name) for name in names),
            *(dt.DeleteTopicState(topic_id=topic_id) for topic_id in ids),
        ]
    )
    responses = stage.ask(ApiKey.DELETE_TOPICS, request, version).responses
    return {(r.name, r.topic_id): r.error_code for r in responses}


def test_topics_are_deleted_by_name_and_by_id() -> None:
    stage = Stage()
    stage.create(topic("a"), topic("b"))
    a, b = (stage.image.topics.by_name[name].id for name in "ab")
    assert delete(stage, "a", ids=(b,)) == {("a", a): 0, ("b", b): 0}
    assert stage.image.topics.by_name == {}


def test_what_cannot_be_deleted_says_why() -> None:
    stage = Stage()
    stage.create(topic("a"))
    a = stage.image.topics.by_name["a"].id
    assert delete(stage, "nix", ids=(b"n" * 16,)) == {
        ("nix", ZERO_UUID): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (None, b"n" * 16): ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert delete(stage, "a", "a") == {("a", ZERO_UUID): ErrorCode.INVALID_REQUEST}
    assert delete(stage, ids=(a, a)) == {(None, a): ErrorCode.INVALID_REQUEST}
    assert delete(stage, "a", ids=(a,)) == {("a", a): ErrorCode.INVALID_REQUEST}
    assert delete(stage, ids=(ZERO_UUID,)) == {(None, ZERO_UUID): ErrorCode.INVALID_REQUEST}
    assert list(stage.image.topics.by_name) == ["a"]


def test_an_operator_can_forbid_deletion() -> None:
    stage = Stage(delete_topics=False)
    stage.create(topic("a"))
    assert delete(stage, "a") == {("a", ZERO_UUID): ErrorCode.TOPIC_DELETION_DISABLED}
    assert delete(stage, "a", version=2) == {("a", ZERO_UUID): ErrorCode.INVALID_REQUEST}
    assert list(stage.image.topics.by_name) == ["a"]


def grow(stage: Stage, *topics: cp.CreatePartitionsTopic, **fields: bool) -> dict[str, int]:
    request = cp.CreatePartitionsRequest(topics=list(topics), **fields)
    results = stage.ask(ApiKey.CREATE_PARTITIONS, request).results
    return {r.name: r.error_code for r in results}


def test_a_topic_grows_and_never_shrinks() -> None:
    stage = Stage()
    stage.create(topic("a", 2))
    wanted = cp.CreatePartitionsTopic(name="a", count=4, assignments=None)
    assert grow(stage, wanted, validate_only=True) == {"a": 0}
    assert len(stage.image.topics.by_name["a"].partitions) == 2
    assert grow(stage, wanted) == {"a": 0}
    assert sorted(stage.image.topics.by_name["a"].partitions) == [0, 1, 2, 3]
    assert grow(stage, wanted) == {"a": ErrorCode.INVALID_PARTITIONS}
    fewer = cp.CreatePartitionsTopic(name="a", count=1, assignments=None)
    unknown = cp.CreatePartitionsTopic(name="nix", count=1, assignments=None)
    assert grow(stage, fewer, unknown) == {
        "a": ErrorCode.INVALID_PARTITIONS,
        "nix": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert grow(stage, wanted, fewer) == {"a": ErrorCode.INVALID_REQUEST}


def test_new_partitions_have_as_many_replicas_as_the_first() -> None:
    stage = Stage(3)
    stage.create(topic("a", 1, 2))
    grow(stage, cp.CreatePartitionsTopic(name="a", count=3, assignments=None))
    assert {len(p.replicas) for p in stage.image.topics.by_name["a"].partitions.values()} == {2}


def test_new_partitions_go_where_the_client_says() -> None:
    stage = Stage(2)
    stage.create(topic("a", 1, 1))

    def wanted(*nodes: list[int]) -> cp.CreatePartitionsTopic:
        return cp.CreatePartitionsTopic(
            name="a",
            count=2,
            assignments=[cp.CreatePartitionsAssignment(broker_ids=n) for n in nodes],
        )

    refused = {"a": ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert grow(stage, wanted([1], [2])) == refused
    assert grow(stage, wanted([1, 2])) == refused
    assert grow(stage, wanted([9])) == refused
    assert grow(stage, wanted([2])) == {"a": 0}
    assert stage.partition("a", 1).replicas == (2,)

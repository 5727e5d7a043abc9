"""Requests of a size that no honest client sends: refused or served, and in little time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.controller.configs import APPEND, SET, SUBTRACT
from penstock.controller.decision import RECORDS_MAX
from penstock.metadata.configs import GROUP, TOPIC
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import create_partitions as cp
from penstock.protocol.generated import create_topics as ct
from penstock.protocol.generated import delete_topics as dt
from penstock.protocol.generated import incremental_alter_configs as inc
from penstock.protocol.generated import update_features as uf
from penstock.raft.batches import BATCH_BYTES_MAX, encode_batch

from .stage import Stage, topic

MANY = 40_000


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Processor time: others work on the same machine."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def test_many_topics_of_which_some_are_named_twice_are_deleted_in_linear_time() -> None:
    stage = Stage()
    names = [f"t{number}" for number in range(MANY)]
    wanted = [dt.DeleteTopicState(name=name) for name in [*names, *names]]
    wanted += [dt.DeleteTopicState(topic_id=n.to_bytes(16, "big")) for n in [*range(1, MANY)] * 2]
    with within(5):
        answer = stage.ask(ApiKey.DELETE_TOPICS, dt.DeleteTopicsRequest(topics=wanted))
    assert len(answer.responses) == MANY + MANY - 1
    assert {each.error_code for each in answer.responses} == {ErrorCode.INVALID_REQUEST}


def test_many_topics_of_which_some_are_named_twice_grow_in_linear_time() -> None:
    stage = Stage()
    names = [f"t{number}" for number in range(MANY)]
    wanted = [cp.CreatePartitionsTopic(name=name, count=2) for name in [*names, *names]]
    with within(5):
        answer = stage.ask(ApiKey.CREATE_PARTITIONS, cp.CreatePartitionsRequest(topics=wanted))
    assert len(answer.results) == MANY
    assert {each.error_code for each in answer.results} == {ErrorCode.INVALID_REQUEST}


def test_topics_beyond_the_bound_of_a_request_are_refused_before_they_are_placed() -> None:
    stage = Stage()
    wanted = [topic(f"t{number}", 10_000) for number in range(10_000)]
    with within(5):
        decision = stage.decide(ApiKey.CREATE_TOPICS, ct.CreateTopicsRequest(topics=wanted))
    errors = [each.error_code for each in decision.response.topics]
    assert errors == [ErrorCode.NONE] * 2 + [ErrorCode.POLICY_VIOLATION] * 9_998


def test_long_lists_are_edited_in_linear_time() -> None:
    stage = Stage()
    stage.create(topic("t"))
    parts = ",".join(str(number) for number in range(6_000))
    edits = [
        inc.AlterableConfig(name=key, config_operation=operation, value=parts)
        for key in ("leader.replication.throttled.replicas", "cleanup.policy")
        for operation in (APPEND, SUBTRACT)
    ]
    resources = [
        inc.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[edit])
        for edit in edits
    ]
    with within(2):
        for resource in resources * 5:
            request = inc.IncrementalAlterConfigsRequest(resources=[resource])
            stage.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)


@pytest.mark.parametrize("name", ["x" * 32_767, "\u20ac" * 10_922])
def test_refusals_quote_the_beginning_of_a_long_name_so_that_the_answer_can_be_sent(
    name: str,
) -> None:
    stage = Stage()
    made = stage.ask(ApiKey.CREATE_TOPICS, ct.CreateTopicsRequest(topics=[topic(name), topic("t")]))
    assert len(made.encode(7)) < 40_000
    assert [each.error_code for each in made.topics] == [17, 0]
    update = uf.FeatureUpdateKey(feature=name, max_version_level=1, upgrade_type=1)
    other = uf.FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=1)
    request = uf.UpdateFeaturesRequest(feature_updates=[update, other])
    assert len(stage.ask(ApiKey.UPDATE_FEATURES, request, 1).encode(1)) < 40_000


def test_changes_of_configuration_that_one_batch_cannot_carry_are_refused() -> None:
    stage = Stage()
    names = [f"t{number}" for number in range(400)]
    stage.create(*(topic(name) for name in names))
    value = ",".join(f"{number}:1" for number in range(4_000))
    key = "leader.replication.throttled.replicas"
    resources = [
        inc.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[inc.AlterableConfig(name=key, config_operation=SET, value=value)],
        )
        for name in names
    ]
    request = inc.IncrementalAlterConfigsRequest(resources=resources)
    decision = stage.decide(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    assert len(encode_batch(decision.records, 30, 0, 1, 0)) <= BATCH_BYTES_MAX
    errors = [each.error_code for each in decision.response.responses]
    assert set(errors) == {ErrorCode.NONE, ErrorCode.POLICY_VIOLATION}
    assert errors.count(ErrorCode.NONE) == len(decision.records)

    config = ct.CreatableTopicConfig(name=key, value=value)
    wanted = [
        ct.CreatableTopic(name="n" + name, num_partitions=1, replication_factor=1, configs=[config])
        for name in names
    ]
    decision = stage.decide(ApiKey.CREATE_TOPICS, ct.CreateTopicsRequest(topics=wanted))
    assert len(encode_batch(decision.records, 30, 0, 1, 0)) <= BATCH_BYTES_MAX
    assert {each.error_code for each in decision.response.topics} == set(errors)


def test_changes_of_configuration_are_bounded_in_number() -> None:
    stage = Stage()
    setting = inc.AlterableConfig(name="consumer.session.timeout.ms", value="50000")
    resources = [
        inc.AlterConfigsResource(resource_type=GROUP, resource_name=f"g{n}", configs=[setting])
        for n in range(RECORDS_MAX + 2)
    ]
    request = inc.IncrementalAlterConfigsRequest(resources=resources)
    decision = stage.decide(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    assert len(decision.records) == RECORDS_MAX
    errors = [each.error_code for each in decision.response.responses]
    assert errors[RECORDS_MAX - 1 :] == [ErrorCode.NONE, *[ErrorCode.POLICY_VIOLATION] * 2]


@pytest.mark.parametrize(("topics", "each"), [(1, 5000), (5000, 1)])
def test_a_broker_that_holds_thousands_of_partitions_goes_and_returns_in_little_time(
    topics: int, each: int
) -> None:
    stage = Stage(3)
    for at in range(0, topics, 500):
        some = range(at, min(at + 500, topics))
        stage.create(*(topic(f"t{number}", each, 3) for number in some))
    stage.now += 20_000
    for broker in (2, 3):
        stage.beat(broker)
    with within(1):
        decision = stage.tick()
        assert decision is not None
        encode_batch(decision.records, 30, 0, 1, 0)
    assert len(decision.records) == 5001
    leaders = Counter(
        state.leader
        for found in stage.image.topics.by_id.values()
        for state in found.partitions.values()
    )
    assert set(leaders) == {2, 3}
    assert min(leaders.values()) > 1000, "both take their part"
    with within(1):
        stage.beat(1)

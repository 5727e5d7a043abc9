"""The configuration of topics, groups and subscriptions: what counts, and what may be set."""

from __future__ import annotations

import pytest

from penstock.model.config import TOPIC_KEYS, InvalidConfig, NodeConfig
from penstock.model.config.client_metrics import effective_client_metrics, validate_client_metrics
from penstock.model.config.dynamic import is_updatable, validate_broker_config
from penstock.model.config.groups import effective_group_config, validate_group_config
from penstock.model.config.layers import BrokerLayers
from penstock.model.config.topics import (
    effective_topic_config,
    topic_defaults,
    validate_topic_config,
)

BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}
NODE = NodeConfig.of(BASE)
TIERED = NodeConfig.of({**BASE, "remote.log.storage.system.enable": "true"})


def test_a_topic_without_settings_has_the_nodes_and_then_kafkas_defaults() -> None:
    node = NodeConfig.of({**BASE, "log.retention.hours": "1", "log.segment.bytes": "2097152"})
    values = effective_topic_config({}, node)
    assert values["retention.ms"] == 3_600_000
    assert values["segment.bytes"] == 2_097_152
    assert values["cleanup.policy"] == ("delete",)
    assert set(values) == set(TOPIC_KEYS)


def test_a_topics_setting_wins_over_the_broker_over_the_cluster_over_the_file() -> None:
    node = NodeConfig.of({**BASE, "log.retention.ms": "4"})
    cluster, broker, topic = (
        {"log.retention.ms": "3"},
        {"log.retention.ms": "2"},
        {"retention.ms": "1"},
    )

    def retention(*layers: dict[str, str]) -> object:
        return effective_topic_config(layers[0], node, layers[1], layers[2])["retention.ms"]

    assert retention({}, {}, {}) == 4
    assert retention({}, {}, cluster) == 3
    assert retention({}, broker, cluster) == 2
    assert retention(topic, broker, cluster) == 1


def test_topics_without_settings_share_one_configuration() -> None:
    assert effective_topic_config({}, NODE) is effective_topic_config({}, NODE)
    layer = {"log.retention.ms": "3"}
    shared = effective_topic_config({}, NODE, None, layer)
    assert shared is effective_topic_config({}, NODE, None, layer)


def test_a_topic_setting_from_a_newer_version_is_passed_over() -> None:
    assert effective_topic_config({"new.key": "1"}, NODE) == topic_defaults(NODE)


def test_a_stored_setting_that_does_not_parse_is_an_error() -> None:
    with pytest.raises(InvalidConfig):
        effective_topic_config({"retention.ms": "soon"}, NODE)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"remote.storage.enable": "true"}, None),
        ({"remote.storage.enable": "true", "cleanup.policy": ""}, None),
        ({"remote.storage.enable": "true", "cleanup.policy": "compact"}, "cleanup.policy=delete"),
        ({"remote.storage.enable": "true", "local.retention.ms": "604800001"}, "at most 604800000"),
        ({"remote.storage.enable": "true", "local.retention.ms": "-1"}, "at most 604800000"),
        ({"remote.storage.enable": "true", "local.retention.bytes": "5"}, None),
        (
            {
                "remote.storage.enable": "true",
                "retention.bytes": "4",
                "local.retention.bytes": "5",
            },
            "at most 4",
        ),
        (
            {
                "remote.storage.enable": "true",
                "remote.log.copy.disable": "true",
                "local.retention.ms": "5",
            },
            "expected 604800000 as retention.ms",
        ),
        ({"local.retention.ms": "604800001"}, None),
    ],
)
def test_remote_storage_asks_for_settings_that_go_with_it(
    settings: dict[str, str], expected: str | None
) -> None:
    problem = validate_topic_config(settings, TIERED)
    assert (problem is None) == (expected is None), problem
    assert expected is None or expected in str(problem)


def test_remote_storage_is_not_turned_off_without_saying_what_becomes_of_the_data() -> None:
    old = {"remote.storage.enable": "true"}
    off = {"remote.storage.enable": "false"}
    assert "remote.log.delete.on.disable" in str(validate_topic_config(off, TIERED, old))
    sure = {**off, "remote.log.delete.on.disable": "true"}
    assert validate_topic_config(sure, TIERED, old) is None


def test_a_mistyped_topic_key_is_answered_with_the_nearest() -> None:
    problem = validate_topic_config({"retention.sm": "1"}, NODE)
    assert str(problem) == "Unknown topic config name: retention.sm (did you mean retention.ms?)"


def test_null_is_not_a_value() -> None:
    assert "null" in str(validate_topic_config({"retention.ms": None}, NODE))
    assert "null" in str(validate_group_config({"share.isolation.level": None}, NODE))
    assert "null" in str(validate_client_metrics("m", {"match": None}))


def test_a_topic_can_be_checked_without_a_node() -> None:
    assert validate_topic_config({"retention.ms": "1"}) is None
    conflict = {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}
    assert "must not exceed" in str(validate_topic_config(conflict))


def test_a_group_falls_back_to_the_broker_and_stays_within_its_bounds() -> None:
    node = NodeConfig.of({**BASE, "group.consumer.heartbeat.interval.ms": "6000"})
    values = effective_group_config(
        {
            "consumer.session.timeout.ms": "70000",
            "share.record.lock.duration.ms": "1000",
            "streams.num.standby.replicas": "9",
            "from.the.future": "1",
        },
        node,
    )
    assert values["consumer.heartbeat.interval.ms"] == 6000
    assert values["consumer.session.timeout.ms"] == 60_000
    assert values["share.record.lock.duration.ms"] == 15_000
    assert values["streams.num.standby.replicas"] == 2
    assert values["share.isolation.level"] == "read_uncommitted"


def test_a_session_must_outlast_a_heartbeat() -> None:
    node = NodeConfig.of({**BASE, "group.share.max.heartbeat.interval.ms": "60000"})
    problem = validate_group_config({"share.heartbeat.interval.ms": "45000"}, node)
    assert "must be greater than share.heartbeat.interval.ms" in str(problem)


def test_a_subscription_needs_a_name_and_has_defaults() -> None:
    problem = validate_client_metrics("", {})
    assert problem is not None
    assert problem.error == "INVALID_REQUEST"
    assert effective_client_metrics({"metrics": "*", "other": "x"}) == {
        "interval.ms": 300_000,
        "match": (),
        "metrics": ("*",),
    }


def test_what_can_be_altered_while_the_node_runs_follows_kafka() -> None:
    assert is_updatable("log.retention.ms")
    assert is_updatable("leader.replication.throttled.rate")
    assert is_updatable("listener.name.x.ssl.keystore.location")
    assert not is_updatable("log.retention.hours")
    assert not is_updatable("plugin.key")


def test_a_clusters_default_is_judged_below_the_brokers_own_settings() -> None:
    layers = BrokerLayers(NODE, {"log.retention.ms": "5"}, {})
    assert validate_broker_config({"log.retention.ms": "0"}, layers, broker=False) is None
    assert validate_broker_config({"log.retention.ms": "0"}, layers, broker=True) is not None

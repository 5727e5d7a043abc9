"""`penstock topic`, `penstock config` and `penstock cluster`, against a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.oracle.nodes import Node
from tests.unit.cli.runner import Penstock


@pytest.fixture
def penstock(broker: Node, tmp_path: Path) -> Penstock:
    return Penstock(tmp_path, broker.bootstrap)


def test_a_topic_is_created_described_and_deleted(penstock: Penstock, topic: str) -> None:
    made = penstock("topic", "create", topic, "-p", "3", "-c", "retention.ms=86400000")
    assert (made.returncode, made.stdout, made.stderr) == (0, "", f"created topic {topic}\n")
    (described,) = json.loads(penstock.out("topic", "describe", topic, "-o", "json"))
    assert described["topic"] == topic
    assert len(described["id"]) == 22
    assert described["config"]["retention.ms"] == "86400000"
    assert described["partitions"] == [
        {"partition": n, "leader": 1, "replicas": [1], "isr": [1], "start": 0, "end": 0}
        for n in range(3)
    ]
    assert penstock("topic", "delete", topic, "--yes").returncode == 0
    gone = penstock("topic", "describe", topic)
    assert gone.returncode == 1
    assert "UNKNOWN_TOPIC_OR_PART" in gone.stderr


def test_the_cluster_says_how_many_partitions_where_nobody_does(
    penstock: Penstock, topic: str
) -> None:
    penstock.out("topic", "create", topic)
    (described,) = json.loads(penstock.out("topic", "describe", topic, "-o", "json"))
    assert len(described["partitions"]) == 1


def test_topics_are_listed_as_table_names_json_and_yaml(penstock: Penstock, topic: str) -> None:
    penstock.out("topic", "create", f"{topic}-a", f"{topic}-b", "-p", "2")
    pattern = f"{topic}-*"
    lines = penstock.out("topic", "list", pattern).splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED", "OFFLINE"]
    assert [line.split() for line in lines[1:]] == [
        [f"{topic}-a", "2", "1", "0", "0"],
        [f"{topic}-b", "2", "1", "0", "0"],
    ]
    assert penstock.out("topic", "list", pattern, "-q") == f"{topic}-a\n{topic}-b\n"
    as_json = json.loads(penstock.out("topic", "list", pattern, "-o", "json"))
    assert as_json == yaml.safe_load(penstock.out("topic", "list", pattern, "-o", "yaml"))
    assert [one["partitions"] for one in as_json] == [2, 2]


def test_a_topic_that_is_there_is_a_failure_unless_that_is_fine(
    penstock: Penstock, topic: str
) -> None:
    penstock.out("topic", "create", topic)
    again = penstock("topic", "create", topic)
    assert again.returncode == 1
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    assert "--if-not-exists" in again.stderr
    assert penstock("topic", "create", topic, "--if-not-exists").returncode == 0


def test_one_topic_that_fails_keeps_no_other_from_being_made(
    penstock: Penstock, topic: str
) -> None:
    ran = penstock("topic", "create", topic, "not/a/name")
    assert ran.returncode == 1
    assert f"created topic {topic}" in ran.stderr
    assert "topic not/a/name was not created" in ran.stderr


def test_a_dry_run_checks_and_creates_nothing(penstock: Penstock, topic: str) -> None:
    assert penstock("topic", "create", topic, "--dry-run").returncode == 0
    assert penstock("topic", "create", topic, "--dry-run", "-r", "5").returncode == 1
    assert penstock("topic", "describe", topic).returncode == 1


def test_a_topic_grows_and_never_shrinks(penstock: Penstock, topic: str) -> None:
    penstock.out("topic", "create", topic, "-p", "2")
    assert penstock("topic", "alter", topic, "-p", "4").returncode == 0
    (described,) = json.loads(penstock.out("topic", "describe", topic, "-o", "json"))
    assert len(described["partitions"]) == 4
    shrunk = penstock("topic", "alter", topic, "-p", "1")
    assert shrunk.returncode == 1
    assert "INVALID_PARTITIONS" in shrunk.stderr


def test_settings_of_a_topic_are_altered_and_given_back(penstock: Penstock, topic: str) -> None:
    penstock.out("topic", "create", topic, "-c", "retention.ms=1000")
    penstock.out("topic", "alter", topic, "-c", "segment.ms=70000", "--unset", "retention.ms")
    (described,) = json.loads(penstock.out("topic", "describe", topic, "-o", "json"))
    assert described["config"]["segment.ms"] == "70000"
    assert "retention.ms" not in described["config"]


def test_deleting_what_is_not_there_fails_unless_that_is_fine(
    penstock: Penstock, topic: str
) -> None:
    assert penstock("topic", "delete", topic, "-y").returncode == 1
    assert penstock("topic", "delete", topic, "-y", "--if-exists").returncode == 0


def settings(penstock: Penstock, *words: str) -> dict[str, dict[str, object]]:
    found = json.loads(penstock.out("config", "describe", *words, "-o", "json"))
    return {one["key"]: one for one in found}


def test_settings_are_set_shown_and_unset(penstock: Penstock, topic: str) -> None:
    penstock.out("topic", "create", topic)
    assert penstock("config", "set", "-t", topic, "retention.ms=5000").returncode == 0
    shown = settings(penstock, "-t", topic)["retention.ms"]
    assert (shown["value"], shown["source"]) == ("5000", "topic")
    assert penstock("config", "unset", "-t", topic, "retention.ms").returncode == 0
    assert "retention.ms" not in settings(penstock, "-t", topic)
    assert settings(penstock, "-t", topic, "--all")["retention.ms"]["source"] == "default"


def test_a_dry_run_of_a_setting_changes_nothing(penstock: Penstock, topic: str) -> None:
    penstock.out("topic", "create", topic)
    penstock.out("config", "set", "-t", topic, "retention.ms=5000", "--dry-run")
    assert "retention.ms" not in settings(penstock, "-t", topic)


def test_a_setting_that_is_none_is_refused(penstock: Penstock, topic: str) -> None:
    penstock.out("topic", "create", topic)
    for pair in ("retention.mx=1", "retention.ms=soon"):
        ran = penstock("config", "set", "-t", topic, pair)
        assert ran.returncode == 1
        assert "INVALID_CONFIG" in ran.stderr
    ran = penstock("config", "describe", "-t", topic, "retention.m")
    assert ran.returncode == 1
    assert "did you mean retention.ms?" in ran.stderr


def test_a_brokers_settings_are_set_shown_and_unset(penstock: Penstock) -> None:
    assert settings(penstock, "--broker", "1", "node.id")["node.id"]["source"] == "file"
    penstock.out("config", "set", "--broker", "1", "log.cleaner.threads=2")
    try:
        shown = settings(penstock, "--broker", "1")["log.cleaner.threads"]
        assert (shown["value"], shown["source"]) == ("2", "broker")
    finally:
        penstock.out("config", "unset", "--broker", "1", "log.cleaner.threads")
    assert "log.cleaner.threads" not in settings(penstock, "--broker", "1")


def test_a_broker_that_is_not_there_is_told_of_at_once(penstock: Penstock) -> None:
    for words in (("describe",), ("set", "log.cleaner.threads=2")):
        ran = penstock("config", *words, "--broker", "99")
        assert ran.returncode == 1
        assert "there is no broker 99" in ran.stderr
        assert "the brokers are 1" in ran.stderr


def test_a_groups_settings_are_set_shown_and_unset(penstock: Penstock, topic: str) -> None:
    penstock.out("config", "set", "-g", topic, "consumer.session.timeout.ms=46000")
    shown = settings(penstock, "-g", topic)["consumer.session.timeout.ms"]
    assert (shown["value"], shown["source"]) == ("46000", "group")
    penstock.out("config", "unset", "-g", topic, "consumer.session.timeout.ms")
    assert "consumer.session.timeout.ms" not in settings(penstock, "-g", topic)


def test_a_cluster_is_described(penstock: Penstock, broker: Node, topic: str) -> None:
    penstock.out("topic", "create", topic, "-p", "2")
    described = json.loads(penstock.out("cluster", "describe", "-o", "json"))
    assert len(described["cluster"]) == 22
    assert described["controller"] == 1
    assert described["partitions"] >= 2
    assert described["offline"] == 0
    assert described["brokers"] == [
        {"id": 1, "host": "127.0.0.1", "port": broker.port, "rack": None}
    ]
    table = penstock.out("cluster", "describe")
    assert described["cluster"] in table
    assert str(broker.port) in table


def test_a_client_setting_that_is_none_is_a_mistake_of_usage(penstock: Penstock) -> None:
    ran = penstock("topic", "list", "-X", "securty.protocol=ssl")
    assert ran.returncode == 2
    assert "securty.protocol" in ran.stderr

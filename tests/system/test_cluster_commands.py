"""`penstock cluster` on a real cluster: draining, filling and removing nodes under load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.testing.cluster import Cluster
from penstock.testing.history import History, Place, Recorder, check
from penstock.testing.history.confluent import read_to_end
from tests.system.senders import Sender

BOTH = "broker,controller"


def penstock(cluster: Cluster, *words: str) -> Any:
    """What a command answers as JSON, or prints as it goes."""
    command = [sys.executable, "-m", "penstock", "cluster", *words]
    ended = subprocess.run(
        [*command, "--bootstrap", cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout) if "json" in words else ended.stderr


def test_a_broker_is_drained_removed_and_another_filled_while_clients_notice_nothing() -> None:
    with Cluster(4, roles=[BOTH, BOTH, BOTH, "broker"]) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("orders", 8, 3)])["orders"].result(30)
        places = [Place("orders", index) for index in range(8)]
        senders = [Sender("sender", cluster.bootstrap_servers, places)]
        senders[0].start()
        held = _held(admin)
        assert held[4] >= 4

        plan = penstock(cluster, "drain", "4", "--dry-run", "-o", "json")
        assert plan["replicas"] == held[4]
        assert _held(admin) == held, "a dry run moves nothing"
        penstock(cluster, "drain", "4", "--yes", "--throttle", "50000000")
        assert _held(admin)[4] == 0
        assert _throttles(admin) == {""}, "throttles do not stay"

        said = penstock(cluster, "add-node", "4", "--yes")
        assert "lie where they should" in said
        assert _held(admin)[4] == 6
        leads = Counter(
            each.leader for each in admin.list_topics("orders").topics["orders"].partitions.values()
        )
        assert leads == {1: 2, 2: 2, 3: 2, 4: 2}
        penstock(cluster, "drain", "4", "--yes")
        assert "nothing has to move" in penstock(cluster, "drain", "4", "--yes")
        cluster.node(4).stop()
        penstock(cluster, "remove-node", "4", "--yes")

        quorum = penstock(cluster, "quorum", "-o", "json")
        assert [voter["id"] for voter in quorum["voters"]] == [1, 2, 3]
        assert quorum["leader"] in (1, 2, 3)
        senders[0].finish(60)
        assert senders[0].failures == []
        reader = Recorder("reader")
        read_to_end({"bootstrap.servers": cluster.bootstrap_servers}, places, reader)
        check(History.of(reader, senders[0].recorder))


def test_what_cannot_be_is_refused_with_advice() -> None:
    with Cluster(2, roles=[BOTH, "broker"]) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("pair", 1, 2)])["pair"].result(30)
        for words, said in (
            (["drain", "2", "--yes"], "add a broker first"),
            (["drain", "9", "--yes"], "there is no broker 9"),
            (["add-node", "9", "--yes"], "start it, and try again"),
            (["remove-node", "2", "--yes"], "penstock cluster drain 2"),
            (["rebalance"], "nothing has to move"),
        ):
            command = [sys.executable, "-m", "penstock", "cluster", *words]
            ended = subprocess.run(
                [*command, "--bootstrap", cluster.bootstrap_servers],
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert said in ended.stderr, (words, ended.stderr)


def _held(admin: AdminClient) -> Counter[int]:
    found = admin.list_topics("orders", timeout=30).topics["orders"].partitions
    return Counter(broker for each in found.values() for broker in each.replicas)


def _throttles(admin: AdminClient) -> set[str | None]:
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        ConfigResource,
        ResourceType,
    )

    resource = ConfigResource(ResourceType.TOPIC, "orders")
    found = admin.describe_configs([resource])[resource].result(30)
    return {value.value for key, value in found.items() if "throttled.replicas" in key}

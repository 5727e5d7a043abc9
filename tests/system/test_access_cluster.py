"""Rights in a cluster: brokers pass on for their clients, and the controller judges the clients."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from penstock.app.security import STANDARD_AUTHORIZER
from penstock.testing.cluster import Cluster

SECONDS_MAX = 30
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = 'username="node" password="n" user_node="n" user_admin="p" user_alice="p"'
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.jaas.config": f"{JAAS} {USERS};",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin;User:node",
}
FORBIDDEN = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One controller and two brokers: everything that is decided was passed on."""
    roles = ["controller", "broker", "broker"]
    with Cluster(
        3,
        roles=roles,
        config=SETTINGS,
        protocol="SASL_PLAINTEXT",
        controller_protocol="SASL_PLAINTEXT",
    ) as made:
        yield made


def settings_of(cluster: Cluster, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": "p",
    }


def entry(
    operation: AclOperation, name: str, kind: ResourceType = ResourceType.TOPIC, host: str = "*"
) -> AclBinding:
    pattern = (
        ResourcePatternType.PREFIXED if kind is ResourceType.TOPIC else ResourcePatternType.LITERAL
    )
    return AclBinding(kind, name, pattern, "User:alice", host, operation, AclPermissionType.ALLOW)


def allow(cluster: Cluster, *entries: AclBinding) -> None:
    admin = AdminClient(settings_of(cluster, "admin"))
    for done in admin.create_acls(list(entries)).values():
        done.result(SECONDS_MAX)


def created(admin: AdminClient, name: str) -> int:
    """The error code of an attempt to create a topic."""
    try:
        admin.create_topics([NewTopic(name, 1, 2)])[name].result(SECONDS_MAX)
    except KafkaException as problem:
        code: int = problem.args[0].code()
        return code
    return 0


def until(wanted: int, admin: AdminClient, name: str) -> None:
    """Entries reach all nodes a moment after they are written."""
    deadline = time.monotonic() + SECONDS_MAX
    while (found := created(admin, name)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def audited(cluster: Cluster, number: int) -> list[dict[str, object]]:
    lines = cluster.node(number).log.splitlines()
    return [json.loads(line[line.index("{") :]) for line in lines if "penstock.audit" in line]


def test_a_client_may_change_through_any_broker_what_it_may_and_nothing_else(
    cluster: Cluster,
) -> None:
    alice = AdminClient(settings_of(cluster, "alice"))
    assert created(alice, "a-1") == FORBIDDEN
    allow(cluster, entry(AclOperation.CREATE, "a-"))
    until(0, alice, "a-1")
    assert created(alice, "b-1") == FORBIDDEN
    grown = alice.create_partitions([NewPartitions("a-1", 3)])["a-1"]
    with pytest.raises(KafkaException) as refused:
        grown.result(SECONDS_MAX)
    assert refused.value.args[0].code() == FORBIDDEN
    own = alice.create_acls([entry(AclOperation.ALL, "b-")])
    with pytest.raises(KafkaException) as refused:
        next(iter(own.values())).result(SECONDS_MAX)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    resource = ConfigResource(ConfigResource.Type.BROKER, "2")
    with pytest.raises(KafkaException):
        alice.describe_configs([resource])[resource].result(SECONDS_MAX)


def test_entries_may_be_about_networks(cluster: Cluster) -> None:
    alice = AdminClient(settings_of(cluster, "alice"))
    allow(cluster, entry(AclOperation.CREATE, "far-", host="10.0.0.0/8"))
    allow(cluster, entry(AclOperation.CREATE, "near-", host="127.0.0.0/8"))
    until(0, alice, "near-1")
    assert created(alice, "far-1") == FORBIDDEN


def test_a_right_that_is_given_and_taken_counts_for_a_producer_that_stays(
    cluster: Cluster,
) -> None:
    admin = AdminClient(settings_of(cluster, "admin"))
    admin.create_topics([NewTopic("w-1", 1, 2)])["w-1"].result(SECONDS_MAX)
    binding = entry(AclOperation.WRITE, "w-")
    allow(cluster, binding)
    refresh = {"topic.metadata.refresh.interval.ms": 100}  # what it was refused, it asks again
    producer = Producer({**settings_of(cluster, "alice"), "linger.ms": 0, **refresh})
    deadline = time.monotonic() + SECONDS_MAX
    while written(producer) is not None:
        assert time.monotonic() < deadline
        producer.poll(0.05)
    same = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    for done in admin.delete_acls([same]).values():
        assert len(done.result(SECONDS_MAX)) == 1
    while (error := written(producer)) is None:
        assert time.monotonic() < deadline
    assert error.code() == FORBIDDEN


def written(producer: Producer) -> KafkaError | None:
    told: list[KafkaError | None] = []
    try:
        producer.produce("w-1", b"x", on_delivery=lambda error, _: told.append(error))
    except KafkaException as refused:  # the client knows it from metadata it was given before
        error: KafkaError = refused.args[0]
        return error
    producer.flush(SECONDS_MAX)
    return told[0]


def test_both_the_broker_and_the_controller_write_down_who_changed_what(cluster: Cluster) -> None:
    alice = AdminClient(settings_of(cluster, "alice"))
    allow(cluster, entry(AclOperation.CREATE, "told-"))
    until(0, alice, "told-1")
    assert created(alice, "untold") == FORBIDDEN
    deadline = time.monotonic() + SECONDS_MAX
    while "TOPIC:untold" not in denials(cluster) or not changes(cluster, 1):
        assert time.monotonic() < deadline, "what nodes print arrives a moment later, but it does"
        time.sleep(0.02)
    decided = changes(cluster, 1)
    asked = changes(cluster, 2) + changes(cluster, 3)
    assert [line["principal"] for line in decided + asked] == ["User:alice"] * 2
    assert decided[0]["host"] == decided[0]["passed_on_by"] == "127.0.0.1"
    assert "passed_on_by" not in asked[0]


def changes(cluster: Cluster, number: int) -> list[dict[str, object]]:
    wanted = {"topics": ["told-1"]}
    return [line for line in audited(cluster, number) if line.get("details") == wanted]


def denials(cluster: Cluster) -> list[object]:
    lines = [line for number in (2, 3) for line in audited(cluster, number)]
    return [line["resource"] for line in lines if line["event"] == "denied"]

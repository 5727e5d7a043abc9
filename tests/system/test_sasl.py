"""SASL with real clients: every mechanism, wrong credentials, sessions that are renewed under load,
and a cluster whose nodes log in to each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from penstock.platform.disk import Disk
from penstock.protocol.generated.metadata_records import UserScramCredentialRecord
from penstock.raft.format import write_bootstrap
from penstock.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.security.scram_keys import BY_NAME, credential, salted
from penstock.testing import Broker
from penstock.testing.cluster import Cluster
from tests.unit.security.signing import AUDIENCE, ISSUER, Issuer

SASL = "SASL_PLAINTEXT"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SECONDS_MAX = 20
SIGNER = Issuer()
SESSION_MS = 1500


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that takes all mechanisms; alice has the same password with each."""
    keys: Path = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_bytes(SIGNER.key_set)
    config = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required user_admin="admin-secret" user_a="a-secret";',
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
    }
    with Broker(config, protocol=SASL) as running:
        admin = AdminClient(plain(running, "admin", "admin-secret"))
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(kind, 8192)
            added = UserScramCredentialUpsertion("alice", info, b"alice-secret")
            admin.alter_user_scram_credentials([added])["alice"].result(SECONDS_MAX)
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS_MAX)
        yield running


def plain(broker: Broker | Cluster, user: str, password: str, mechanism: str = "PLAIN") -> Any:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": SASL,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def token(signer: Issuer = SIGNER) -> str:
    now = int(time.time())
    return signer.sign({"sub": "alice", "iat": now, "exp": now + 600})


def confluent(broker: Broker, mechanism: str, right: bool = True) -> dict[str, Any]:
    if mechanism != "OAUTHBEARER":
        return dict(plain(broker, "alice", "alice-secret" if right else "wrong", mechanism))
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": SASL,
        "sasl.mechanism": mechanism,
        "oauth_cb": lambda _: (token(SIGNER if right else Issuer()), time.time() + 600),
    }


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, signer: Issuer) -> None:
        self._signer = signer

    def token(self) -> str:
        return token(self._signer)


def kafka_python(broker: Broker, mechanism: str, right: bool = True) -> dict[str, Any]:
    settings = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": SASL,
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        provider = _Tokens(SIGNER if right else Issuer())
        return {**settings, "sasl_oauth_token_provider": provider}
    password = "alice-secret" if right else "wrong"
    return {**settings, "sasl_plain_username": "alice", "sasl_plain_password": password}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_writes_and_reads(broker: Broker, mechanism: str) -> None:
    settings, value = confluent(broker, mechanism), f"confluent {mechanism}".encode()
    delivered: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce("t", value, callback=lambda error, _: delivered.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert delivered == [None]
    consumer = Consumer({**settings, "group.id": mechanism, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found: list[bytes | None] = []
    deadline = time.monotonic() + SECONDS_MAX
    while value not in found and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found.append(message.value())
    consumer.close()
    assert value in found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_and_reads(broker: Broker, mechanism: str) -> None:
    settings, value = kafka_python(broker, mechanism), f"python {mechanism}".encode()
    producer = KafkaProducer(**settings)
    offset = producer.send("t", value).get(SECONDS_MAX).offset
    producer.close()
    consumer = KafkaConsumer(**settings, consumer_timeout_ms=SECONDS_MAX * 1000)
    partition = TopicPartition("t", 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    assert next(iter(consumer)).value == value
    consumer.close()


def errors_of(settings: dict[str, Any]) -> list[int]:
    """What a client hears that cannot log in."""
    errors: list[int] = []
    producer = Producer({**settings, "error_cb": lambda error: errors.append(error.code())})
    deadline = time.monotonic() + SECONDS_MAX
    while KafkaError._AUTHENTICATION not in errors and time.monotonic() < deadline:
        producer.poll(0.1)
    return errors


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_credentials_are_told_as_such(broker: Broker, mechanism: str) -> None:
    assert KafkaError._AUTHENTICATION in errors_of(confluent(broker, mechanism, right=False))
    with pytest.raises(PythonKafkaError):
        KafkaProducer(**kafka_python(broker, mechanism, right=False), bootstrap_timeout_ms=500)


def test_sessions_are_renewed_under_way_and_nobody_notices(broker: Broker) -> None:
    errors: list[str] = []

    def note(error: KafkaError | None, _: object = None) -> None:
        if error is not None:
            errors.append(error.str())

    producer = Producer({**confluent(broker, "SCRAM-SHA-256"), "error_cb": note, "linger.ms": 0})
    deadline = time.monotonic() + 3 * SESSION_MS / 1000
    sent = 0
    while time.monotonic() < deadline:
        producer.produce("t", b"x", callback=note)
        producer.poll(0.02)
        sent += 1
    assert producer.flush(SECONDS_MAX) == 0
    assert sent > 50
    assert errors == []


def test_nothing_secret_was_printed(broker: Broker) -> None:
    assert errors_of(plain(broker, "nobody", "hunter2"))
    assert '"event": "login failed"' in broker.log
    assert '"event": "logged in"' in broker.log
    for secret in ("alice-secret", "admin-secret", "a-secret", "hunter2"):
        assert secret not in broker.log


# -- a cluster ------------------------------------------------------------------------------------


def first_user(name: str, password: str) -> UserScramCredentialRecord:
    kind, salt = BY_NAME["SCRAM-SHA-512"], b"s" * 24
    kept = credential(kind, salt, 4096, salted(kind, password, salt, 4096))
    return UserScramCredentialRecord(
        name=name,
        mechanism=kind.number,
        salt=salt,
        stored_key=kept.stored_key,
        server_key=kept.server_key,
        iterations=4096,
    )


def scram_cluster(password: Callable[[int], str]) -> Cluster:
    """Three nodes that log in to each other as `node`, whom formatting made known."""
    mechanism = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        "connections.max.reauth.ms": "2000",  # so that nodes log in again under way
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    own = {
        number: {
            "sasl.jaas.config": (
                f'{SCRAM_MODULE} required username="node" password="{password(number)}";'
            )
        }
        for number in (1, 2, 3)
    }
    cluster = Cluster(3, config=mechanism, configs=own, protocol=SASL, controller_protocol=SASL)
    users = [first_user("node", "node-secret"), first_user("alice", "alice-secret")]
    for number in (1, 2, 3):
        write_bootstrap(Disk(), cluster.directory(number), 0, credentials=users)
    return cluster


def test_nodes_that_log_in_to_each_other_elect_replicate_and_come_back() -> None:
    with scram_cluster(lambda _: "node-secret") as cluster:
        settings = plain(cluster, "alice", "alice-secret", "SCRAM-SHA-512")
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("t", 3, 3)])["t"].result(SECONDS_MAX)
        for _ in range(3):
            write(settings, 30)
            time.sleep(1)  # longer than a session, all in all
        # The nodes' own password becomes another one; who logs in with it has to be believed
        # after a restart too, before anybody could say what is committed.
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        changed = UserScramCredentialUpsertion("node", info, b"another")
        admin.alter_user_scram_credentials([changed])["node"].result(SECONDS_MAX)
        cluster.kill()
        for node in cluster.nodes.values():
            node.config["sasl.jaas.config"] = (
                f'{SCRAM_MODULE} required username="node" password="another";'
            )
        cluster.start()
        write(settings, 30)
        assert "node-secret" not in cluster.log


def write(settings: dict[str, Any], count: int) -> None:
    delivered: list[KafkaError | None] = []
    producer = Producer({**settings, "acks": "all"})
    for number in range(count):
        producer.produce("t", b"%d" % number, callback=lambda error, _: delivered.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert delivered == [None] * count

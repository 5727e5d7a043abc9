"""Clients of each language prove who they are in each way, and then write, read in groups and
transact; those who cannot prove it hear that, in their client's own words."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock.app.sasl_own import OwnLogin
from penstock.net.peer import Ask, Peer, PeerLost
from penstock.platform.chance import SystemChance
from penstock.platform.workers import InlineWorkers
from penstock.protocol.generated.metadata import MetadataRequest
from penstock.security.own_login import (
    BearerCredentials,
    Credentials,
    PlainCredentials,
    ScramCredentials,
)
from penstock.security.scram_keys import BY_NAME
from tests.oracle.nodes import Node
from tests.oracle.papers import (
    MECHANISMS,
    PASSWORDS,
    STANDARD_AUTHORIZER,
    Office,
    Proof,
    listen,
    servers,
)
from tests.oracle.tools import Tools

SECONDS_MAX = 30
SESSION_MS = 1500
TOPIC = "of-alice"
ADMIN = Proof("PLAIN", "admin", "admin-secret")
WAYS = (*MECHANISMS, "certificate", "nothing")
PROOFS = {way: Proof(way, "alice", "alice-secret") for way in WAYS}
REFUSED = (*MECHANISMS, "certificate")
METRIC = re.compile(r"^producer-metrics:([a-z-]+):\S*\s*: (\S+)$", re.MULTILINE)


class Guarded:
    """A node that asks everybody for proof, and whether they may."""

    def __init__(self, node: Node, office: Office) -> None:
        self.node = node
        self.office = office
        listen(
            node,
            {"LOGIN": "SASL_SSL", "MUTUAL": "SSL", "ENCRYPTED": "SSL", "RENEWED": "SASL_SSL"},
            between="MUTUAL",
            controller="SSL",
        )
        passwords = {each.user: each.password for each in (ADMIN, PROOFS["PLAIN"])}
        node.config |= {
            **office.keys("node-1"),
            **office.logins("LOGIN", passwords),
            **office.logins("RENEWED", passwords),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:node-1;User:admin",
        } | {
            f"listener.name.renewed.{each.lower()}.connections.max.reauth.ms": str(SESSION_MS)
            for each in MECHANISMS
        }
        node.variables["JAVA_TOOL_OPTIONS"] = " ".join(office.allow_files())

    def servers(self, proof: Proof) -> str:
        where = {"certificate": "MUTUAL", "nothing": "ENCRYPTED"}
        return servers(self.node, where.get(proof.mechanism, "LOGIN"))

    def confluent(self, proof: Proof) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers(proof), **self.office.librdkafka(proof)}

    def aiokafka(self, proof: Proof) -> dict[str, Any]:
        return {"bootstrap_servers": self.servers(proof), **self.office.aiokafka(proof)}

    def introduce_alice(self) -> None:
        """Her passwords, and the right to whatever is called as she is; without a proof, too."""
        admin = AdminClient(self.confluent(ADMIN))
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(kind, 4096)
            added = UserScramCredentialUpsertion("alice", info, b"alice-secret")
            admin.alter_user_scram_credentials([added])["alice"].result(SECONDS_MAX)
        kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        given = [
            AclBinding(
                kind, "of-alice", ResourcePatternType.PREFIXED, who, "*",
                AclOperation.ALL, AclPermissionType.ALLOW,
            )
            for kind in kinds
            for who in ("User:alice", "User:ANONYMOUS")
        ]  # fmt: skip
        for done in admin.create_acls(given).values():
            done.result(SECONDS_MAX)
        topics = [NewTopic(TOPIC, 1, 1), NewTopic("of-others", 1, 1)]
        for done in admin.create_topics(topics).values():
            done.result(SECONDS_MAX)


@pytest.fixture(scope="module")
def guarded(target: type[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    node = target(folder / "node")
    made = Guarded(node, Office(folder / "office"))
    with node:
        made.introduce_alice()
        yield made


def found(consumer: Consumer, wanted: bytes) -> list[bytes | None]:
    """What a member reads until it comes upon something."""
    values: list[bytes | None] = []
    deadline = time.monotonic() + SECONDS_MAX
    while wanted not in values:
        assert time.monotonic() < deadline, f"{wanted!r} never came"
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value())
    return values


# -- confluent-kafka ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_confluent_kafka_writes_reads_and_transacts(guarded: Guarded, way: str) -> None:
    settings, name = guarded.confluent(PROOFS[way]), f"of-alice-confluent-{way}"
    producer = Producer({**settings, "transactional.id": name})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(TOPIC, f"{name} taken back".encode())
    producer.flush(SECONDS_MAX)
    producer.abort_transaction(SECONDS_MAX)
    consumer = Consumer(
        {
            **settings,
            "group.id": name,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    producer.begin_transaction()
    producer.produce(TOPIC, name.encode())
    # Before it joins: half way in, it would name itself as a member without a generation.
    group, here = consumer.consumer_group_metadata(), [TopicPartition(TOPIC, 0, 1)]
    producer.send_offsets_to_transaction(here, group, SECONDS_MAX)
    producer.commit_transaction(SECONDS_MAX)
    consumer.subscribe([TOPIC])
    assert f"{name} taken back".encode() not in found(consumer, name.encode())
    consumer.close()


def test_who_is_let_in_may_not_do_everything(guarded: Guarded) -> None:
    for way in WAYS:
        errors: list[KafkaError | None] = []
        producer = Producer(guarded.confluent(PROOFS[way]))
        producer.produce("of-others", b"x", on_delivery=partial(note_first, errors))
        assert producer.flush(SECONDS_MAX) == 0
        [error] = errors
        assert error is not None, way
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, way


def note_first(noted: list[KafkaError | None], error: KafkaError | None, _: Message) -> None:
    noted.append(error)


@pytest.mark.parametrize("way", REFUSED)
def test_confluent_kafka_hears_that_it_is_not_believed(guarded: Guarded, way: str) -> None:
    errors: list[KafkaError] = []
    settings = guarded.confluent(PROOFS[way]._replace(right=False))
    producer = Producer({**settings, "error_cb": errors.append})
    deadline = time.monotonic() + SECONDS_MAX
    while not errors:
        assert time.monotonic() < deadline
        producer.poll(0.1)
    if way == "certificate":
        assert "SSL alert number" in errors[0].str()
    else:
        assert errors[0].code() == KafkaError._AUTHENTICATION


class Busy:
    """Somebody who writes and reads, at a listener that wants a new proof all the time."""

    def __init__(self, guarded: Guarded, way: str) -> None:
        self.problems: list[str] = []
        self.sent = 0
        self._name = f"of-alice-renewed-{way}"
        settings = guarded.confluent(PROOFS[way]) | {
            "bootstrap.servers": servers(guarded.node, "RENEWED"),
            "error_cb": self._note,
        }
        group = {"group.id": self._name, "auto.offset.reset": "latest"}
        self._consumer = Consumer({**settings, **group})
        self._consumer.subscribe([TOPIC])
        self._producer = Producer({**settings, "linger.ms": 1})

    def _note(self, error: KafkaError | None, _: object = None) -> None:
        if error is not None:
            self.problems.append(error.str())

    def work(self) -> None:
        self._producer.produce(TOPIC, f"{self._name} {self.sent}", on_delivery=self._note)
        self._producer.poll(0.01)
        message = self._consumer.poll(0)
        self._note(None if message is None else message.error())
        self.sent += 1

    def end(self) -> None:
        self._producer.produce(TOPIC, self._name, on_delivery=self._note)
        assert self._producer.flush(SECONDS_MAX) == 0
        found(self._consumer, self._name.encode())
        self._consumer.close()


@pytest.mark.penstock_only  # librdkafka and Apache Kafka lose connections in this, and say so
def test_confluent_kafka_proves_it_again_and_again_under_way(guarded: Guarded) -> None:
    busy = [Busy(guarded, way) for way in ("SCRAM-SHA-512", "OAUTHBEARER")]
    deadline = time.monotonic() + 3 * SESSION_MS / 1000
    while time.monotonic() < deadline:
        for each in busy:
            each.work()
    for each in busy:
        each.end()
        assert each.sent > 50
        assert each.problems == []


# -- aiokafka -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_aiokafka_writes_reads_and_transacts(guarded: Guarded, way: str) -> None:
    settings, name = guarded.aiokafka(PROOFS[way]), f"of-alice-aiokafka-{way}"
    async with AIOKafkaProducer(**settings, transactional_id=name) as producer:
        with pytest.raises(InterruptedError):
            async with producer.transaction():
                await producer.send_and_wait(TOPIC, f"{name} taken back".encode())
                raise InterruptedError
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, name.encode())
    values = []
    async with (
        AIOKafkaConsumer(
            TOPIC,
            **settings,
            group_id=name,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer,
        asyncio.timeout(SECONDS_MAX),
    ):
        while name.encode() not in values:
            values.append((await consumer.getone()).value)
        await consumer.commit()
    assert f"{name} taken back".encode() not in values


# Apache answers who goes on without a proof with metadata of nothing, and aiokafka waits for more.
@pytest.mark.parametrize(
    "way", [*PASSWORDS, pytest.param("OAUTHBEARER", marks=pytest.mark.penstock_only), "certificate"]
)
async def test_aiokafka_hears_that_it_is_not_believed(
    guarded: Guarded, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = AIOKafkaProducer(**guarded.aiokafka(PROOFS[way]._replace(right=False)))
    with pytest.raises(KafkaConnectionError):
        await producer.start()
    await producer.stop()
    # Of tokens and of TLS it tells no more than that the connection is gone.
    assert ("SaslAuthenticationFailed" if way in PASSWORDS else "closed") in caplog.text


# -- franz-go -------------------------------------------------------------------------------------


@pytest.mark.go
def test_franz_go_writes_reads_and_transacts_where_it_is_believed(
    guarded: Guarded, tmp_path: Path
) -> None:
    program = tmp_path / "secure"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "./secure"],
        cwd=Path(__file__).with_name("franz"), capture_output=True, text=True, timeout=280,
        env={**os.environ, "CGO_ENABLED": "0"},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    proofs = {f"of-alice-franz-{way}": PROOFS[way] for way in WAYS}
    forged = {f"forged-{way}": PROOFS[way]._replace(right=False) for way in REFUSED}
    cases = [
        {
            **guarded.office.franz(proof),
            "name": name,
            "servers": guarded.servers(proof),
            "topic": TOPIC,
        }
        for name, proof in (proofs | forged).items()
    ]
    ran = subprocess.run(
        [str(program)], input=json.dumps(cases), capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    told = {each["step"]: each.get("error") for each in map(json.loads, ran.stdout.splitlines())}
    assert {name: told[name] for name in proofs} == dict.fromkeys(proofs)
    said = dict.fromkeys(PASSWORDS, "SASL_AUTHENTICATION_FAILED") | {
        "OAUTHBEARER": "unexpected data in oauth response",  # the reason, which it does not read
        "certificate": "remote error: tls: ",
    }
    for name, proof in forged.items():
        assert said[proof.mechanism] in (told[name] or ""), name


# -- Java -----------------------------------------------------------------------------------------


@pytest.mark.java
def test_java_proves_it_again_and_again_under_way(guarded: Guarded, tools: Tools) -> None:
    """In one transaction after the other; its metrics tell how often."""
    told = tools.check(
        "ProducerPerformance",
        *("--bootstrap-server", servers(guarded.node, "RENEWED"), "--topic", TOPIC),
        *("--command-config", str(guarded.office.java(PROOFS["SCRAM-SHA-256"]))),
        *("--num-records", "1400", "--record-size", "10", "--throughput", "400"),
        *("--transactional-id", "of-alice-java", "--transaction-duration-ms", "200"),
        "--print-metrics",
    )
    assert "1400 records sent" in told
    counts = dict(METRIC.findall(told))
    assert float(counts["successful-reauthentication-total"]) >= 1
    assert float(counts["failed-reauthentication-total"]) == 0
    assert float(counts["connection-close-total"]) == 0


# -- our own --------------------------------------------------------------------------------------


class OwnDoor:
    """How a node of ours enters: with TLS, and with credentials where they are asked for."""

    def __init__(self, office: Office, proof: Proof) -> None:
        self._context: ssl.SSLContext = office.aiokafka(proof)["ssl_context"]
        credentials = own_credentials(office, proof)
        self._login = credentials and OwnLogin(credentials, InlineWorkers(), SystemChance())

    def tls(self) -> ssl.SSLContext:
        return self._context

    def server_name(self, host: str) -> str:
        return host

    async def log_in(self, ask: Ask) -> float | None:
        return await self._login.log_in(ask) if self._login else None


def own_credentials(office: Office, proof: Proof) -> Credentials | None:
    password = proof.password if proof.right else "not-the-password"
    if proof.mechanism == "OAUTHBEARER":
        return BearerCredentials(lambda: office.sign(proof.user, proof.right))
    if proof.mechanism == "PLAIN":
        return PlainCredentials(proof.user, password)
    if proof.mechanism in PASSWORDS:
        return ScramCredentials(BY_NAME[proof.mechanism], proof.user, password)
    return None


@pytest.mark.parametrize("way", REFUSED)
async def test_a_node_of_ours_enters_either_make_and_hears_if_it_is_not_believed(
    guarded: Guarded, way: str
) -> None:
    proof = PROOFS[way]
    host, _, port = guarded.servers(proof).rpartition(":")
    peer = Peer(host, int(port), "t", OwnDoor(guarded.office, proof))
    told = await peer.ask(MetadataRequest(topics=None), SECONDS_MAX)
    assert [each.name for each in told.topics] == [TOPIC]
    peer.close()
    forged = OwnDoor(guarded.office, proof._replace(right=False))
    peer = Peer(host, int(port), "t", forged)
    with pytest.raises(PeerLost, match="alert" if way == "certificate" else "not believe"):
        await peer.ask(MetadataRequest(topics=None), SECONDS_MAX)
    peer.close()

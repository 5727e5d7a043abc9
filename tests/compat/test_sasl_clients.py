"""Logins of clients in every language with each mechanism, and of our own client at either make."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock.app.sasl_own import OwnLogin
from penstock.net.peer import Peer, PeerLost
from penstock.platform.chance import SystemChance
from penstock.platform.workers import InlineWorkers
from penstock.protocol.generated.metadata import MetadataRequest
from penstock.security.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE
from penstock.security.own_login import BearerCredentials, PlainCredentials, ScramCredentials
from penstock.security.scram_keys import BY_NAME
from tests.conftest import TARGET
from tests.oracle import apache
from tests.oracle.nodes import Node, free_ports
from tests.unit.security.signing import AUDIENCE, ISSUER, Issuer

SASL = "SASL_PLAINTEXT"
USER, PASSWORD = "alice", "alice-secret"
SECONDS_MAX = 20
SIGNER = Issuer("RS256")
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Apache's node takes no keys from a file unless its JVM is told so; these tests ask it for less.
MECHANISMS = PASSWORDS if TARGET == "apache" else (*PASSWORDS, "OAUTHBEARER")


class Guarded(NamedTuple):
    """A node with a listener that asks for proof, beside an open one."""

    node: Node
    port: int

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


def token(signer: Issuer = SIGNER) -> str:
    now = int(time.time())
    return signer.sign({"sub": USER, "scope": "all", "iat": now, "exp": now + 600})


@pytest.fixture(scope="module")
def guarded(target: type[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder: Path = tmp_path_factory.mktemp("guarded")
    (folder / "keys.json").write_bytes(SIGNER.key_set)
    node = target(folder / "node")
    (port,) = free_ports(1)
    listeners = f"PLAINTEXT://127.0.0.1:{node.port},{SASL}://127.0.0.1:{port}"
    prefix = f"listener.name.{SASL.lower()}"
    node.config |= {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{SASL}:{SASL},CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    if "OAUTHBEARER" in MECHANISMS:
        node.config |= {
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder / 'keys.json'}",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
    with node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(kind, 4096)
            added = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            admin.alter_user_scram_credentials([added])[USER].result(SECONDS_MAX)
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS_MAX)
        yield Guarded(node, port)


# -- aiokafka -------------------------------------------------------------------------------------


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return token()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_writes_and_reads(guarded: Guarded, mechanism: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": guarded.bootstrap,
        "security_protocol": SASL,
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _Tokens()
    else:
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    async with AIOKafkaProducer(**settings) as producer:
        sent = await producer.send_and_wait("t", mechanism.encode())
    async with AIOKafkaConsumer(**settings) as consumer:
        partition = TopicPartition("t", 0)
        consumer.assign([partition])
        consumer.seek(partition, sent.offset)
        assert (await consumer.getone()).value == mechanism.encode()


# -- franz-go -------------------------------------------------------------------------------------


@pytest.mark.go
def test_franz_go_writes_and_reads(guarded: Guarded, tmp_path: Path) -> None:
    program = tmp_path / "sasl"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "./sasl"],
        cwd=Path(__file__).with_name("franz"), capture_output=True, text=True, timeout=280,
        env={**os.environ, "CGO_ENABLED": "0"},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    shown = token() if "OAUTHBEARER" in MECHANISMS else ""
    ran = subprocess.run(
        [str(program), guarded.bootstrap, "t", USER, PASSWORD, shown],
        capture_output=True,
        text=True,
        timeout=120,
    )
    steps = {each["step"]: each.get("error") for each in map(json.loads, ran.stdout.splitlines())}
    assert steps == dict.fromkeys(MECHANISMS), ran.stderr


# -- Java -----------------------------------------------------------------------------------------


@pytest.mark.java
@pytest.mark.penstock_only
def test_java_shows_a_token(guarded: Guarded, tmp_path: Path) -> None:
    """The tools' warm JVM is not allowed to read a token from a file: this one is."""
    shown, settings = tmp_path / "token", tmp_path / "client.properties"
    shown.write_text(token())
    settings.write_text(
        f"security.protocol={SASL}\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url=file://{shown}\n"
        "sasl.oauthbearer.jwt.retriever.class="
        "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.jaas.config={OAUTH_MODULE} required;\n"
    )
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={shown}"
    urls = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{shown}"
    options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", allowed, urls)
    ran = subprocess.run(
        [
            *apache.java(options=options),
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", guarded.bootstrap, "--command-config", str(settings)),
            "--list",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "t" in ran.stdout.split()


# -- our own --------------------------------------------------------------------------------------


class _Door:
    """Into a listener that asks for proof, and does not encrypt."""

    def __init__(self, credentials: Any) -> None:
        self._login = OwnLogin(credentials, InlineWorkers(), SystemChance())

    def tls(self) -> None:
        return None

    def server_name(self, host: str) -> None:
        return None

    async def log_in(self, ask: Any) -> float | None:
        return await self._login.log_in(ask)


def credentials(mechanism: str, password: str, signer: Issuer) -> Any:
    if mechanism == "OAUTHBEARER":
        return BearerCredentials(lambda: token(signer))
    if mechanism == "PLAIN":
        return PlainCredentials(USER, password)
    return ScramCredentials(BY_NAME[mechanism], USER, password)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_node_of_ours_logs_in_at_either_make(guarded: Guarded, mechanism: str) -> None:
    peer = Peer("127.0.0.1", guarded.port, "t", _Door(credentials(mechanism, PASSWORD, SIGNER)))
    told = await peer.ask(MetadataRequest(topics=None), SECONDS_MAX)
    assert "t" in [each.name for each in told.topics]
    peer.close()
    wrong = Peer("127.0.0.1", guarded.port, "t", _Door(credentials(mechanism, "wrong", Issuer())))
    with pytest.raises(PeerLost, match="does not believe"):
        await wrong.ask(MetadataRequest(topics=None), SECONDS_MAX)
    wrong.close()

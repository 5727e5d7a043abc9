"""Whole nodes with TLS, entered as other nodes do: who they take a certificate's holder for."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.app.problems import CannotStart
from penstock.metadata.configs import BROKER
from penstock.model.errors import ErrorCode
from penstock.net.peer import Peer, PeerLost
from penstock.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.generated.metadata import MetadataRequest
from penstock.security.authority import Authority, Issued
from penstock.security.stores import Store
from penstock.security.tls import TlsSettings, client_context
from tests.unit.server.asking import port_of, running_node

AUTHORITY = Authority.make()
HOSTS = ["localhost", "127.0.0.1"]
NODE = AUTHORITY.issue("node-1", HOSTS)
ALICE = AUTHORITY.issue("alice", unit="Data", organization="Example, Inc")


def settings(tmp_path: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    (tmp_path / "trust.pem").write_text(AUTHORITY.certificate_pem)
    (tmp_path / "node.pem").write_text(NODE.pem())
    return {
        "listeners": "SSL://127.0.0.1:0,CONTROLLER://localhost:0",
        "advertised.listeners": "SSL://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "trust.pem"),
        "ssl.client.auth": "required",
        **(more or {}),
    }


class Door:
    """Into a listener with TLS and nothing else."""

    def __init__(self, issued: Issued | None, authority: Authority = AUTHORITY) -> None:
        keystore = Store("keystore")
        if issued is not None:
            keystore = Store("keystore", key=issued.key_pem(), certificates=issued.chain_pem)
        trust = Store("truststore", certificates=authority.certificate_pem)
        versions = frozenset({"TLSv1.2", "TLSv1.3"})
        made = TlsSettings(keystore, trust, versions, None, "none", checks_host=True)
        self._context = client_context(made).ssl

    def tls(self) -> ssl.SSLContext:
        return self._context

    def server_name(self, host: str) -> str:
        return host

    async def log_in(self, ask: Any) -> None:
        return None


async def ask(node: Node, door: Door | None, request: Any = None, host: str = "127.0.0.1") -> Any:
    peer = Peer(host, port_of(node), "test", door)
    try:
        return await peer.ask(request or MetadataRequest(topics=[]), 10)
    finally:
        peer.close()


def audited(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(each.message) for each in caplog.records if each.name == "penstock.audit"]
    return [each for each in lines if each["event"] == event]


@pytest.fixture(autouse=True)
def _hear_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.audit")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", r"User:CN=alice,OU=Data,O=Example\, Inc"),
        (r"RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L", "User:alice@data"),
    ],
)
async def test_a_certificate_says_who_somebody_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rules: str, expected: str
) -> None:
    more = {"ssl.principal.mapping.rules": rules}
    async with running_node(tmp_path, settings(tmp_path, more)) as node:
        await ask(node, Door(ALICE))
        [told] = audited(caplog, "logged in")
        assert told["principal"] == expected
        assert (told["listener"], told["mechanism"]) == ("SSL", "TLS")


async def test_who_fits_no_rule_is_not_let_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = {"ssl.principal.mapping.rules": "RULE:^CN=bob.*$/bob/"}
    async with running_node(tmp_path, settings(tmp_path, more)) as node:
        with pytest.raises(PeerLost):
            await ask(node, Door(ALICE))
        [told] = audited(caplog, "login failed")
        assert told["reason"] == "no rule of ssl.principal.mapping.rules applies"
        assert "CN=alice" in told["principal"]


async def test_rights_go_by_the_name_in_the_certificate(tmp_path: Path) -> None:
    more = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice;User:node-1",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
        "ssl.client.auth": "requested",
        # The one controller is entered as this node, and as anybody else its listener is open.
        "allow.everyone.if.no.acl.found": "false",
    }
    alter = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=BROKER,
                resource_name="1",
                configs=[AlterableConfig(name="log.cleaner.threads", config_operation=1)],
            )
        ]
    )
    async with running_node(tmp_path, settings(tmp_path, more)) as node:
        for issued, expected in (
            (ALICE, ErrorCode.NONE),
            (AUTHORITY.issue("bob"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            (None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ):
            answer = await ask(node, Door(issued), alter)
            assert answer.responses[0].error_code == expected


@pytest.mark.parametrize(
    ("door", "reason"),
    [
        (Door(None), "certificate required"),
        (Door(Authority.make("another").issue("alice")), "unknown ca"),
        (None, "hung up|no answer|did not answer|reset"),
        (Door(ALICE, Authority.make("another")), "the certificate is not accepted: "),
    ],
)
async def test_a_node_that_cannot_come_in_is_told_why(
    tmp_path: Path, door: Door | None, reason: str
) -> None:
    async with running_node(tmp_path, settings(tmp_path)) as node:
        with pytest.raises(PeerLost, match=reason):
            await ask(node, door)


async def test_a_node_under_another_name_is_not_entered(tmp_path: Path) -> None:
    node_pem = AUTHORITY.issue("node-1", ["somewhere.else"]).pem()
    found = settings(tmp_path, {"ssl.client.auth": "none"})
    (tmp_path / "node.pem").write_text(node_pem)
    async with running_node(tmp_path, found) as node:
        with pytest.raises(PeerLost, match="IP address mismatch"):
            await ask(node, Door(ALICE))


async def test_rules_that_make_no_sense_stop_the_start(tmp_path: Path) -> None:
    found = settings(tmp_path, {"ssl.principal.mapping.rules": "RULE:((/x/"})
    with pytest.raises(CannotStart, match=r"ssl\.principal\.mapping\.rules: the pattern"):
        async with running_node(tmp_path, found):
            pass


async def test_keys_are_altered_while_the_node_runs(tmp_path: Path) -> None:
    renewed = tmp_path / "renewed.pem"
    renewed.write_text(AUTHORITY.issue("node-1", [*HOSTS, "renewed.example.com"]).pem())

    async def alter(node: Node, location: str) -> tuple[int, str | None]:
        setting = AlterableConfig(
            name="listener.name.ssl.ssl.keystore.location", config_operation=0, value=location
        )
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[setting])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        [answer] = (await ask(node, Door(ALICE), request)).responses
        return answer.error_code, answer.error_message

    async with running_node(tmp_path, settings(tmp_path)) as node:
        code, message = await alter(node, "/not/there")
        assert code == ErrorCode.INVALID_REQUEST
        assert message is not None and "/not/there cannot be read" in message
        assert await names_shown(node) == set(HOSTS)
        assert await alter(node, str(renewed)) == (ErrorCode.NONE, None)
        async with asyncio.timeout(5):
            while "renewed.example.com" not in await names_shown(node):
                await asyncio.sleep(0.02)


async def names_shown(node: Node) -> set[str]:
    """The names in the certificate that a new connection sees."""
    context = Door(ALICE).tls()
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(node), ssl=context)
    certificate = writer.get_extra_info("peercert")
    writer.transport.abort()
    return {name for _, name in certificate["subjectAltName"]}

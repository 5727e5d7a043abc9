"""A secured node to knock at, and a client that logs in to it step by step with our own codecs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.app.node import Node
from penstock.app.settings import settings_for_up
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.generated.sasl_handshake import SaslHandshakeRequest
from penstock.security.own_login import ScramCredentials, Slow
from penstock.security.scram_keys import BY_NAME
from tests.unit.server.asking import Asker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MODULES = "org.apache.kafka.common.security."
ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"


def secured(protocol: str, users: Mapping[str, str] | None = None, **more: str) -> dict[str, str]:
    """Settings of a node that asks for proof and rights; `admin` may do everything.

    `more` are settings with underscores for their dots.
    """
    known = {ADMIN: ADMIN_PASSWORD, **(users or {})}
    options = " ".join(f'user_{name}="{password}"' for name, password in known.items())
    module = f"{MODULES}plain.PlainLoginModule required {options};"
    return {
        "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": protocol,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": module,
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "connection.failed.authentication.delay.ms": "10",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


@asynccontextmanager
async def secured_node(
    directory: Path | str, settings: Mapping[str, str], protocol: str = "SASL_PLAINTEXT"
) -> AsyncIterator[Node]:
    """A whole node inside the test's own event loop, behind a listener of this protocol."""
    made = settings_for_up(str(directory), "127.0.0.1", 0, settings, protocol)
    node = Node(NodeConfig.of(made), lambda: None)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


@asynccontextmanager
async def knocking(node: Node, tls: ssl.SSLContext | None = None) -> AsyncIterator[Asker]:
    """A connection that has not shown anything yet."""
    port = int(node.address.rpartition(":")[2])
    name = "localhost" if tls else None
    opened = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    asker = Asker(*opened)
    try:
        yield asker
    finally:
        asker.close()


@asynccontextmanager
async def entered(
    node: Node, user: str = ADMIN, password: str = ADMIN_PASSWORD, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Asker]:
    """A connection of somebody who logged in with PLAIN."""
    async with knocking(node, tls) as asker:
        answer = await show(asker, "PLAIN", f"\0{user}\0{password}".encode())
        assert answer.error_code == ErrorCode.NONE, answer
        yield asker


async def show(asker: Asker, mechanism: str, *messages: bytes) -> Any:
    """Choose a mechanism, say these messages, and answer what came of the last."""
    answer = await asker.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
    assert answer.error_code == ErrorCode.NONE, answer
    for message in messages:
        answer = await asker.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
    return answer


async def show_scram(
    asker: Asker, mechanism: str, user: str, password: str, *, by_token: bool = False
) -> Any:
    """Log in with SCRAM, and answer what came of it."""
    client = ScramCredentials(BY_NAME[mechanism], user, password, by_token).begin(b"n" * 18)
    said = client.step(b"")
    assert isinstance(said, bytes)
    first = await show(asker, mechanism, said)
    if first.error_code:
        return first
    slow = client.step(first.auth_bytes)
    assert isinstance(slow, Slow)
    proof = slow.then(slow.run())
    return await asker.ask(SaslAuthenticateRequest(auth_bytes=proof), 2)

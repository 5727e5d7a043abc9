"""A listener with TLS, its keys, and clients for it."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.net.listener import Limits
from penstock.security.authority import Authority, Issued
from penstock.security.stores import Store
from penstock.security.tls import TlsSettings, client_context, server_context
from tests.unit.net.scripted import Running, ScriptedService, running

AUTHORITY = Authority.make()
NODE = AUTHORITY.issue("node-1", ["localhost", "127.0.0.1"])
ALICE = AUTHORITY.issue("alice")


def settings(issued: Issued | None, client_auth: str = "none", version: str = "") -> TlsSettings:
    keystore = Store("keystore")
    if issued is not None:
        keystore = Store("keystore", key=issued.key_pem(), certificates=issued.chain_pem)
    trust = Store("truststore", certificates=AUTHORITY.certificate_pem)
    versions = frozenset({version} if version else {"TLSv1.2", "TLSv1.3"})
    return TlsSettings(keystore, trust, versions, None, client_auth, checks_host=True)


class Keys:
    """What a listener knows of TLS; the test may exchange the context."""

    def __init__(self, client_auth: str = "none") -> None:
        self.current = server_context(settings(NODE, client_auth)).ssl
        self.failures: list[tuple[str, str]] = []

    def context(self) -> ssl.SSLContext:
        return self.current

    def failed(self, host: str, reason: str) -> None:
        self.failures.append((host, reason))


def client_tls(issued: Issued | None = None, version: str = "") -> ssl.SSLContext:
    return client_context(settings(issued, version=version)).ssl


class HandMade:
    """A client whose TLS is in the test's hands: it may fall silent, or say farewell and listen."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: str = ""
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        trust = client_tls(version=version)
        self.tls = trust.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    @classmethod
    async def connect(cls, node: Running, version: str = "") -> HandMade:
        return cls(*await asyncio.open_connection("127.0.0.1", node.listener.port), version)

    async def shake_hands(self) -> None:
        await self._exchange(self.tls.do_handshake)

    async def send(self, content: bytes) -> None:
        self.tls.write(content)
        self.flush()
        await self.writer.drain()

    def say_farewell(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()
        self.flush()

    async def receive(self) -> bytes:
        content = b""
        while len(content) < 4 or len(content) < 4 + struct.unpack_from(">i", content)[0]:
            content += await self._exchange(lambda: self.tls.read(1 << 20))
        return content[4:]

    def unsent(self) -> bytes:
        return self.outgoing.read()

    def flush(self) -> None:
        if self.outgoing.pending:
            self.writer.write(self.unsent())

    async def _exchange(self, act: Any) -> Any:
        async with asyncio.timeout(10):
            while True:
                try:
                    done = act()
                except ssl.SSLWantReadError:
                    self.flush()
                    heard = await self.reader.read(1 << 16)
                    assert heard, "the server hung up"
                    self.incoming.write(heard)
                else:
                    self.flush()
                    return done


@asynccontextmanager
async def encrypted(
    keys: Keys, limits: Limits | None = None, service: ScriptedService | None = None
) -> AsyncIterator[Running]:
    async with running(limits, service, tls=keys) as node:
        yield node

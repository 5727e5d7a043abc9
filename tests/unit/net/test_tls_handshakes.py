"""Who comes in over TLS and who does not, and with which keys, on both event loops."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import weakref
from typing import Any

import pytest

from penstock.net import handshakes
from penstock.net.connection import CloseConnection, Connection
from penstock.security.authority import Authority
from penstock.security.tls import server_context
from tests.unit.net.conftest import Run
from tests.unit.net.encrypted import (
    ALICE,
    AUTHORITY,
    HandMade,
    Keys,
    client_tls,
    encrypted,
    settings,
)
from tests.unit.net.scripted import (
    Client,
    Running,
    ScriptedService,
    eventually,
    frame,
    running,
)

# -- handshakes -----------------------------------------------------------------------------------


async def refusal(client: Client) -> None:
    """What a client is told when the server does not want it."""
    async with asyncio.timeout(5):
        client.send(b"e")
        await client.reader.read(1)


def test_who_shows_no_certificate_is_told_so(run: Run) -> None:
    async def scenario() -> None:
        keys = Keys("required")
        async with encrypted(keys) as node:
            client = await node.client(client_tls())
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                await refusal(client)
            assert keys.failures == [("127.0.0.1", "peer did not return a certificate")]
            assert not node.listener.connections

    run(scenario())


def test_a_strangers_certificate_is_refused_with_the_reason(run: Run) -> None:
    async def scenario() -> None:
        keys = Keys("required")
        async with encrypted(keys) as node:
            stranger = Authority.make("another").issue("alice")
            client = await node.client(client_tls(stranger))
            with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
                await refusal(client)
            [(_, reason)] = keys.failures
            assert reason.startswith("the certificate is not accepted: self-signed")

    run(scenario())


@pytest.mark.parametrize("greeting", [frame(b"e1"), b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64])
def test_who_speaks_without_tls_is_closed_at_once_and_named(run: Run, greeting: bytes) -> None:
    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys) as node:
            client = await node.client()
            client.writer.write(greeting + b"\0" * 16)
            async with asyncio.timeout(2):
                await client.reader.read(100)  # an alert
                assert await client.is_closed()
            told = "the other side speaks without TLS where TLS is spoken"
            assert keys.failures == [("127.0.0.1", told)]
            assert not node.service.served

    run(scenario())


def test_a_handshake_that_never_ends_is_cut(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "SECONDS_MAX", 0.1)

    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys) as node:
            silent, half = await node.client(), await HandMade.connect(node)
            with pytest.raises(ssl.SSLWantReadError):
                half.tls.do_handshake()
            half.flush()
            assert await silent.is_closed()
            async with asyncio.timeout(5):
                while await half.reader.read(1 << 16):
                    pass
            assert keys.failures == [("127.0.0.1", "too slow to shake hands")] * 2

    run(scenario())


def test_a_handshake_that_is_done_is_not_cut(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "SECONDS_MAX", 0.1)

    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys) as node:
            client = await node.client(client_tls())
            await asyncio.sleep(0.3)
            client.send(b"e")
            assert await client.receive() == b"e"
            assert not keys.failures

    run(scenario())


def test_one_host_has_its_share_of_unfinished_handshakes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "UNFINISHED_PER_HOST_MAX", 3)

    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys) as node:
            waiting = [await node.client() for _ in range(3)]
            assert await (await node.client()).is_closed()
            [(_, reason)] = keys.failures
            assert reason == "too many unfinished handshakes of one host"
            waiting[0].close()
            await eventually(lambda: _unfinished(node) == 2)
            client = await node.client(client_tls())
            client.send(b"e")
            assert await client.receive() == b"e"

    run(scenario())


def test_where_there_are_too_many_the_oldest_gives_way(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "UNFINISHED_MAX", 2)

    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys) as node:
            oldest, _ = await node.client(), await node.client()
            await eventually(lambda: _unfinished(node) == 2)
            client = await node.client(client_tls())
            client.send(b"e")
            assert await client.receive() == b"e"
            assert await oldest.is_closed()
            assert keys.failures == [("127.0.0.1", "too many unfinished handshakes")]

    run(scenario())


def _unfinished(node: Running) -> int:
    found = node.listener._handshakes
    assert found is not None
    return len(found)


def test_stopping_gives_unfinished_handshakes_up(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client()
            await eventually(lambda: _unfinished(node) == 1)
            async with asyncio.timeout(5):
                await node.listener.stop(10_000)
            assert await client.is_closed()

    run(scenario())


def test_a_probe_that_only_connects_is_no_failure(run: Run) -> None:
    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys) as node:
            client = await node.client()
            await eventually(lambda: _unfinished(node) == 1)
            client.close()
            await eventually(lambda: not _unfinished(node))
            assert not keys.failures

    run(scenario())


# -- keys -----------------------------------------------------------------------------------------


def test_new_connections_use_new_keys_and_old_ones_go_on(run: Run) -> None:
    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys) as node:
            before = await node.client(client_tls())
            renewed = AUTHORITY.issue("node-1-renewed", ["localhost", "127.0.0.1"])
            keys.current = server_context(settings(renewed)).ssl
            after = await node.client(client_tls())
            for client in (before, after):
                client.send(b"e")
                assert await client.receive() == b"e"
            assert (_name_of(before), _name_of(after)) == ("node-1", "node-1-renewed")

    run(scenario())


def _name_of(client: Client) -> str:
    certificate = client.writer.get_extra_info("peercert")
    return str(dict(pair[0] for pair in certificate["subject"])["commonName"])


class Certified(ScriptedService):
    """Remembers what its clients showed, and lets nobody in whom it does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[bytes | None] = []

    def gate(self, connection: Connection) -> None:
        tls = connection.transport.get_extra_info("ssl_object")
        self.shown.append(tls.getpeercert(binary_form=True))
        if self.shown[-1] is None:
            raise CloseConnection("who are you?")


def test_a_service_sees_the_certificate_and_may_refuse(run: Run) -> None:
    async def scenario() -> None:
        service = Certified()
        async with encrypted(Keys("requested"), service=service) as node:
            alice, nobody = await node.client(client_tls(ALICE)), await node.client(client_tls())
            alice.send(b"e")
            assert await alice.receive() == b"e"
            nobody.send(b"e")
            assert await nobody.is_closed()
            assert [each is not None for each in service.shown] == [True, False]
            assert service.served == [b"e"]

    run(scenario())


def test_a_client_of_tls_at_a_plain_port_is_closed_at_once_and_told_apart(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock.net")

    async def scenario() -> None:
        async with running() as node:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with asyncio.timeout(2):
                    await node.client(client_tls())

    run(scenario())
    assert "speaks TLS" in caplog.text


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_who_resumes_a_session_is_still_known(run: Run, version: str) -> None:
    async def scenario() -> None:
        service = Certified()
        async with encrypted(Keys("required"), service=service) as node:
            context = client_tls(ALICE, version)

            def visit(session: ssl.SSLSession | None) -> tuple[bool, ssl.SSLSession | None]:
                with (
                    socket.create_connection(("127.0.0.1", node.listener.port), 5) as sock,
                    context.wrap_socket(
                        sock, server_hostname="localhost", session=session
                    ) as client,
                ):
                    client.sendall(frame(b"e"))
                    assert client.recv(100) == frame(b"e")
                    return bool(client.session_reused), client.session

            reused, session = await asyncio.to_thread(visit, None)
            assert not reused
            reused, _ = await asyncio.to_thread(visit, session)
            assert reused
            assert service.shown[0] == service.shown[1] is not None

    run(scenario())


def test_who_leaves_takes_the_memory_of_openssl_along_at_once(run: Run) -> None:
    class Remembering(ScriptedService):
        left: list[weakref.ref[Any]]

        def gate(self, connection: Connection) -> None:
            self.left.append(weakref.ref(connection.transport.get_extra_info("ssl_object")))

    async def scenario() -> None:
        service = Remembering()
        service.left = []
        async with encrypted(Keys(), service=service) as node:
            gc.collect()
            gc.disable()
            try:
                for _ in range(3):
                    client = await node.client(client_tls())
                    client.send(b"e")
                    assert await client.receive() == b"e"
                    client.close()
                await eventually(lambda: all(each() is None for each in service.left))
            finally:
                gc.enable()
            assert len(service.left) == 3

    run(scenario())

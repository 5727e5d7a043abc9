"""Connections over TLS, on both event loops: what works in the clear works encrypted."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.net import handshakes
from penstock.net.buffers import BufferPool
from penstock.net.connection import CloseConnection, Connection
from penstock.net.listener import Limits
from penstock.platform.disk import Disk
from penstock.security.authority import Authority, Issued
from penstock.security.stores import Store
from penstock.security.tls import TlsSettings, client_context, server_context
from tests.unit.net.conftest import Run
from tests.unit.net.scripted import (
    LARGE_BYTES,
    Client,
    ColdFile,
    Running,
    ScriptedService,
    eventually,
    file_of,
    frame,
    running,
)

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

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_tls().wrap_bio(self._in, self._out, server_hostname="localhost")

    @classmethod
    async def connect(cls, node: Running) -> HandMade:
        return cls(*await asyncio.open_connection("127.0.0.1", node.listener.port))

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
        return self._out.read()

    def flush(self) -> None:
        if self._out.pending:
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
                    self._in.write(heard)
                else:
                    self.flush()
                    return done


@asynccontextmanager
async def encrypted(
    keys: Keys, limits: Limits | None = None, service: ScriptedService | None = None
) -> AsyncIterator[Running]:
    async with running(limits, service, tls=keys) as node:
        yield node


# -- what works in the clear ----------------------------------------------------------------------


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_frames_are_served_in_order(run: Run, version: str) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls(version=version))
            client.send(b"e1", b"n", b"e2")
            assert [await client.receive(), await client.receive()] == [b"e1", b"e2"]

    run(scenario())


def test_large_frames_and_large_replies_come_whole(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls())
            body = b"e" + os.urandom(3_000_000)
            client.send(body, b"b", b"e2")
            assert await client.receive() == body
            assert await client.receive() == b"b" * LARGE_BYTES
            assert await client.receive() == b"e2"

    run(scenario())


def test_bytes_that_trickle_in_make_the_same_frames(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            for byte in frame(b"e12345"):  # a record for each
                await client.send(bytes([byte]))
            assert await client.receive() == b"e12345"

    run(scenario())


def test_records_cut_at_any_place_are_put_together_again(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            client.tls.write(frame(b"e1"))
            client.tls.write(frame(b"n2"))
            for byte in client.unsent():
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0)
            assert await client.receive() == b"e1"
            await eventually(lambda: node.service.served == [b"e1", b"n2"])

    run(scenario())


def test_what_is_put_aside_goes_on_when_the_request_before_it_is_answered(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls())
            client.send(b"w1", *[b"e%d" % number for number in range(50)])
            await eventually(lambda: node.service.waiting)
            assert len(node.service.served) == 1
            node.service.release(b"w1")
            expected = [b"w1", *[b"e%d" % number for number in range(50)]]
            assert [await client.receive() for _ in expected] == expected

    run(scenario())


def test_a_client_that_does_not_read_is_not_read_from(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            await client.send(b"".join(frame(b"b%d" % number) for number in range(100)))
            await asyncio.sleep(0.3)
            assert len(node.service.served) < 10  # 4 MB each: a socket takes two or three

    run(scenario())


def test_slices_of_files_arrive_between_the_bytes_around_them(run: Run, tmp_path: Any) -> None:
    content = os.urandom(5_000_000)

    async def scenario() -> None:
        service = ScriptedService(file_of(Disk(), str(tmp_path / "log"), content))
        async with encrypted(Keys(), service=service) as node:
            client = await node.client(client_tls())
            client.send(b"s", b"e1")
            assert await client.receive() == b"head" + content + b"tail"
            assert await client.receive() == b"e1"

    run(scenario())


def test_a_slice_from_a_cold_disk_holds_nobody_up(run: Run, tmp_path: Any) -> None:
    content = os.urandom(3_000_000)

    async def scenario() -> None:
        cold: Any = ColdFile(file_of(Disk(), str(tmp_path / "log"), content))
        async with encrypted(Keys(), service=ScriptedService(cold)) as node:
            client, other = await node.client(client_tls()), await node.client(client_tls())
            client.send(b"s")
            await eventually(lambda: cold.asked)
            other.send(b"e1")
            assert await other.receive() == b"e1"
            cold.warm()
            assert await client.receive() == b"head" + content + b"tail"

    run(scenario())


def test_a_client_may_say_farewell_and_still_be_answered(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            client.tls.write(frame(b"w1") + frame(b"n2"))
            client.say_farewell()
            await eventually(lambda: node.service.waiting)
            node.service.release(b"w1")
            assert await client.receive() == b"w1"
            assert node.service.served == [b"w1", b"n2"]
            await eventually(lambda: not node.listener.connections)

    run(scenario())


def test_a_client_may_close_its_sending_half_and_still_be_answered(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            await client.send(frame(b"w1"))
            await eventually(lambda: node.service.waiting)
            client.writer.write_eof()
            await asyncio.sleep(0.05)
            node.service.release(b"w1")
            assert await client.receive() == b"w1"
            await eventually(lambda: not node.listener.connections)

    run(scenario())


def test_a_farewell_with_nothing_to_wait_for_closes(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            client.say_farewell()
            await eventually(lambda: not node.listener.connections)
            async with asyncio.timeout(5):
                while await client.reader.read(1 << 16):
                    pass  # the server's own farewell

    run(scenario())


def test_a_client_that_goes_away_cancels_what_it_waited_for(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls())
            client.send(b"w1")
            await eventually(lambda: node.service.waiting)
            sock = client.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.writer.transport.abort()  # a reset: a mere end would be a half-close
            await eventually(lambda: node.service.waiting[b"w1"].cancelled())
            assert not node.listener.connections

    run(scenario())


def test_an_idle_connection_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys(), Limits(idle_ms_max=200)) as node:
            client = await node.client(client_tls())
            client.send(b"e")
            assert await client.receive() == b"e"
            assert await client.is_closed()

    run(scenario())


def test_stopping_answers_what_waits_and_says_farewell(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls())
            client.send(b"w1")
            await eventually(lambda: node.service.waiting)
            stopping = asyncio.ensure_future(node.listener.stop(5000))
            await asyncio.sleep(0.02)
            node.service.release(b"w1")
            assert await client.receive() == b"w1"
            assert await client.reader.read(1) == b""  # an end, and no error
            await stopping

    run(scenario())


def test_garbage_behind_the_handshake_closes_its_connection_and_no_other(run: Run) -> None:
    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys) as node:
            other, client = await node.client(client_tls()), await HandMade.connect(node)
            await client.shake_hands()
            await eventually(lambda: len(node.listener.connections) == 2)
            client.writer.write(b"\x17\x03\x03\x00\x20" + os.urandom(32))
            await eventually(lambda: len(node.listener.connections) == 1)
            other.send(b"e")
            assert await other.receive() == b"e"
            assert keys.failures == [("127.0.0.1", "decryption failed or bad record mac")]

    run(scenario())


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
            async with asyncio.timeout(1):
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


def test_idle_connections_hold_no_receive_memory(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            clients = [await node.client(client_tls()) for _ in range(20)]
            for client in clients:
                client.send(b"e")
                assert await client.receive() == b"e"
            assert node.listener.pool.borrowed_bytes == 0
            assert isinstance(node.listener.pool, BufferPool)

    run(scenario())


def test_what_is_not_wanted_yet_waits_and_nothing_else_is_received_over_it(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            first, second = await node.client(client_tls()), await node.client(client_tls())
            bodies = [b"e%d-" % number + os.urandom(3000) for number in range(100)]
            first.send(b"w1", *bodies)
            await eventually(lambda: node.service.waiting)
            for _ in range(20):
                second.send(b"e" + os.urandom(100_000))
                await second.receive()
            node.service.release(b"w1")
            assert [await first.receive() for _ in range(101)] == [b"w1", *bodies]

    run(scenario())


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

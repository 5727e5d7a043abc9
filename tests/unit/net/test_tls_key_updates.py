"""TLS answers some of what clients say by itself: who asks on and on, and does not listen, is left.

Python's own client cannot ask for new keys, so the records are made here, of the secrets that it
writes down for those who debug.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from penstock.net.listener import Limits
from tests.unit.net.conftest import Run
from tests.unit.net.encrypted import HandMade, Keys, client_tls, encrypted
from tests.unit.net.scripted import Running, eventually, frame

ASKED = bytes([24, 0, 0, 1, 1, 22])
"""A KeyUpdate that asks for one in return, and the type of its record."""

SECRET = "CLIENT_TRAFFIC_SECRET_0"


class Updater:
    """Makes the records of a client that does nothing but ask for new keys (RFC 8446, 4.6.3)."""

    def __init__(self, key_log: Path) -> None:
        lines = [line.split() for line in key_log.read_text().splitlines()]
        self._secret = next(bytes.fromhex(line[2]) for line in lines if line[0] == SECRET)

    def records(self, count: int, sent: int = 0) -> bytes:
        """`sent`: how many records there were before with the keys of now."""
        first = self._record(sent)
        return first + b"".join(self._record(0) for _ in range(count - 1))

    def _record(self, number: int) -> bytes:
        head = struct.pack(">BHH", 23, 0x303, len(ASKED) + 16)
        key, start = self._derived(b"key", 32), self._derived(b"iv", 12)
        self._secret = self._derived(b"traffic upd", len(self._secret))
        nonce = (int.from_bytes(start) ^ number).to_bytes(12)
        return head + AESGCM(key).encrypt(nonce, ASKED, head)

    def _derived(self, label: bytes, size: int) -> bytes:
        label = b"tls13 " + label
        info = struct.pack(">HB", size, len(label)) + label + b"\0"
        return HKDFExpand(hashes.SHA384(), size, info).derive(self._secret)


async def _connected(node: Running, key_log: Path) -> tuple[HandMade, Updater]:
    sock = socket.create_connection(("127.0.0.1", node.listener.port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client = HandMade(*await asyncio.open_connection(sock=sock, limit=1024))
    context = client_tls(version="TLSv1.3")
    context.keylog_filename = str(key_log)
    client.tls = context.wrap_bio(client.incoming, client.outgoing, server_hostname="localhost")
    await client.shake_hands()
    await eventually(lambda: len(node.listener.connections) == 1)
    assert (client.tls.cipher() or ("",))[0] == "TLS_AES_256_GCM_SHA384"
    return client, Updater(key_log)


def test_answers_of_tls_do_not_pile_up_for_who_does_not_read_them(run: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys, Limits(send_buffer_bytes=4096)) as node:
            client, updater = await _connected(node, tmp_path / "keys")
            for _ in range(200):
                client.writer.write(updater.records(200))
                await asyncio.sleep(0)
                if not node.listener.connections:
                    break
                held = [
                    each.transport.get_write_buffer_size() for each in node.listener.connections
                ]
                assert max(held) < 100_000
            assert not node.listener.connections
            assert [reason for _, reason in keys.failures] == ["does not read the answers of TLS"]

    run(scenario())


def test_who_reads_them_may_ask_for_new_keys(run: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client, updater = await _connected(node, tmp_path / "keys")
            heard = 0
            for _ in range(50):
                client.writer.write(updater.records(100))
                while heard < 100 * 27:
                    heard += len(await client.reader.read(1 << 16))
                heard -= 100 * 27
            assert len(node.listener.connections) == 1

    run(scenario())


def test_one_new_key_behind_a_reply_that_waits_is_no_offence(run: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys, Limits(send_buffer_bytes=4096)) as node:
            client, updater = await _connected(node, tmp_path / "keys")
            await client.send(frame(b"b"))
            await eventually(lambda: node.service.served == [b"b"])
            client.writer.write(updater.records(1, sent=1))
            await asyncio.sleep(0.1)
            assert keys.failures == []
            (connection,) = node.listener.connections
            assert connection.transport.get_write_buffer_size() > 100_000

    run(scenario())

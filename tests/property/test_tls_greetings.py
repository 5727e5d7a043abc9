"""Whatever a stranger says instead of shaking hands, the listener closes and that is all."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.net.handshakes import Handshakes
from penstock.net.tls import Encrypted
from penstock.security.authority import Authority
from penstock.security.stores import Store
from penstock.security.tls import TlsSettings, client_context, server_context

AUTHORITY = Authority.make()
NODE = AUTHORITY.issue("node-1", ["localhost"])
SETTINGS = TlsSettings(
    Store("keystore", key=NODE.key_pem(), certificates=NODE.chain_pem),
    Store("truststore", certificates=AUTHORITY.certificate_pem),
    frozenset({"TLSv1.2", "TLSv1.3"}),
    None,
    "required",
    checks_host=True,
)
SERVER, CLIENT = server_context(SETTINGS).ssl, client_context(SETTINGS).ssl


class Keys:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def context(self) -> ssl.SSLContext:
        return SERVER

    def failed(self, host: str, reason: str) -> None:
        assert host == "10.0.0.1"
        self.reasons.append(reason)


class Loop:
    """One turn at a time."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, act: Callable[[], None]) -> None:
        self._soon.append(act)

    def call_later(self, *_: Any) -> Any:
        return self

    def cancel(self) -> None:
        pass

    def run(self) -> None:
        while self._soon:
            self._soon.pop(0)()


class Socket:
    """What the server wrote, and whether it hung up."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 1) if name == "peername" else default

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def resume_reading(self) -> None:
        pass

    pause_reading = resume_reading
    abort = close


class Connection:
    """The end of the way in."""

    missing_bytes = 0

    def __init__(self) -> None:
        self.made = False

    def connection_made(self, _: Any) -> None:
        self.made = True

    def get_buffer(self, _: int) -> memoryview:
        return memoryview(bytearray(1000))

    def buffer_updated(self, _: int) -> None:
        pass

    def eof_received(self) -> bool:
        return False


class Scene:
    """A listener's end, to be told things."""

    def __init__(self) -> None:
        self.keys, self.connection = Keys(), Connection()
        loop: Any = Loop()
        socket: Any = Socket()
        self._loop: Loop = loop
        self.socket: Socket = socket
        made: Any = self.connection
        self._end = Encrypted(Handshakes(self.keys, loop, lambda: made))
        self._end.connection_made(socket)

    def hear(self, said: bytes) -> None:
        while said and not self.socket.closed:
            room = self._end.get_buffer(-1)
            part, said = said[: len(room)], said[len(room) :]
            room[: len(part)] = part
            self._end.buffer_updated(len(part))
            self._loop.run()

    def answer(self) -> bytes:
        told, self.socket.written = bytes(self.socket.written), bytearray()
        return told

    def refused(self) -> bool:
        return self.socket.closed and len(self.keys.reasons) == 1


def flights() -> list[bytes]:
    """What an honest client says, flight by flight."""
    scene, heard, said = Scene(), ssl.MemoryBIO(), ssl.MemoryBIO()
    client = CLIENT.wrap_bio(heard, said, server_hostname="localhost")
    spoken = []
    for _ in range(3):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        spoken.append(said.read())
        scene.hear(spoken[-1])
        heard.write(scene.answer())
    assert scene.connection.made
    return [each for each in spoken if each]


HONEST = flights()[0]


@given(st.binary(min_size=1, max_size=2000))
def test_noise_lets_nobody_in(noise: bytes) -> None:
    scene = Scene()
    scene.hear(noise)
    assert not scene.connection.made
    assert scene.refused() or not scene.keys.reasons  # it may be the start of something


@given(st.integers(0, len(HONEST) - 1), st.integers(1, 255), st.binary(max_size=300))
def test_a_greeting_that_was_tampered_with_lets_nobody_in(at: int, bits: int, more: bytes) -> None:
    greeting = bytearray(HONEST)
    greeting[at] ^= bits
    scene = Scene()
    scene.hear(bytes(greeting) + more)
    assert not scene.connection.made


@given(st.lists(st.integers(1, 200), max_size=20), st.binary(max_size=300))
def test_a_greeting_in_pieces_is_answered_and_noise_behind_it_refused(
    sizes: list[int], noise: bytes
) -> None:
    scene, rest = Scene(), HONEST
    for size in sizes:
        scene.hear(rest[:size])
        rest = rest[size:]
    scene.hear(rest)
    assert scene.answer().startswith(b"\x16\x03\x03")  # the server's own greeting
    scene.hear(noise)
    assert not scene.connection.made


@given(st.integers(0, 300_000))
def test_a_stranger_fills_no_memory(count: int) -> None:
    """A handshake message may announce 16 MB: OpenSSL takes a fraction, and we what it takes."""
    scene = Scene()
    hello = b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + b"\0" * (0x4000 - 4)
    scene.hear((hello + b"\x16\x03\x01\x40\x00" + b"\0" * 0x4000)[:count])
    assert not scene.connection.made
    assert scene.refused() or count <= len(hello)

"""Connections to other nodes: requests out, answers in, in the newest version both sides know.

A node answers a connection's requests in their order, so one that may wait long (a fetch) would
hold up those behind it: who needs both keeps a connection for each. Connecting happens with the
first request, and again with the first after a loss; when to try again is the caller's to say.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from penstock.net.answers import AnswerAssembly, AnswerError
from penstock.net.tls import reason_of
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.api_versions import ApiVersionsRequest
from penstock.protocol.headers import read_response_header, write_request_header
from penstock.protocol.message import Message
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.registry import API

if TYPE_CHECKING:
    from collections.abc import Awaitable

ANSWER_BYTES_MAX = 128 * 1024 * 1024
CONNECT_SECONDS_MAX = 10.0
WAITING_MAX = 1000
"""Requests of one connection that wait for their answers; more are refused, not queued."""

_LENGTH = struct.Struct(">i")
_HANDSHAKE_VERSION = 0  # of ApiVersions: every node understands the oldest


class PeerLost(OSError):
    """The other node cannot be reached, went away, or does not speak as one of its kind."""


class PeerGone(PeerLost):
    """Nobody listens where the other node should: its process has ended, or not begun yet."""


class NotLetIn(PeerLost):
    """The other node is there, but one of the two could not prove to the other who it is."""


class PeerTooOld(PeerLost):
    """The other node knows no version of a request that can say what is to be said."""


class Door(Protocol):
    """How this node enters the listeners of others: with TLS, with credentials, or both."""

    def tls(self) -> ssl.SSLContext | None:
        """The trust and the keys of now; None where the listener does not encrypt."""

    def server_name(self, host: str) -> str | None:
        """The name that the other's certificate has to bear; None if it is not checked."""

    async def log_in(self, ask: Ask) -> float | None:
        """Prove who this node is. Seconds after which to do so again, or None.

        Raises PermissionError where the other side does not believe it.
        """


class Ask(Protocol):
    """Sends one request of a version on a connection that is being made; gives its answer."""

    def __call__(self, request: Message, version: int) -> Awaitable[Any]: ...


class _Waiting(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    answer: asyncio.Future[Any]


class Peer:
    """One connection to another node, made when it is needed."""

    def __init__(self, host: str, port: int, client_id: str, door: Door | None = None) -> None:
        self.host = host
        self.port = port
        self._door = door
        self._client_id = client_id
        self._connection: _Connection | None = None
        self._connecting: asyncio.Future[_Connection] | None = None
        self._closed = False

    async def ask(self, request: Message, seconds_max: float, version: int | None = None) -> Any:
        """The other node's answer; PeerLost if there is none in time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds_max
        connection = self._connection
        try:
            if connection is None or not connection.open or not connection.fresh:
                async with asyncio.timeout_at(until):
                    connection = await self._connected()
            chosen = connection.version_of(request.API_KEY) if version is None else version
            answer = connection.ask(request, chosen)
            # Cheaper than a timeout around all: this is asked for each batch on its way.
            timer = loop.call_at(until, _give_up, answer)
            try:
                return await answer
            finally:
                timer.cancel()
        except TimeoutError:
            # An answer that comes later would be taken for another's: begin anew.
            self._drop()
            raise PeerLost(f"{self} did not answer in {seconds_max:g} s") from None
        except ProtocolError as problem:
            raise PeerTooOld(f"{self} is too old to be asked this: {problem}") from problem

    def close(self) -> None:
        """Hang up; everybody who waits is told."""
        self._closed = True
        self._drop()

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    async def _connected(self) -> _Connection:
        connection = self._connection
        if connection is not None and connection.open:
            if connection.fresh:
                return connection
            self._drop()  # what it proved does not hold for much longer: enter anew
        if self._closed:
            raise PeerLost(f"the connection to {self} was closed")
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())
            self._connecting.add_done_callback(self._forget_connecting)
        # Shielded: whoever else waits for the same connection must not lose it to our timeout.
        return await asyncio.shield(self._connecting)

    def _forget_connecting(self, done: asyncio.Future[_Connection]) -> None:
        self._connecting = None
        if not done.cancelled():
            done.exception()  # told to those who waited; nobody may have

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        made = _Connection(str(self), self._client_id)
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await loop.create_connection(lambda: made, self.host, self.port, **self._tls())
                await made.learn_versions()
                if self._door is not None:
                    made.log_in_again_at(loop.time(), await self._door.log_in(made.ask))
        except (OSError, TimeoutError, ProtocolError, ValueError) as problem:
            # ValueError: where to go was told by another node, and is no name that there can be.
            made.abort()
            kind = PeerGone if isinstance(problem, ConnectionRefusedError) else _kind(problem)
            raise kind(f"{self} cannot be reached: {_reason(problem)}") from problem
        if self._closed:
            made.abort()
            raise PeerLost(f"the connection to {self} was closed")
        self._connection = made
        return made

    def _tls(self) -> dict[str, Any]:
        tls = None if self._door is None else self._door.tls()
        if tls is None or self._door is None:
            return {}
        return {"ssl": tls, "server_hostname": self._door.server_name(self.host) or ""}


class _Connection(asyncio.BufferedProtocol):
    """The protocol object behind one socket."""

    def __init__(self, name: str, client_id: str) -> None:
        self.open = False
        self._name = name
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._assembly = AnswerAssembly(ANSWER_BYTES_MAX)
        self._waiting: deque[_Waiting] = deque()
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._stale_at = math.inf

    @property
    def fresh(self) -> bool:
        """Whether what this node proved when it came in still holds, or others wait for answers."""
        return bool(self._waiting) or asyncio.get_running_loop().time() < self._stale_at

    def log_in_again_at(self, now: float, seconds: float | None) -> None:
        """What was proved holds for so long."""
        if seconds is not None:
            self._stale_at = now + seconds

    async def learn_versions(self) -> None:
        """What the other side can do."""
        told = await self.ask(ApiVersionsRequest(), _HANDSHAKE_VERSION)
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in told.api_keys
        }

    def version_of(self, api_key: int) -> int:
        """The newest version of an API that both sides know."""
        ours = API[api_key].codec_versions
        lowest, highest = self._versions.get(api_key, (0, -1))
        version = min(highest, ours[-1])
        if version < max(lowest, ours[0]):
            name = ApiKey(api_key).name
            raise PeerLost(f"{self._name} does not serve {name} in a version that we know")
        return version

    def ask(self, request: Message, version: int) -> asyncio.Future[Any]:
        """Send a request; its answer comes to the future."""
        if self._transport is None or len(self._waiting) >= WAITING_MAX:
            raise PeerLost(f"{self._name} takes no more requests")
        self._correlation_id += 1
        out = bytearray(_LENGTH.size)
        write_request_header(out, request.API_KEY, version, self._correlation_id, self._client_id)
        request.write(version, out)
        _LENGTH.pack_into(out, 0, len(out) - _LENGTH.size)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(self._correlation_id, request.API_KEY, version, answer))
        self._transport.write(out)
        return answer

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's side -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._transport = None
        reason = f": {_reason(exc)}" if exc else ""
        self._fail_all(_kind(exc)(f"{self._name} hung up{reason}"))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._assembly.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for answer in self._assembly.take(nbytes):
                self._take(answer)
        except (ProtocolError, AnswerError) as problem:
            # Nothing behind an answer that cannot be read can be trusted either.
            self.abort()
            self._fail_all(PeerLost(f"{self._name} does not answer as a node: {problem}"))

    def _take(self, frame: memoryview) -> None:
        if not self._waiting:
            raise ProtocolError("an answer that nobody asked for")
        asked = self._waiting[0]  # it stays, to be told, until its answer could be read
        spec = API[asked.api_key]
        header = spec.response_header_version(asked.version)
        correlation_id, at = read_response_header(frame, header)
        if correlation_id != asked.correlation_id:
            raise ProtocolError(f"an answer to {correlation_id} instead of {asked.correlation_id}")
        response, _ = spec.response_class.read(frame, asked.version, at)
        self._waiting.popleft()
        if not asked.answer.done():
            asked.answer.set_result(response)

    def _fail_all(self, problem: PeerLost) -> None:
        while self._waiting:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_exception(problem)


def _give_up(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _kind(problem: BaseException | None) -> type[PeerLost]:
    """A login that failed is a PermissionError."""
    unproven = isinstance(problem, (ssl.SSLError, PermissionError, NotLetIn))
    return NotLetIn if unproven else PeerLost


def _reason(problem: BaseException) -> str:
    if isinstance(problem, ssl.SSLError):
        return reason_of(problem)
    return str(problem) or "no answer"

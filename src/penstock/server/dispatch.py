"""From a frame to a handler and back to a frame.

The dispatcher knows three things about an API: which versions this node advertises, how its
bodies are read and written, and which function answers it. Malformed input closes the
connection, as Kafka does: after a body that cannot be read, nothing on that stream is certain.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.net.connection import CloseConnection, Connection, Reply
from penstock.net.late_reply import LateReply
from penstock.net.outbox import Part
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.headers import read_request_header
from penstock.protocol.message import Message
from penstock.protocol.message import Part as MessagePart
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.registry import API, ApiSpec
from penstock.server.call import Call
from penstock.server.large_produce import check_outline
from penstock.server.plain_commit import serve_plain_commit
from penstock.server.plain_produce import serve_plain, serve_plain_run
from penstock.server.quota_account import Account
from penstock.server.single_produce import serve_single

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.gate import Entrance, Gate
    from penstock.server.plain_produce import Result

log = logging.getLogger("penstock.server")

Handler = Callable[["Broker", Call, Any], Any]
"""(broker, call, request) to a response, an awaitable of one, or None for no reply."""

_LENGTH = struct.Struct(">i")
_FIRST = struct.Struct(">ii")  # frame length and correlation id
_PRODUCE = int(ApiKey.PRODUCE)
_OFFSET_COMMIT = int(ApiKey.OFFSET_COMMIT)
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_TO_LOG_IN = frozenset({_API_VERSIONS, int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)})


FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Of requests, not counting records: as objects they take up to a hundred times their bytes, and a
second for each megabyte, so the listener's own bound, made for batches, would let one client fill
the memory and stop the node. It is enough to name 10,000 topics with the longest of names."""

COORDINATED_MAX = 20_000
"""Groups, or transactional ids, that one request may ask about: each goes to its shard, and back.
No coordinator of a healthy cluster has as many. And what one request may create or alter, of which
controllers take half as much."""

ITEMS_MAX = 100_000
"""Topics, or whatever else a request has a list of. A frame could hold a million with short names,
and everybody would wait for as many answers."""

PARTS_MAX = 200_000
"""All that a client's request lists, at whatever depth: partitions, above all."""

_ITEMS_MAX = dict.fromkeys(
    (
        int(ApiKey.FIND_COORDINATOR),
        int(ApiKey.DESCRIBE_GROUPS),
        int(ApiKey.CONSUMER_GROUP_DESCRIBE),
        int(ApiKey.OFFSET_FETCH),
        int(ApiKey.DESCRIBE_TRANSACTIONS),
        int(ApiKey.CREATE_TOPICS),
        int(ApiKey.CREATE_PARTITIONS),
        int(ApiKey.ALTER_CONFIGS),
        int(ApiKey.INCREMENTAL_ALTER_CONFIGS),
    ),
    COORDINATED_MAX,
)


class Route:
    """One API as this node serves it."""

    __slots__ = ("handler", "readers", "spec")

    def __init__(self, spec: ApiSpec, handler: Handler) -> None:
        self.spec = spec
        self.handler = handler
        # Advertised and written down: not Produce 0 to 2, which only old clients look for, and no
        # version that Kafka itself still keeps back.
        codec = spec.codec_versions
        versions = range(codec.start, min(codec.stop, spec.versions.stop))
        readers = spec.request_class.READERS
        self.readers = {version: readers[version] for version in versions}
        """Reads the body of a request in each version that is served."""


class Dispatcher:
    """The service behind a listener."""

    def __init__(
        self,
        broker: Broker,
        handlers: Mapping[int, Callable[[], Handler]],
        entrance: Entrance | None = None,
    ) -> None:
        self._broker = broker
        self._handlers = handlers
        self._entrance = entrance
        self._routes: dict[int, Route] = {}
        self._produces = _PRODUCE in handlers

    def gate(self, connection: Connection) -> Gate | None:
        """What a new connection has to pass."""
        return None if self._entrance is None else self._entrance.gate(connection)

    def may_overlap(self, frame: memoryview) -> bool:
        """Producers pipeline: a write may begin while an earlier one waits for its replicas."""
        return len(frame) >= 2 and not (frame[0] or frame[1])  # the API with the key 0

    def serve(
        self, connection: Connection, frame: memoryview
    ) -> Reply | asyncio.Future[Reply | None] | LateReply[Reply] | None:
        """Answer one request frame."""
        quotas = self._broker.metered
        account = None
        if quotas is not None and self._produces:
            account = Account(quotas, self._broker.loop.time, connection, len(frame))
        if self._produces:
            reply: Any = None
            if len(frame) >= 2 and not (frame[0] or frame[1]):  # as in `may_overlap`
                if account is None:
                    reply = serve_single(self._broker, connection, frame, self._produced)
                    if reply is not None:
                        return reply  # type: ignore[no-any-return]
                reply = serve_plain(self._broker, connection, frame, self._produced, account)
            elif account is None and _is_commit(frame):
                reply = serve_plain_commit(self._broker, connection, frame)
            if reply is not None:
                return reply  # type: ignore[no-any-return]
        gate = connection.gate
        inside = gate is None or gate.passes(connection.last_active)
        if not inside and gate.login is not None and gate.login.raw:
            token = gate.login.token(self._broker, connection, bytes(frame))
            return self._broker.loop.create_task(token)
        try:
            api_key, version, correlation_id, client_id, body_at = read_request_header(frame)
            large = len(frame) > FRAME_BYTES_MAX
            if large and api_key != _PRODUCE:
                raise CloseConnection(f"a request of {len(frame)} bytes that carries no records")
            call = Call(connection, api_key, version, correlation_id, client_id)
            if inside:
                call.account = account
            else:
                _only_to_log_in(call, gate)
            route = self._routes.get(api_key) or self._route(call)
            reader = route.readers.get(version)
            if reader is None:
                return self._unsupported(call, route)
            if large:
                check_outline(frame, version, body_at, FRAME_BYTES_MAX)
            request, _ = reader(frame, body_at)
            if len(frame) > COORDINATED_MAX:  # in less there is no room for so many
                _check_items(request)
            if len(frame) > PARTS_MAX and self._produces and _parts(request) > PARTS_MAX:
                raise CloseConnection(f"{route.spec.name} with above {PARTS_MAX} parts at once")
        except ProtocolError as problem:
            raise CloseConnection(f"malformed request: {problem}") from problem
        except (struct.error, IndexError) as problem:
            what = f"{route.spec.request_class.__name__} version {version}"
            raise CloseConnection(f"malformed request: {what} is cut short") from problem
        response = route.handler(self._broker, call, request)
        if isinstance(response, Message):
            return _settled(route.spec, call, response)
        account = call.account
        if response is None:
            if account is not None:
                account.settle(call, None)
            return None
        if isinstance(response, LateReply):
            if account is not None:
                account.stop()
            return response.then(partial(_settled, route.spec, call))
        if account is not None:
            account.pause()
            response = account.watch(response)
        return self._broker.loop.create_task(_later(route.spec, call, response))

    def serve_run(
        self, connection: Connection, frames: list[memoryview]
    ) -> list[Reply | LateReply[Reply]]:
        """Answer writes that came together; quotas count requests, so not where they apply."""
        if not self._produces or self._broker.metered is not None:
            return []
        return serve_plain_run(self._broker, connection, frames, self._produced)

    def _produced(
        self,
        connection: Connection,
        frame: memoryview,
        acks: int,
        timeout_ms: int,
        results: list[Result],
        account: Account | None,
    ) -> Reply | LateReply[Reply]:
        """Answer batches that were taken the short way, but not all of them at once or at all."""
        from penstock.server.handlers.produce import answer_results

        if not connection.more_follow:
            self._broker.due_followers.answer()  # they first: the answer waits for them
        api_key, version, correlation_id, client_id, _ = read_request_header(frame)
        call = Call(connection, api_key, version, correlation_id, client_id)
        call.account = account
        finish = partial(_settled, API[api_key], call)
        reply: Any = answer_results(self._broker, call, acks, timeout_ms, results, finish)
        if account is not None and isinstance(reply, LateReply):
            account.stop()
        return reply  # type: ignore[no-any-return]

    def _route(self, call: Call) -> Route:
        handler = self._handlers.get(call.api_key)
        if handler is None:
            raise CloseConnection(
                f"request with api key {call.api_key} version {call.version}, "
                "which this node does not advertise"
            )
        # Codecs and handlers are imported when first asked for: most nodes never see most APIs.
        route = self._routes[call.api_key] = Route(API[call.api_key], handler())
        return route

    def _unsupported(self, call: Call, route: Route) -> Reply:
        if call.api_key != _API_VERSIONS:
            raise CloseConnection(
                f"{route.spec.name} version {call.version}, which this node does not advertise"
            )
        # The one API whose caller cannot know our versions yet: it is answered in version 0.
        from penstock.server.handlers.api_versions import unsupported

        call.version = 0
        return encode(route.spec, call, unsupported(self._broker, call))


def _is_commit(frame: memoryview) -> bool:
    return len(frame) >= 2 and frame[1] == _OFFSET_COMMIT and not frame[0]


def _only_to_log_in(call: Call, gate: Gate) -> None:
    """Who has not proved who they are, or not lately, may only do so."""
    if call.api_key not in _TO_LOG_IN:
        raise CloseConnection(f"request with api key {call.api_key} {gate.why_not}")


def _check_items(request: Any) -> None:
    """Hang up on who asks about too much at once: an answer to each would cost the more."""
    items_max = _ITEMS_MAX.get(request.API_KEY, ITEMS_MAX)
    for field in request.__slots__:
        value = getattr(request, field)
        if isinstance(value, list) and len(value) > items_max:
            name = ApiKey(request.API_KEY).name
            raise CloseConnection(f"{name} with {len(value)} {field} at once, above {items_max}")


def _parts(of: Message | MessagePart) -> int:
    """How much a request lists, all in all."""
    count = 0
    for field in of.__slots__:
        value = getattr(of, field)
        if isinstance(value, list):
            count += len(value)
            if value and isinstance(value[0], MessagePart):
                count += sum(map(_parts, value))
    return count


async def _later(spec: ApiSpec, call: Call, response: Awaitable[Any]) -> Reply | None:
    answer = await response
    return None if answer is None else _settled(spec, call, answer)


def _settled(spec: ApiSpec, call: Call, response: Any) -> Reply:
    if call.account is not None:
        call.account.settle(call, response)
    return encode(spec, call, response)


def encode(spec: ApiSpec, call: Call, response: Any) -> Reply:
    """A response as the frame that leaves: bytes, or parts with slices of files between them."""
    out = bytearray(_FIRST.size)
    if spec.response_header_version(call.version) > 0:
        out.append(0)  # no tagged fields
    splices: list[tuple[int, Any]] = []
    response.write(call.version, out, splices)
    if not splices:
        _FIRST.pack_into(out, 0, len(out) - _LENGTH.size, call.correlation_id)
        return out
    extra = sum(splice.size for _, splice in splices)
    _FIRST.pack_into(out, 0, len(out) + extra - _LENGTH.size, call.correlation_id)
    parts: list[Part] = []
    view = memoryview(out)
    at = 0
    for position, splice in splices:
        if position > at:
            parts.append(view[at:position])
        parts.append(splice)
        at = position
    if at < len(out):
        parts.append(view[at:])
    return parts

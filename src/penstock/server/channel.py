"""The active controller, near or far: how this node asks it, whoever it is at the moment.

Which member of the quorum decides is known to the quorum, and changes. A request that finds no
controller, or one that decides no longer, is asked again until its time is up. What a client asked
travels in an envelope, with the client's own header; what the node itself asks travels as it is.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE
from penstock.net.peer import PeerLost
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.headers import read_response_header, write_request_header
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.registry import API
from penstock.raft.driver import NotLeader
from penstock.server.senders import packed_host, packed_principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.controller.driver import ControllerDriver
    from penstock.net.network import Caller, Network
    from penstock.platform.clock import Clock
    from penstock.server.call import Call

log = logging.getLogger("penstock.server")

SECONDS_MAX = 30.0
"""How long a request looks for a controller, unless it says otherwise (request.timeout.ms)."""

RETRY_SECONDS = 0.02
RETRY_SECONDS_MAX = 0.2
WATCH_SECONDS = 0.1
"""How often it is seen, while an answer is waited for, whether another controller took over."""

NEWEST_VERSION = 1 << 15

_PURPOSES = {
    int(ApiKey.BROKER_REGISTRATION): "heartbeats",
    int(ApiKey.BROKER_HEARTBEAT): "heartbeats",
    int(ApiKey.CONTROLLER_REGISTRATION): "controllers",
    int(ApiKey.ALTER_PARTITION): "partitions",
    int(ApiKey.ALLOCATE_PRODUCER_IDS): "producers",
    int(ApiKey.ASSIGN_REPLICAS_TO_DIRS): "directories",
}
"""A node answers a connection in order: a heartbeat must not wait behind what takes long."""

_FORWARDING = "forwarding"


class ControllerChannel:
    """Asks the active controller: in this process, or over the network."""

    def __init__(
        self,
        local: ControllerDriver,
        network: Network,
        where: Callable[[int], tuple[str, int] | None],
        clock: Clock,
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        """`where` says on which address a member of the quorum serves controller requests."""
        self._local = local
        self._network = network
        self._where = where
        self._clock = clock
        self._seconds_max = seconds_max
        self._callers: dict[tuple[tuple[str, int], str], Caller] = {}
        self._closed = False

    async def handle(
        self,
        api_key: int,
        request: Any,
        *,
        version: int = NEWEST_VERSION,
        call: Call | None = None,
        seconds_max: float | None = None,
        **_: Any,
    ) -> Any:
        """The controller's response. NotLeader if no controller was found until the time was up.

        `call` tells of the client that asks: then the request is passed on in an envelope, in the
        client's version.
        """
        limit = self._seconds_max if seconds_max is None else seconds_max
        deadline = self._clock.monotonic() + limit * 1000
        pause = RETRY_SECONDS
        while True:
            try:
                return await self._once(api_key, request, version, call, deadline)
            except (NotLeader, PeerLost) as problem:
                left = (deadline - self._clock.monotonic()) / 1000
                if self._closed:
                    raise NotLeader("the node stops") from problem
                if left <= pause:
                    raise NotLeader(f"no active controller in {limit:g} s: {problem}") from problem
                log.debug("%s finds no controller: %s", ApiKey(api_key).name, problem)
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS_MAX)

    def close(self) -> None:
        """Hang up; everybody who waits is told."""
        self._closed = True
        for caller in self._callers.values():
            caller.close()
        self._callers.clear()

    async def _once(
        self, api_key: int, request: Any, version: int, call: Call | None, deadline: float
    ) -> Any:
        if self._local.active:
            return await self._local.handle(api_key, request, version=version, call=call)
        leader = self._local.raft.leader
        if leader in (NO_NODE, self._local.raft.node_id):
            raise NotLeader("nobody leads the quorum now")
        address = self._where(leader)
        if address is None:
            raise NotLeader(f"nobody has told yet where controller {leader} is")
        seconds_max = max(0.0, (deadline - self._clock.monotonic()) / 1000)
        if call is None:
            caller = self._caller(address, _PURPOSES.get(api_key, _FORWARDING))
            response = await self._while_led(leader, caller.ask(request, seconds_max))
        else:
            caller = self._caller(address, _FORWARDING)
            asked = enveloped(request, call)
            answer = await self._while_led(leader, caller.ask(asked, seconds_max))
            response = opened(answer, call)
        if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
            raise NotLeader(f"node {leader} is not the active controller")
        return response

    async def _while_led(self, leader: int, asking: Any) -> Any:
        """An answer, unless another controller takes over first: then this one may never come.

        The same node in a new epoch counts as another: it may have started again since.
        """
        raft, task = self._local.raft, asyncio.ensure_future(asking)
        epoch = raft.epoch
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=WATCH_SECONDS)
                if (raft.leader, raft.epoch) != (leader, epoch) and not task.done():
                    raise NotLeader(f"node {leader} leads no longer, or in another epoch")
            return task.result()
        finally:
            task.cancel()

    def _caller(self, address: tuple[str, int], purpose: str) -> Caller:
        caller = self._callers.get((address, purpose))
        if caller is None:
            for old in [key for key in self._callers if key[1] == purpose]:
                self._callers.pop(old).close()
            name = f"controller-{self._local.raft.node_id}-{purpose}"
            caller = self._callers[address, purpose] = self._network.caller(*address, name)
        return caller


# -- envelopes ------------------------------------------------------------------------------------


def enveloped(request: Any, call: Call) -> EnvelopeRequest:
    """A client's request as a broker passes it on: header and all."""
    inside = bytearray()
    write_request_header(inside, request.API_KEY, call.version, call.correlation_id, call.client_id)
    request.write(call.version, inside)
    return EnvelopeRequest(
        request_data=bytes(inside),
        request_principal=packed_principal(call.principal),
        client_host_address=packed_host(call.host),
    )


def opened(answer: EnvelopeResponse, call: Call) -> Any:
    """The controller's answer to what lay in the envelope; NotLeader if it did not open it."""
    error = ErrorCode(answer.error_code)
    if error is not ErrorCode.NONE:
        raise NotLeader(f"the controller did not take the envelope: {error.name}")
    spec = API[call.api_key]
    data = memoryview(answer.response_data or b"")
    try:
        _, at = read_response_header(data, spec.response_header_version(call.version))
        response, _ = spec.response_class.read(data, call.version, at)
    except ProtocolError as problem:
        raise PeerLost(f"the controller's answer cannot be read: {problem}") from problem
    return response

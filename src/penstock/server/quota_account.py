"""The account of one request, on a node with quotas: opened when it comes, settled when it is
answered.

Who has to wait is told so in the answer (`throttle_time_ms`), and is not read from meanwhile. Only
loop time counts as time: what a request waits for costs nobody anything.
"""

from __future__ import annotations

import types
from struct import Struct
from typing import TYPE_CHECKING, Any

from penstock.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from penstock.net.connection import Connection
    from penstock.security.principal import Principal
    from penstock.server.call import Call
    from penstock.server.quotas import Quotas

_INT_MAX = 2**31 - 1
_PRODUCE = int(ApiKey.PRODUCE)
_LENGTH = Struct(">h")
_CLIENT_ID_AT = 8  # in a frame: behind api key, version and correlation id
_WAIT = Struct(">i")
_WAIT_AT = -5  # in a plain answer to Produce: before the tags that end it


class Account:
    """What one request uses.

    What brokers ask of each other is never held up: once its handler has seen the right to it, it
    takes the account away from the call. Who has no such right pays for having asked.
    """

    __slots__ = ("_began", "_connection", "_quotas", "_size", "_spent", "_stopped", "_time")

    def __init__(
        self, quotas: Quotas, time: Callable[[], float], connection: Connection, size: int
    ) -> None:
        """`time` is the loop's, in seconds; `size` that of the whole request."""
        self._quotas = quotas
        self._time = time
        self._connection = connection
        self._size = size
        self._spent = 0.0
        self._stopped = False
        self._began = time()

    def settle(self, call: Call, response: Any) -> None:
        """Charge for a request that is answered, or that has no answer (None)."""
        wait_ms = self._charge(
            call.principal, call.client_id or "", call.api_key == _PRODUCE, response is not None
        )
        # The controller may have told who asked to wait already.
        wait_ms = max(wait_ms, getattr(response, "throttle_time_ms", 0))
        if wait_ms > 0:
            if hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = wait_ms
            self._connection.mute(wait_ms / 1000)

    def settle_plain(self, principal: Principal, frame: memoryview, reply: bytearray) -> None:
        """Charge for a Produce request that was answered the short way."""
        (size,) = _LENGTH.unpack_from(frame, _CLIENT_ID_AT)
        begin = _CLIENT_ID_AT + _LENGTH.size
        client_id = str(frame[begin : begin + max(size, 0)], "utf-8", "replace")
        wait_ms = self._charge(principal, client_id, True, True)
        if wait_ms > 0:
            _WAIT.pack_into(reply, len(reply) + _WAIT_AT, wait_ms)
            self._connection.mute(wait_ms / 1000)

    def _charge(self, principal: Principal, client_id: str, produced: bool, timed: bool) -> int:
        quotas = self._quotas
        now = quotas.clock()
        wait_ms = 0
        if produced:
            wait_ms = quotas.produce.charge(principal.name, client_id, self._size, now)
        if timed and quotas.request:
            if not self._stopped:
                self.pause()
            percent = 100 * self._spent
            wait_ms = max(wait_ms, quotas.request.charge(principal.name, client_id, percent, now))
        return wait_ms

    # -- what is read ---------------------------------------------------------------------------

    def fetch_bytes_max(self, call: Call) -> int:
        """More than this at once would have to wait in any case."""
        bound = self._quotas.fetch.window_max(call.principal.name, call.client_id or "")
        return int(min(bound, _INT_MAX))

    def hold_back(self, call: Call, size: int) -> int:
        """Charge for records that were found, or say how many milliseconds they have to wait."""
        quotas = self._quotas
        return quotas.fetch.charge_if_granted(
            call.principal.name, call.client_id or "", size, quotas.clock()
        )

    # -- time -----------------------------------------------------------------------------------

    def pause(self) -> None:
        """Count the time up to now; what follows is not the request's, until it goes on."""
        now = self._time()
        self._spent += now - self._began
        self._began = now

    def stop(self) -> None:
        """Count the time up to now, and no more: the request waits, and its answer is all that is
        still to be made."""
        self.pause()
        self._stopped = True

    @types.coroutine
    def watch(self, work: Awaitable[Any]) -> Generator[Any, Any, Any]:
        """Await what answers a request, and count the time that its steps take."""
        steps = work.__await__()
        problem: BaseException | None = None
        while True:
            self._began = self._time()
            try:
                waits_for = next(steps) if problem is None else steps.throw(problem)
            except StopIteration as end:
                return end.value
            finally:
                self.pause()
            problem = None
            try:
                yield waits_for
            except BaseException as thrown:  # noqa: BLE001 - handed on to the work itself
                problem = thrown

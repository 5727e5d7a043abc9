"""Producer ids, handed out from blocks that the controller allocates.

An id is never given twice in the life of a cluster: a block belongs to one broker, and what a
broker leaves of its block when it stops is lost. The next block is asked for before the current
one is used up, so that producers wait for the controller only at the very beginning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.raft.driver import NotLeader
from penstock.server.internal_topics import CONTROLLER_SECONDS_MAX

if TYPE_CHECKING:
    from penstock.protocol.generated.allocate_producer_ids import AllocateProducerIdsResponse
    from penstock.server.broker import Controller

log = logging.getLogger("penstock.server")

PREFETCH_AT = 100
"""How many ids are left when the next block is asked for: a tenth of a block."""


class ProducerIds:
    """The blocks of one broker. `broker_epoch` is its registration's, asked for at each request."""

    def __init__(
        self, controller: Controller, node_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._current = range(0)
        self._next = range(0)
        self._asking: asyncio.Task[ErrorCode] | None = None

    def take(self) -> int | None:
        """An id that nobody has, or None if the controller must be asked first."""
        if not self._current:
            self._current, self._next = self._next, range(0)
            if not self._current:
                self._ask()
                return None
        taken = self._current[0]
        self._current = self._current[1:]
        if len(self._current) <= PREFETCH_AT and not self._next:
            self._ask()
        return taken

    @property
    def ready(self) -> bool:
        """Whether there is an id to take."""
        return bool(self._current or self._next)

    async def refill(self) -> ErrorCode:
        """Have a new block allocated, or learn why the controller gives none."""
        # Shielded: whoever goes away meanwhile must not take the others' block along.
        return await asyncio.shield(self._ask())

    async def allocate_and_take(self) -> int | ErrorCode:
        """An id from a new block, or why the controller gives none."""
        while (taken := self.take()) is None:
            error = await self.refill()
            if error:
                return error
        return taken

    def _ask(self) -> asyncio.Task[ErrorCode]:
        """The request that is under way; all who wait share it."""
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._allocate())
            self._asking.add_done_callback(self._asked)
        return self._asking

    def _asked(self, task: asyncio.Task[ErrorCode]) -> None:
        self._asking = None
        if task.cancelled():
            return
        problem = task.exception()
        if problem is not None:
            log.error("cannot ask for producer ids", exc_info=problem)
        elif task.result():
            log.warning("the controller allocates no producer ids: %s", task.result().name)

    async def _allocate(self) -> ErrorCode:
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch()
        )
        try:
            response: AllocateProducerIdsResponse = await self._controller.handle(
                int(ApiKey.ALLOCATE_PRODUCER_IDS), request, seconds_max=CONTROLLER_SECONDS_MAX
            )
        except NotLeader:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if response.error_code:
            # Kafka's answer too: the one retriable error that every producer waits on.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        first = response.producer_id_start
        self._next = range(first, first + response.producer_id_len)
        return ErrorCode.NONE

"""Markers: telling partitions how a transaction ended.

The coordinator decides and leaves it to this errand boy to reach every partition, however long
that takes: a leader may be unknown for a while, a shard of the group coordinator may be loading.
When all have it, the coordinator is told. With local leaders all of it happens at once; brokers
that lead the others are asked (`txn_remote_markers`). A marker may be written twice, if an answer
was lost: the second one ends nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.txn.ending import complete, refuse
from penstock.coordination.txn.transaction import EPOCH_PER_TXN_FROM
from penstock.model.errors import ErrorCode
from penstock.replica.partition import Appended, Refused
from penstock.server.internal_topics import GROUPS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.coordination.txn.ending import Markers
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")

MARKERS_AT_ONCE = 100
"""Markers that are written before other requests get their turn."""

TASKS_PER_MS = 10
"""Transactions that cannot be dealt with at once and begin together."""

RETRY_MS = 20
RETRY_MS_MAX = 500

ANSWERS_SECONDS = 0.2
"""How long all answers are waited for before those that failed are tried again without them."""

_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_NO_NEED = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)
"""The partition could not hold a transaction's records either."""
_GONE = (ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_TXN_STATE)


class Marker(NamedTuple):
    """How one producer's transaction ended, as every partition of it is told."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    version: int
    """The transaction version; from 2 on the epoch must be above that of the records."""


def append_here(
    broker: Broker, topic: str, index: int, marker: Marker
) -> tuple[Partition, Appended] | ErrorCode:
    """Write a marker to a partition of this node, and let a group coordinator know."""
    partition = broker.hosted.get((topic, index))
    if partition is None or partition.offline:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    append = partial(
        partition.append_marker,
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.is_commit,
        broker.clock.now(),
        marker.version >= EPOCH_PER_TXN_FROM,
    )
    if topic == GROUPS_TOPIC:
        ended = (marker.producer_id, marker.producer_epoch, marker.is_commit)
        result = broker.coordinators.groups.end_transaction(index, append, ended)
    else:
        result = append()
    return result.error if isinstance(result, Refused) else (partition, result)


Remote = Callable[[int, str, int, Marker], "asyncio.Future[ErrorCode]"]
"""(node, topic, partition, marker): have another node write it; the future says what came of it."""


class MarkerWriter:
    """Carries out the errands of this node's transaction coordinator."""

    def __init__(self, broker: Broker, remote: Remote) -> None:
        self._broker = broker
        self._remote = remote
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._written = 0
        """Markers of this turn of the event loop."""

    def run(self, shard: int, errand: Markers) -> None:
        """Write the markers of one transaction, at once if they are few and all goes well."""
        task = _Task(self._broker, self._remote, shard, errand)
        if self._is_in_time(len(errand.partitions)) and task.attempt():
            return
        # A coordinator that has just loaded may have many: they take turns, and so do requests.
        delay_ms = len(self._tasks) // TASKS_PER_MS
        running = self._broker.loop.create_task(task.run(delay_ms))
        self._tasks[running] = None
        running.add_done_callback(self._tasks.pop)

    def _is_in_time(self, markers: int) -> bool:
        """Whether so many markers may be written before the event loop's next turn."""
        if self._written == 0:
            self._broker.loop.call_soon(self._next_turn)
        self._written += markers + 1
        return self._written <= MARKERS_AT_ONCE

    def _next_turn(self) -> None:
        self._written = 0

    def close(self) -> None:
        """The node stops: whoever leads next goes on with what is left."""
        for task in self._tasks:
            task.cancel()


class _Task:
    """The markers of one transaction that are not written yet."""

    def __init__(self, broker: Broker, remote: Remote, shard: int, errand: Markers) -> None:
        self._broker = broker
        self._remote = remote
        self._shard = shard
        self._errand = errand
        self._left: Sequence[tuple[str, int]] = errand.partitions
        self._uncommitted: list[tuple[tuple[str, int], asyncio.Future[ErrorCode]]] = []
        self._sender = broker.coordinators.transactions.shard(shard)
        coordinator = broker.hosted.get((TRANSACTIONS_TOPIC, shard))
        self._marker = Marker(
            errand.producer_id,
            errand.epoch,
            -1 if coordinator is None else coordinator.leader_epoch,
            errand.is_commit,
            errand.client_version,
        )
        self._fenced = False

    @property
    def _wanted(self) -> bool:
        """Whether the shard is still there that sent this errand.

        If it was loaded again, even under the same epoch, it has sent the errand again. Old clients
        keep their epoch: a marker that comes late could end a transaction that began meanwhile.
        """
        shard = self._broker.coordinators.transactions.shard(self._shard)
        return not self._fenced and shard is not None and shard is self._sender

    def attempt(self) -> bool:
        """Write what is left; whether that was all there is to do."""
        now, later = self._left[:MARKERS_AT_ONCE], self._left[MARKERS_AT_ONCE:]
        refused = [each for each in now if not self._write(*each)]
        self._left = [*refused, *later]
        if self._fenced:
            return True
        return not self._left and not self._uncommitted and self._complete()

    async def run(self, delay_ms: int) -> None:
        """Try again, with pauses that grow, until all is done or this node's part in it is over."""
        while True:
            await asyncio.sleep(delay_ms / 1000)
            if not self._wanted:
                return
            before = len(self._left)
            if self.attempt():
                return
            waited = await self._await_commits()
            if waited or len(self._left) < before:
                delay_ms = 0
            else:
                delay_ms = min(max(RETRY_MS, 2 * delay_ms), RETRY_MS_MAX)

    async def _await_commits(self) -> bool:
        """Let markers be replicated; those that were not have to be written once more.

        Answers whether any was. One partition may wait long for its replicas: the others do not
        wait for it.
        """
        if not self._uncommitted:
            return False
        await asyncio.wait([answer for _, answer in self._uncommitted], timeout=ANSWERS_SECONDS)
        waiting, self._uncommitted = self._uncommitted, []
        committed = False
        for place, answer in waiting:
            if not answer.done():
                self._uncommitted.append((place, answer))
            elif self._is_written(place, answer.result()):
                committed = True
            else:
                self._left = [*self._left, place]
        return committed

    def _is_written(self, place: tuple[str, int], error: ErrorCode) -> bool:
        """Whether a partition has its marker for good, by what came of it."""
        if error in _FENCED and not self._fenced:
            # Somebody with a higher epoch was there: another coordinator, which knows better.
            log.error("%s-%d refuses %s: %s", *place, self._marker, error.name)
            self._fenced = True
        return error is ErrorCode.NONE or error in _NO_NEED

    def _write(self, topic: str, index: int) -> bool:
        """Whether a partition has its marker, or is about to have it."""
        broker = self._broker
        found = broker.image.topics.by_name.get(topic)
        partition = None if found is None else found.partitions.get(index)
        if partition is None:
            return True  # deleted meanwhile: nobody will ever read it
        if partition.leader < 0:
            return False  # nobody leads it yet
        if partition.leader != broker.node_id:
            answer = self._remote(partition.leader, topic, index, self._marker)
            self._uncommitted.append(((topic, index), answer))
            return True
        result = append_here(broker, topic, index, self._marker)
        if isinstance(result, ErrorCode):
            return self._is_written((topic, index), result)
        led, appended = result
        if led.high_watermark < appended.end_offset:
            committed: asyncio.Future[ErrorCode] = broker.loop.create_future()
            led.await_commit(appended.end_offset, committed)
            self._uncommitted.append(((topic, index), committed))
        return True

    def _complete(self) -> bool:
        """Whether the coordinator took note, or is not ours any more."""
        answer = self._broker.coordinators.transactions.call_shard(
            self._shard,
            lambda shard, at, out, ticket: complete(shard, at, out, ticket, self._errand),
            refuse,
        )
        if isinstance(answer, asyncio.Future):
            return True  # appended: it is committed, or another leader goes on
        return not answer.error_code or answer.error_code in _GONE

"""The controller that runs: one decision at a time, answered when it is committed.

Deciding, appending and taking the new state as decided happen in one step without a pause, so
decisions are serial although many of them wait for the disk together. Images become visible in
the order of the log, and before the answer to the request that made them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from penstock.controller.bootstrap import first_records
from penstock.controller.brokers import fence_stale
from penstock.controller.chores import Chores
from penstock.controller.decision import RECORDS_MAX, Decision
from penstock.controller.machine import HANDLERS
from penstock.controller.notices import notices
from penstock.controller.quorum import describe_quorum
from penstock.controller.quorum_version import quorum_part, raise_version
from penstock.metadata.image import EMPTY, MetadataImage
from penstock.metadata.levels import METADATA_VERSION
from penstock.metadata.loader import Published, whole
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.metadata_records import AbortTransactionRecord
from penstock.protocol.generated.update_features import UpdatableFeatureResult
from penstock.raft.driver import NotLeader
from penstock.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.controller.decision import Context, Leave
    from penstock.controller.machine import Controller
    from penstock.metadata.delta import MetadataDelta
    from penstock.platform.chance import Chance
    from penstock.platform.clock import Clock
    from penstock.protocol.generated.update_features import UpdateFeaturesRequest
    from penstock.raft.driver import RaftDriver
    from penstock.security.principal import Principal

    Subscriber = Callable[[MetadataImage, MetadataDelta], None]

log = logging.getLogger("penstock.controller")

_NEWEST_VERSION = 1 << 15
"""Of a request that was made in this process: it has every field that there is."""


class Asker(Protocol):
    """The circumstances of a client's request, as far as decisions depend on them."""

    @property
    def principal(self) -> Principal:
        """Who asks."""

    @property
    def mutations(self) -> Leave | None:
        """How much they may change; None for as much as they want."""


class ControllerDriver:
    """Serves the requests that change metadata, and tells subscribers what changed."""

    def __init__(
        self,
        raft: RaftDriver,
        machine: Controller,
        clock: Clock,
        chance: Chance,
        bootstrap: Sequence[Any] = (),
    ) -> None:
        self.raft = raft
        self.image = EMPTY
        """The latest committed state."""
        self._machine = machine
        self._clock = clock
        self._chance = chance
        self._bootstrap = bootstrap
        self._decided: deque[tuple[int, Published]] = deque()
        """Images that become visible when the log is committed up to a given end."""
        self._subscribers: list[Subscriber] = []
        self._check: asyncio.Handle | None = None
        self._hearing_out = False
        self._lines: dict[int, object] = {}  # the connection of each broker's last heartbeat
        self._chores = Chores(machine.settings, self._do_chore)
        self.active = False
        """Whether this is the controller that decides."""
        self._closing = False
        self._first: asyncio.Future[None] | None = None  # the new leader's own first records

    # -- starting and stopping --------------------------------------------------------------------

    async def start(self, on_failure: Callable[[BaseException], None] | None = None) -> None:
        """Take part in the quorum. A sole voter leads when this returns; others lead when elected,
        and follow until then."""
        self._publish(self.raft.load())
        self.raft.on_leadership = self._on_leadership
        self.raft.on_gone = self.hung_up
        await self.raft.start(self._on_commit, on_failure)
        if self._first is not None:
            await self._first
            self._first = None

    def _on_leadership(self, leads: bool) -> None:
        self._cancel_check()
        self._chores.stop()
        # What was decided and not committed may still be, by another leader's hand, or never.
        self._decided.clear()
        self.active = leads
        if not leads:
            if self._closing:
                return
            log.info("another controller is active now, or will be")
            return
        self._machine.take_over(self.image, self._clock.monotonic())
        elected = logging.INFO if len(self.raft.voters.by_id) > 1 else logging.DEBUG
        log.log(elected, "active from offset %d on, in epoch %d", *self._position())
        # Until its end is committed the loader remembers a transaction that a leader left open: if
        # this one fails too, another will end it.
        torn = self.raft.journal.loader.in_transaction
        first: list[Any] = [AbortTransactionRecord(reason="its leader failed")] if torn else []
        if not self.image.features.levels:
            first += first_records(self._bootstrap, self._machine.settings.isr_min_default)
        if first:
            self._first = self.raft.committed(self._propose(first))
            self._first.add_done_callback(_retrieve)  # only who starts alone waits for it
        self._schedule_check()
        self._chores.start()

    def _position(self) -> tuple[int, int]:
        return self.raft.next_offset, self.raft.epoch

    async def close(self) -> None:
        """Let what was decided be committed, then let go of the log."""
        self._closing = True
        self._cancel_check()
        self._chores.stop()
        await self.raft.close()

    # -- requests ---------------------------------------------------------------------------------

    async def handle(
        self,
        api_key: int,
        request: Any,
        *,
        version: int = _NEWEST_VERSION,
        call: Asker | None = None,
        **_: Any,
    ) -> Any:
        """The response to a request, once everything that it says is committed.

        `call` tells who asks, if it is a client. NotLeader if another node should be asked.
        """
        if not self.active or not self.raft.leading:
            raise NotLeader(f"node {self.raft.node_id} is not the active controller")
        if api_key == ApiKey.DESCRIBE_QUORUM:
            return describe_quorum(self.raft, self.image, request)
        if api_key == ApiKey.UPDATE_FEATURES:
            return await self._update_features(request, version)
        return await self._decide(api_key, request, version, call)

    async def _update_features(self, request: UpdateFeaturesRequest, version: int) -> Any:
        """All the updates are made or none is, though one of them may be the quorum's business."""
        own, rest = quorum_part(request)
        if own is None:
            return await self._decide(ApiKey.UPDATE_FEATURES, request, version)
        refusal = await raise_version(self.raft, own, only_check=True)
        if refusal is not None:
            return refusal
        response = await self._decide(ApiKey.UPDATE_FEATURES, rest, version)
        if response.error_code:
            return response
        refusal = await raise_version(self.raft, own, only_check=request.validate_only)
        response.results.append(UpdatableFeatureResult(feature=own.feature))
        return refusal or response

    async def _decide(
        self, api_key: int, request: Any, version: int, call: Asker | None = None
    ) -> Any:
        decision = self._machine.decide(
            api_key,
            request,
            now=self._clock.monotonic(),
            chance=self._chance,
            next_offset=self.raft.next_offset,
            version=version,
            wall=self._clock.now(),
            principal=ANONYMOUS if call is None else call.principal,
            leave=None if call is None else call.mutations,
        )
        end = self._enact(decision)
        self._chores.notice(decision.records)
        await self.raft.committed(end)
        if api_key in _HEARD_FROM:
            self._schedule_check()
        return decision.response

    def handles(self, api_key: int) -> bool:
        """Whether `handle` knows an API."""
        return api_key in HANDLERS or api_key == ApiKey.DESCRIBE_QUORUM

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell of every committed change from now on, beginning with everything so far.

        Subscribe before `start` if possible: what was loaded is then told as it was read.
        """
        self._subscribers.append(subscriber)
        if self.image is not EMPTY:
            subscriber(*whole(self.image))

    # -- deciding and committing ------------------------------------------------------------------

    def _enact(self, decision: Decision) -> int:
        """Append a decision's records; answers the end that its response waits for."""
        records = decision.records
        if not records:
            # Even a refusal speaks of state that others may not see yet: it waits for that.
            return self._decided[-1][0] if self._decided else 0
        if decision.atomic:
            return self._propose(records)
        end = 0
        for at in range(0, len(records), RECORDS_MAX):
            end = self._propose(records[at : at + RECORDS_MAX])
        return end

    def _propose(self, records: Sequence[Any]) -> int:
        level = self._machine.image.features.levels.get(METADATA_VERSION)
        if level is None:  # only the very first batch, which sets it
            level = next((r.feature_level for r in records if r.API_KEY == 12), 0)
        # Folded before it is appended: the log must never hold what nobody can apply.
        before = self._machine.image
        delta = self._machine.fold(records)
        end = self.raft.propose(records, level)
        image = self._machine.adopt(delta, end - 1, self.raft.epoch)
        self._decided.append((end, Published(image, delta)))
        for notice in notices(records, before, self.raft.node_id):
            log.log(notice.level, "%s", notice.text)
        return end

    def _on_commit(self, high_watermark: int) -> None:
        decided, loader = self._decided, self.raft.journal.loader
        while decided and decided[0][0] <= high_watermark:
            published = decided.popleft()[1]
            loader.adopt(published.image)
            self._publish(published)
        if self.image.offset + 1 < high_watermark:
            self._publish(self.raft.journal.replay_to(high_watermark))
        self.raft.snapshot_if_due(self.image)

    def _publish(self, published: Published) -> None:
        self.image = published.image
        if published.delta.empty and self.raft.high_watermark >= 0:
            return  # only the log's own records: nothing to reconcile to
        for subscriber in self._subscribers:
            subscriber(published.image, published.delta)

    # -- time -------------------------------------------------------------------------------------

    def _schedule_check(self) -> None:
        """Look at the other brokers again when the first of them could have fallen silent."""
        if self._hearing_out:
            return
        due = self._machine.sessions.next_check(self._others())
        self._cancel_check()
        if due is not None:
            now = self._clock.monotonic()
            at = max(due, now)
            loop = asyncio.get_running_loop()
            self._check = loop.call_later((at - now) / 1000, self._look_for_silent, at)

    def calls_on(self, broker_id: int, line: object) -> None:
        """A broker said on a connection that it lives: only the end of this one means something."""
        self._lines[broker_id] = line

    def hung_up(self, broker_id: int, line: object = None) -> None:
        """A broker's connection or process is gone: it calls again soon, or it counts as dead.

        A controller that has just taken over learns of the death of the one before it in this way.
        """
        if line is not None and self._lines.get(broker_id) is not line:
            return  # it speaks on another one by now
        self._lines.pop(broker_id, None)
        self._machine.sessions.hang_up(broker_id, self._clock.monotonic())
        if self.active and not self._closing:
            self._schedule_check()

    def _others(self) -> list[int]:
        brokers = self._machine.image.cluster.brokers.values()
        return [each.id for each in brokers if not each.fenced and each.id != self.raft.node_id]

    def _cancel_check(self) -> None:
        if self._check is not None:
            self._check.cancel()
        self._check = None
        self._hearing_out = False

    def _look_for_silent(self, due: int) -> None:
        now = self._clock.monotonic()
        sessions = self._machine.sessions
        if now - due > _LATE_MS_MAX:
            log.warning("this controller was held up for %d ms: it hears brokers out", now - due)
            sessions.excuse(now)
        if not sessions.stale(self._others(), now):
            self._schedule_check()
            return
        # After a hold-up, however short, timers come before what waits in the sockets: that is
        # read first, and then what was read is acted upon, before anybody is called silent.
        self._hearing_out = True
        loop = asyncio.get_running_loop()
        self._check = loop.call_later(_HEARING_SECONDS, self._hear_out)

    def _hear_out(self) -> None:
        self._check = asyncio.get_running_loop().call_soon(self._fence_silent)

    def _fence_silent(self) -> None:
        self._cancel_check()
        decision = self._do_chore(fence_stale)
        if decision is not None:
            log.warning("fenced broker %d: not heard from for too long", decision.response)
        self._schedule_check()

    def _do_chore(self, work: Callable[[Context], Decision | None]) -> Decision | None:
        """Decide on what time has brought about, and enact it; nobody waits for it."""
        if not self.active or not self.raft.leading:
            return None
        decision = self._machine.chore(
            work,
            now=self._clock.monotonic(),
            chance=self._chance,
            next_offset=self.raft.next_offset,
            wall=self._clock.now(),
        )
        if decision is None:
            return None
        try:
            self._enact(decision)
        except NotLeader as problem:
            log.info("left to the next controller: %s", problem)  # the log failed at this moment
            return None
        return decision


_LATE_MS_MAX = 1_000
"""A check that comes later than this says more about the controller than about the brokers."""

_HEARING_SECONDS = 0.02

_HEARD_FROM = frozenset({int(ApiKey.BROKER_REGISTRATION), int(ApiKey.BROKER_HEARTBEAT)})


def _retrieve(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and done.exception() is not None:
        log.info("the first records of this controller were not committed: %s", done.exception())

"""A broker makes itself known to the active controller, keeps in touch, and takes its leave."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from penstock.app.placements import misplaced
from penstock.metadata.levels import SUPPORTED
from penstock.model.config.endpoints import security_number
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
)
from penstock.protocol.generated.broker_registration import Listener as RegisteredListener
from penstock.raft.driver import NotLeader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.model.config.endpoints import Listener
    from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatResponse
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.app")

RETRY_SECONDS = 0.1
RETRY_SECONDS_MAX = 1.0

LEAVE_RETRY_SECONDS = 0.05
LEAVE_SECONDS_MAX = 300.0
"""A controller that answers is given Kafka's five minutes to hand everything over."""
SILENCE_SECONDS_MAX = 5.0
"""Where no controller answers, as when the whole cluster stops, nobody is left to hand over to."""

FATAL = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the cluster has another id than this node's directories: "
    "give the node the directories, or the controllers, of one cluster",
    ErrorCode.UNSUPPORTED_VERSION: "this release does not support the features that the cluster "
    "has agreed on: start another release",
    ErrorCode.INVALID_REGISTRATION: "its log directories cannot be registered: two brokers must "
    "not have copies of one meta.properties (see directory.id)",
}
"""Why a broker that is refused need not try again."""


class RegistrationRefused(OSError):
    """The controller does not take this broker."""


class Registration:
    """The broker's standing with the controller."""

    def __init__(
        self,
        broker: Broker,
        endpoints: Sequence[Listener],
        directories: Sequence[bytes],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`on_failure` is told if the broker cannot stay: another process took its id."""
        self.epoch = -1
        self.incarnation = broker.chance.uuid()
        self.fenced = True
        """Whether the controller keeps the broker out, by its last word."""
        self._broker = broker
        self._endpoints = endpoints
        self._directories = directories
        self._on_failure = on_failure
        self._beating: asyncio.Task[None] | None = None
        self._stopped = False
        self._waiting: tuple[int, asyncio.Future[None]] | None = None
        config = broker.config
        self._period = config.get_int("broker.heartbeat.interval.ms") / 1000
        self._session = config.get_int("broker.session.timeout.ms") / 1000
        self._patience = config.get_int("initial.broker.registration.timeout.ms") / 1000

    # -- joining ----------------------------------------------------------------------------------

    async def register(self) -> None:
        """Take the broker's id under a new epoch, and wait for the metadata that says so."""
        deadline = self._broker.loop.time() + self._patience
        pause = RETRY_SECONDS
        while True:
            error = await self._ask_for_registration(deadline)
            if error is ErrorCode.NONE:
                break
            if error in FATAL:
                raise RegistrationRefused(self._refusal(error, FATAL[error]))
            if self._broker.loop.time() + pause >= deadline:
                advice = "another broker with this node.id is alive: give each one its own"
                if error is not ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                    advice = "see the active controller's log"
                raise RegistrationRefused(self._refusal(error, advice))
            log.warning("%s", self._refusal(error, "trying again"))
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS_MAX)
        await self._caught_up(self.epoch)

    def _refusal(self, error: ErrorCode, advice: str) -> str:
        me = f"broker {self._broker.node_id}"
        return f"the controller does not register {me}: {error.name}; {advice}"

    async def _ask_for_registration(self, deadline: float) -> ErrorCode:
        left = max(0.0, deadline - self._broker.loop.time())
        try:
            response = await self._broker.controller.handle(
                int(ApiKey.BROKER_REGISTRATION), self._request(), seconds_max=left
            )
        except NotLeader as problem:
            raise RegistrationRefused(
                f"{problem}: see that most controllers of controller.quorum.voters (or "
                "controller.quorum.bootstrap.servers) run, and can be reached from here"
            ) from problem
        error = ErrorCode(response.error_code)
        if error is ErrorCode.NONE:
            self.epoch = response.broker_epoch
            self.fenced = True
        return error

    def _request(self) -> BrokerRegistrationRequest:
        broker = self._broker
        clean_epoch = broker.store.clean_broker_epoch
        if self.epoch >= 0:
            clean_epoch = self.epoch  # the same process: it lost nothing
        return BrokerRegistrationRequest(
            broker_id=broker.node_id,
            cluster_id=broker.cluster_id,
            incarnation_id=self.incarnation,
            listeners=[
                RegisteredListener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=security_number(each.protocol),
                )
                for each in self._endpoints
            ],
            features=[
                Feature(
                    name=name,
                    min_supported_version=levels.first,
                    max_supported_version=levels.last,
                )
                for name, levels in SUPPORTED.items()
            ],
            rack=broker.config.get_str("broker.rack"),
            log_dirs=sorted(self._directories),
            previous_broker_epoch=-1 if clean_epoch is None else clean_epoch,
        )

    async def _caught_up(self, offset: int) -> None:
        """Wait until this node's image holds what the log says at `offset`."""
        if self._broker.image.offset >= offset:
            return
        future: asyncio.Future[None] = self._broker.loop.create_future()
        self._waiting = offset, future
        await future

    def on_image(self, image: MetadataImage, _: MetadataDelta) -> None:
        """A subscriber of the metadata, behind the broker itself."""
        if self._waiting is not None and image.offset >= self._waiting[0]:
            waiting, self._waiting = self._waiting[1], None
            if not waiting.done():
                waiting.set_result(None)

    async def unfence(self) -> None:
        """Take part: returns when the controller counts on this broker, and keeps in touch."""
        await self.beat()
        while self.fenced:
            await asyncio.sleep(RETRY_SECONDS)
            await self.beat()
        self._beating = self._broker.loop.create_task(self._keep_in_touch())

    # -- staying ----------------------------------------------------------------------------------

    async def _keep_in_touch(self) -> None:
        while True:
            await asyncio.sleep(self._period)
            if self._stopped:
                return
            try:
                await self.beat()
            except RegistrationRefused as problem:
                log.critical("%s", problem)
                self._on_failure(problem)
                return
            except Exception:
                # Our own fault must not silence the broker: the others would take it for dead.
                log.exception("heartbeat failed")

    async def beat(self) -> None:
        """Tell the controller that the broker is alive, and what became of its directories."""
        response = await self._send(want_shut_down=False)
        if response is None or self.fenced:
            return
        placements = misplaced(self._broker)
        if placements is not None:
            await self._ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, placements)

    async def _send(self, *, want_shut_down: bool) -> BrokerHeartbeatResponse | None:
        """A heartbeat; None where no controller took it."""
        broker = self._broker
        response: BrokerHeartbeatResponse | None = await self._ask(
            ApiKey.BROKER_HEARTBEAT,
            BrokerHeartbeatRequest(
                broker_id=broker.node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=broker.image.offset,
                want_fence=False,
                want_shut_down=want_shut_down,
                offline_log_dirs=[
                    each.uuid for each in broker.store.directories if not each.online
                ],
            ),
        )
        if response is None:
            return None
        error = ErrorCode(response.error_code)
        if error is ErrorCode.NONE:
            self._note(response)
            return response
        log.warning("heartbeat refused: %s", error.name)
        if error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            await self._register_anew(error)
        return None

    def _note(self, response: BrokerHeartbeatResponse) -> None:
        if response.is_fenced != self.fenced:
            self.fenced = response.is_fenced
            log.info("the controller %s this broker", "fenced" if self.fenced else "unfenced")

    async def _register_anew(self, error: ErrorCode) -> None:
        """The controller knows this broker no longer, or not by this epoch."""
        registered = self._broker.image.cluster.brokers.get(self._broker.node_id)
        if registered is not None and registered.incarnation != self.incarnation:
            raise RegistrationRefused(
                f"another process has registered as broker {self._broker.node_id} ({error.name}): "
                "give each node a node.id of its own"
            )
        await self.register()

    async def _ask(self, api: ApiKey, request: Any) -> Any:
        try:
            return await self._broker.controller.handle(
                int(api), request, seconds_max=self._session
            )
        except NotLeader as problem:
            log.warning("%s was not heard: %s", api.name, problem)
            return None

    # -- leaving ----------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Hand over what the broker leads; returns when it may stop, or when nobody can tell."""
        if self.epoch < 0 or not self._broker.config.get_bool("controlled.shutdown.enable"):
            return
        others = [
            each
            for each in self._broker.image.cluster.brokers.values()
            if each.id != self._broker.node_id and not each.fenced
        ]
        if not others:
            return  # nobody could take over, and the next start need not undo it
        self.stop()
        log.info("handing over to %d other brokers", len(others))
        loop = self._broker.loop
        began = heard = loop.time()
        while loop.time() < min(began + LEAVE_SECONDS_MAX, heard + SILENCE_SECONDS_MAX):
            left = heard + SILENCE_SECONDS_MAX - loop.time()
            try:
                async with asyncio.timeout(left):
                    response = await self._send(want_shut_down=True)
            except (TimeoutError, RegistrationRefused):
                break
            if response is not None:
                heard = loop.time()
                if response.should_shut_down:
                    return
            await asyncio.sleep(LEAVE_RETRY_SECONDS)
        log.warning(
            "stopping without the controller's leave: partitions are without a leader "
            "until it misses this broker"
        )

    def stop(self) -> None:
        """Fall silent, after a heartbeat that is under way."""
        self._stopped = True

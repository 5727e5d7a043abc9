"""A broker makes itself known to the active controller, keeps in touch, and takes its leave."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from penstock.app.placements import misplaced
from penstock.app.standing import (
    ADVICE,
    Verdict,
    after_heartbeat,
    after_registration,
    is_news,
    is_usurped,
)
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


class RegistrationRefused(OSError):
    """The controller does not take this broker."""


class OutOfTime(RegistrationRefused):
    """Nobody said that it never will."""


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
        self._image = broker.image
        self._news = asyncio.Event()
        self._grown = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._stopped = False
        config = broker.config
        self._period = config.get_int("broker.heartbeat.interval.ms") / 1000
        self._session = config.get_int("broker.session.timeout.ms") / 1000
        self._patience = config.get_int("initial.broker.registration.timeout.ms") / 1000

    def on_image(self, image: MetadataImage, _: MetadataDelta) -> None:
        """A subscriber of the metadata, behind the broker itself."""
        before, self._image = self._image, image
        self._grown.set()
        if is_news(before, image, self._broker.node_id, fenced=self.fenced):
            self._news.set()

    # -- joining ----------------------------------------------------------------------------------

    async def register(self) -> None:
        """Take the broker's id under a new epoch, and wait for the metadata that says so.

        RegistrationRefused if that is not to be, or not within the time that the operator set.
        """
        deadline = self._broker.loop.time() + self._patience
        pause, told = RETRY_SECONDS, ErrorCode.NONE
        while (error := await self._ask_for_registration(deadline)) is not ErrorCode.NONE:
            refusal = f"the controller does not register broker {self._broker.node_id}: "
            refusal += f"{error.name}: {ADVICE.get(error, 'see the log of the active controller')}"
            if after_registration(error) is Verdict.NEVER:
                raise RegistrationRefused(refusal)
            if self._broker.loop.time() + pause >= deadline:
                raise OutOfTime(refusal)
            if error is not told:
                told = error
                log.warning("%s; trying for %g s", refusal, self._patience)
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS_MAX)
        await self._caught_up(self.epoch)

    async def _ask_for_registration(self, deadline: float) -> ErrorCode:
        left = max(0.0, deadline - self._broker.loop.time())
        try:
            response = await self._broker.controller.handle(
                int(ApiKey.BROKER_REGISTRATION), self._request(), seconds_max=left
            )
        except NotLeader as problem:
            raise OutOfTime(
                f"{problem}; see that most controllers of controller.quorum.voters (or "
                "controller.quorum.bootstrap.servers) run, and can be reached from here"
            ) from problem
        error = ErrorCode(response.error_code)
        if error is ErrorCode.NONE:
            self.epoch = response.broker_epoch
            self.fenced = True
        return error

    def _request(self) -> BrokerRegistrationRequest:
        broker = self._broker
        # The same process lost nothing since it registered; another one must have noted its epoch.
        previous = self.epoch if self.epoch >= 0 else broker.store.clean_broker_epoch
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
            previous_broker_epoch=-1 if previous is None else previous,
        )

    async def _caught_up(self, offset: int) -> None:
        """Wait until this node's image holds what the log says at `offset`."""
        while self._broker.image.offset < offset:
            self._grown.clear()
            await self._grown.wait()

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
            await _either(self._news, self._period)
            if self._stopped:
                return
            self._news.clear()
            try:
                await self.beat()
            except OutOfTime as problem:
                log.error("%s; trying on", problem)  # clients may still read what is here
            except RegistrationRefused as problem:
                self._on_failure(problem)
                return
            except Exception:
                # Our own fault must not silence the broker: the others would take it for dead.
                log.exception("heartbeat failed")

    async def beat(self) -> None:
        """Tell the controller that the broker is alive, and what became of its directories."""
        response = await self._send(want_shut_down=False)
        if response is None:
            return
        error = ErrorCode(response.error_code)
        image, node_id = self._broker.image, self._broker.node_id
        verdict = after_heartbeat(error, is_usurped(image, node_id, self.incarnation, self.epoch))
        if verdict is Verdict.TAKEN:
            await self._report_placements()
            return
        log.warning("heartbeat refused: %s", error.name)
        if verdict is Verdict.NEVER:
            raise RegistrationRefused(
                f"another process has registered as broker {node_id} since this one did: "
                "give each node an id of its own (node.id)"
            )
        if verdict is Verdict.REGISTER:
            await self.register()
            self._news.set()  # to be unfenced, and not only when the next heartbeat is due

    async def _report_placements(self) -> None:
        placements = misplaced(self._broker)
        if placements is not None:
            await self._ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, placements)

    async def _send(self, *, want_shut_down: bool) -> BrokerHeartbeatResponse | None:
        """The answer to a heartbeat; None where no controller was found."""
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
        if response is not None and not response.error_code and response.is_fenced != self.fenced:
            self.fenced = response.is_fenced
            log.info("the controller %s this broker", "fenced" if self.fenced else "unfenced")
        return response

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
        brokers = self._broker.image.cluster.brokers.values()
        others = [each for each in brokers if each.id != self._broker.node_id and each.active]
        if not others:
            return  # nobody could take over, and the next start need not undo it
        self.stop()
        log.info("handing over to %d other brokers", len(others))
        loop = self._broker.loop
        heard = loop.time()
        until = heard + LEAVE_SECONDS_MAX
        while loop.time() < min(until, heard + SILENCE_SECONDS_MAX):
            try:
                async with asyncio.timeout_at(heard + SILENCE_SECONDS_MAX):
                    response = await self._send(want_shut_down=True)
            except TimeoutError:
                break
            if response is not None:
                heard = loop.time()
                if response.should_shut_down or response.error_code:
                    return
            await asyncio.sleep(LEAVE_RETRY_SECONDS)
        log.warning(
            "stopping without the controller's leave: what this broker leads has no leader until "
            "it is missed"
        )

    def stop(self) -> None:
        """Fall silent, after a heartbeat that is under way."""
        self._stopped = True
        self._news.set()


async def _either(event: asyncio.Event, seconds_max: float) -> None:
    try:
        async with asyncio.timeout(seconds_max):
            await event.wait()
    except TimeoutError:
        pass  # as planned

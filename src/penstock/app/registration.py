"""A broker makes itself known to the controller, and keeps in touch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from penstock.app.placements import misplaced
from penstock.controller.driver import ControllerDriver
from penstock.metadata.levels import SUPPORTED
from penstock.model.config.endpoints import Listener
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import controller_registration
from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
)
from penstock.protocol.generated.broker_registration import Listener as RegisteredListener
from penstock.protocol.generated.controller_registration import ControllerRegistrationRequest
from penstock.server.broker import Broker

log = logging.getLogger("penstock.app")

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class RegistrationRefused(OSError):
    """The controller does not take this broker."""


class Registration:
    """The broker's standing with the controller."""

    def __init__(
        self,
        broker: Broker,
        controller: ControllerDriver,
        endpoints: Sequence[Listener],
        controller_endpoints: Sequence[Listener],
        directories: Sequence[bytes],
    ) -> None:
        self.epoch = -1
        self._broker = broker
        self._controller = controller
        self._endpoints = endpoints
        self._controller_endpoints = controller_endpoints
        self._directories = directories
        self._incarnation = broker.chance.uuid()
        self._beat: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None
        self._stopped = False
        self._period = broker.config.get_int("broker.heartbeat.interval.ms") / 1000

    async def register(self) -> None:
        """Take the broker's id under a new epoch, and be unfenced."""
        await self._register_controller()
        broker = self._broker
        clean_epoch = broker.store.clean_broker_epoch
        request = BrokerRegistrationRequest(
            broker_id=broker.node_id,
            cluster_id=broker.cluster_id,
            incarnation_id=self._incarnation,
            listeners=[
                RegisteredListener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=SECURITY_PROTOCOLS[each.protocol],
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
        response = await self._controller.handle(int(ApiKey.BROKER_REGISTRATION), request)
        if response.error_code:
            raise RegistrationRefused(
                f"the controller refused broker {broker.node_id}: "
                f"{ErrorCode(response.error_code).name}"
            )
        self.epoch = response.broker_epoch
        await self.beat()
        self._plan()

    async def _register_controller(self) -> None:
        await self._controller.handle(
            int(ApiKey.CONTROLLER_REGISTRATION),
            ControllerRegistrationRequest(
                controller_id=self._broker.node_id,
                incarnation_id=self._incarnation,
                listeners=[
                    controller_registration.Listener(
                        name=each.name,
                        host=each.host,
                        port=each.port,
                        security_protocol=SECURITY_PROTOCOLS[each.protocol],
                    )
                    for each in self._controller_endpoints
                ],
                features=[
                    controller_registration.Feature(
                        name=name,
                        min_supported_version=levels.first,
                        max_supported_version=levels.last,
                    )
                    for name, levels in SUPPORTED.items()
                ],
            ),
        )

    def stop(self) -> None:
        """Fall silent, after a heartbeat that is under way."""
        self._stopped = True
        if self._beat is not None:
            self._beat.cancel()

    async def beat(self) -> None:
        """Tell the controller that the broker is alive, and what became of its directories."""
        broker = self._broker
        response = await self._controller.handle(
            int(ApiKey.BROKER_HEARTBEAT),
            BrokerHeartbeatRequest(
                broker_id=broker.node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=broker.image.offset,
                want_fence=False,
                want_shut_down=False,
                offline_log_dirs=[
                    each.uuid for each in broker.store.directories if not each.online
                ],
            ),
        )
        if response.error_code:
            log.warning("heartbeat refused: %s", ErrorCode(response.error_code).name)
        elif (placements := misplaced(broker)) is not None:
            await self._controller.handle(int(ApiKey.ASSIGN_REPLICAS_TO_DIRS), placements)

    def _plan(self) -> None:
        self._beat = self._broker.loop.call_later(self._period, self._on_beat)

    def _on_beat(self) -> None:
        self._beating = self._broker.loop.create_task(self.beat())
        self._beating.add_done_callback(self._after_beat)

    def _after_beat(self, done: asyncio.Task[None]) -> None:
        if not done.cancelled() and done.exception() is not None:
            log.error("heartbeat failed", exc_info=done.exception())
        if not self._stopped:
            self._plan()

"""A controller tells the active one where it listens and what it supports.

Until its registration stands in the metadata, and again whenever another one stands there under
its id.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.metadata.levels import SUPPORTED
from penstock.model.config.endpoints import security_number
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from penstock.raft.driver import NotLeader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.model.config.endpoints import Listener as ListenerConfig
    from penstock.server.broker import Controller

log = logging.getLogger("penstock.app")

ASK_SECONDS_MAX = 5.0
RETRY_SECONDS = 1.0


class ControllerRegistration:
    """This controller's standing with the active one."""

    def __init__(
        self,
        controller: Controller,
        node_id: int,
        incarnation: bytes,
        endpoints: Sequence[ListenerConfig],
    ) -> None:
        self._controller = controller
        self._node_id = node_id
        self._incarnation = incarnation
        self._endpoints = endpoints
        self._changed = asyncio.Event()
        self._registered = False
        self._task: asyncio.Task[None] | None = None

    def on_image(self, image: MetadataImage, _: MetadataDelta) -> None:
        """A subscriber of the metadata."""
        known = image.cluster.controllers.get(self._node_id)
        registered = known is not None and known.incarnation == self._incarnation
        if registered != self._registered:
            self._registered = registered
            self._changed.set()

    def start(self) -> None:
        """Begin to see to it."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            if self._registered:
                await self._changed.wait()
            elif await self.register():
                await asyncio.wait({asyncio.ensure_future(self._changed.wait())}, timeout=1)
            else:
                await asyncio.sleep(RETRY_SECONDS)

    async def register(self) -> bool:
        """Ask once; whether the active controller took it."""
        request = ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self._incarnation,
            listeners=[
                Listener(
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
        )
        try:
            response = await self._controller.handle(
                int(ApiKey.CONTROLLER_REGISTRATION), request, seconds_max=ASK_SECONDS_MAX
            )
        except NotLeader as problem:
            log.debug("this controller is not registered yet: %s", problem)
            return False
        if response.error_code:
            error = ErrorCode(response.error_code)
            log.warning("this controller is not registered: %s", error.name)
        return not response.error_code

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
        self._refused = ErrorCode.NONE
        self._task: asyncio.Task[None] | None = None

    def on_image(self, image: MetadataImage, _: MetadataDelta) -> None:
        """A subscriber of the metadata."""
        known = image.cluster.controllers.get(self._node_id)
        self._registered = known is not None and known.incarnation == self._incarnation
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
                continue
            await self.register()
            # Its own record comes with the metadata, soon; if not, it is asked for again.
            await asyncio.sleep(RETRY_SECONDS)

    async def register(self) -> None:
        """Ask once for it."""
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
            return
        error = ErrorCode(response.error_code)
        if error is not self._refused:
            self._refused = error
            if error is not ErrorCode.NONE:
                log.warning("this controller is not registered: %s", error.name)

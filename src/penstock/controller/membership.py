"""A broker's side of belonging to a cluster: register, join in, leave.

It speaks to the controller through requests alone, so it does not matter where that one runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.metadata.levels import SUPPORTED
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import broker_registration, controller_registration
from penstock.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.metadata.cluster import Endpoint
    from penstock.metadata.levels import LevelRange

NO_EPOCH = -1


class Asks(Protocol):
    """Whoever brings a request to the active controller."""

    async def handle(self, api_key: int, request: Any, **circumstances: Any) -> Any: ...


class Refused(Exception):
    """The controller does not want this node, and says why."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(f"{error.name}: {error.message}")
        self.error = error


class Identity(NamedTuple):
    """What a node says about itself."""

    node_id: int
    cluster_id: str
    incarnation: bytes
    """New with every start of the process."""
    endpoints: Sequence[Endpoint]
    directories: Sequence[bytes] = ()
    rack: str | None = None
    features: Mapping[str, LevelRange] = SUPPORTED


class Membership:
    """One broker's standing with the controller."""

    def __init__(
        self, controller: Asks, identity: Identity, applied_offset: Callable[[], int]
    ) -> None:
        """`applied_offset` tells up to where this broker has followed the metadata."""
        self.epoch = NO_EPOCH
        self._controller = controller
        self._identity = identity
        self._applied_offset = applied_offset

    async def register(self, previous_epoch: int = NO_EPOCH) -> int:
        """Take the broker id; answers the epoch under which it is ours.

        `previous_epoch` is what the last incarnation noted when it stopped cleanly. Without it the
        controller takes what lay in memory for lost.
        """
        me = self._identity
        request = broker_registration.BrokerRegistrationRequest(
            broker_id=me.node_id,
            cluster_id=me.cluster_id,
            incarnation_id=me.incarnation,
            listeners=[
                broker_registration.Listener(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security
                )
                for e in me.endpoints
            ],
            features=[
                broker_registration.Feature(
                    name=name, min_supported_version=span.first, max_supported_version=span.last
                )
                for name, span in me.features.items()
            ],
            rack=me.rack,
            log_dirs=list(me.directories),
            previous_broker_epoch=previous_epoch,
        )
        response = await self._controller.handle(int(ApiKey.BROKER_REGISTRATION), request)
        _check(response.error_code)
        self.epoch = response.broker_epoch
        return self.epoch

    async def heartbeat(
        self,
        *,
        fence: bool = False,
        shut_down: bool = False,
        offline_directories: Sequence[bytes] = (),
    ) -> BrokerHeartbeatResponse:
        """Stay in touch. Without `fence`, the broker is ready to lead as soon as it caught up."""
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._applied_offset(),
            want_fence=fence,
            want_shut_down=shut_down,
            offline_log_dirs=list(offline_directories),
            cordoned_log_dirs=[],
        )
        response: BrokerHeartbeatResponse = await self._controller.handle(
            int(ApiKey.BROKER_HEARTBEAT), request
        )
        _check(response.error_code)
        return response

    async def leave(self) -> bool:
        """Hand everything over; answers whether the broker may stop now, or must ask again."""
        return (await self.heartbeat(shut_down=True)).should_shut_down


async def register_controller(controller: Asks, identity: Identity) -> None:
    """Tell the cluster where this controller listens and what it supports."""
    request = controller_registration.ControllerRegistrationRequest(
        controller_id=identity.node_id,
        incarnation_id=identity.incarnation,
        listeners=[
            controller_registration.Listener(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security
            )
            for e in identity.endpoints
        ],
        features=[
            controller_registration.Feature(
                name=name, min_supported_version=span.first, max_supported_version=span.last
            )
            for name, span in identity.features.items()
        ],
    )
    response = await controller.handle(int(ApiKey.CONTROLLER_REGISTRATION), request)
    _check(response.error_code)


def _check(error_code: int) -> None:
    if error_code:
        raise Refused(ErrorCode(error_code))

"""ListConfigResources, versions 0 and 1: what has, or can have, a configuration of its own.

Version 0 knows only client metrics subscriptions. In version 1 no types asked means all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.list_config_resources import (
    ConfigResource,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.protocol.generated.list_config_resources import ListConfigResourcesRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_ALL = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)


def handle(
    broker: Broker, call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Names by type, from the current image."""
    known = (CLIENT_METRICS,) if call.version == 0 else _ALL
    asked = request.resource_types or known
    if any(kind not in known for kind in asked):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in known
            if kind in asked
            for name in _names(broker, call.listener_name, kind)
        ]
    )


def _names(broker: Broker, listener: str, kind: int) -> Iterable[str]:
    image = broker.image
    if kind == TOPIC:
        return image.topics.by_name
    if kind in (BROKER, BROKER_LOGGER):
        brokers = image.cluster.brokers.values()
        return [str(b.id) for b in brokers if not b.fenced and b.endpoint(listener) is not None]
    return image.configs.names(kind)

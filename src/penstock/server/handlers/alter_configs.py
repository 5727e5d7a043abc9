"""AlterConfigs, versions 0 to 2: replace all the settings of a topic, a broker or a group.

What is not in the request goes back to its default. Clients have preferred
IncrementalAlterConfigs since Kafka 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.configs import BROKER
from penstock.protocol.generated.alter_configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from penstock.server.config_changes import (
    decide,
    judge_all,
    judge_broker,
    may_not_alter,
    null_values,
    unknown_type,
)

if TYPE_CHECKING:
    from penstock.controller.decision import Refusal
    from penstock.protocol.generated.alter_configs import AlterConfigsRequest, AlterConfigsResource
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(
    broker: Broker,
    call: Call,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse:
    """Judge what is this broker's to judge, and let the controller decide the rest."""
    settled = judge_all(request.resources, lambda resource: _judge(broker, call, resource))
    outcomes = await decide(broker, call, request, settled)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=outcome.error,
                error_message=outcome.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, outcome in outcomes
        ]
    )


def _judge(broker: Broker, call: Call, resource: AlterConfigsResource) -> Refusal | None:
    empty = [config.name for config in resource.configs if config.value is None]
    refusal = may_not_alter(broker, call, resource) or null_values(empty)
    refusal = refusal or unknown_type(resource)
    if refusal is not None or resource.resource_type != BROKER:
        return refusal
    settings = {config.name: config.value or "" for config in resource.configs}
    return judge_broker(broker, call, resource.resource_name, settings)

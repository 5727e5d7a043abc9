"""IncrementalAlterConfigs, versions 0 and 1: set, delete, append to or subtract from single keys.

Levels of this node's loggers are altered here and at once, and are forgotten when it stops. All
else is the controller's to decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.configs import APPEND, DELETE, SET, SUBTRACT, edited_list
from penstock.controller.decision import Refusal
from penstock.metadata.configs import BROKER, BROKER_LOGGER
from penstock.model.config.dynamic import dynamic_key_of
from penstock.model.config.problems import shortened
from penstock.model.config.values import default_text
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from penstock.server.config_changes import (
    DONE,
    decide,
    judge_all,
    judge_broker,
    may_not_alter,
    null_values,
    unknown_type,
    wrong_node,
)
from penstock.server.logger_levels import LEVELS, ROOT, logger_levels, set_level

if TYPE_CHECKING:
    from penstock.protocol.generated.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(
    broker: Broker,
    call: Call,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse:
    """Judge what is this broker's to judge, and let the controller decide the rest."""
    validate_only = request.validate_only
    settled = judge_all(
        request.resources, lambda resource: _judge(broker, call, resource, validate_only)
    )
    outcomes = await decide(broker, call, request, settled)
    return IncrementalAlterConfigsResponse(
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


def _judge(
    broker: Broker, call: Call, resource: AlterConfigsResource, validate_only: bool
) -> Refusal | None:
    empty = [c.name for c in resource.configs if c.value is None and c.config_operation != DELETE]
    refusal = may_not_alter(broker, call, resource) or null_values(empty)
    if refusal is not None:
        return refusal
    if resource.resource_type == BROKER_LOGGER:
        return _alter_loggers(broker, resource, validate_only)
    if resource.resource_type != BROKER:
        return unknown_type(resource)
    settings = _edited(broker, resource)
    if isinstance(settings, Refusal):
        return settings
    return judge_broker(broker, call, resource.resource_name, settings)


# -- a broker's own settings -----------------------------------------------------------------


def _edited(broker: Broker, resource: AlterConfigsResource) -> dict[str, str] | Refusal:
    """All the dynamic settings that the broker would have afterwards."""
    settings = dict(broker.image.configs.of(BROKER, resource.resource_name))
    for config in resource.configs:
        operation = config.config_operation
        if operation == DELETE:
            settings.pop(config.name, None)
        elif operation == SET:
            settings[config.name] = config.value or ""
        elif operation in (APPEND, SUBTRACT):
            edited = _edited_list(config, settings.get(config.name))
            if isinstance(edited, Refusal):
                return edited
            settings[config.name] = edited
        else:
            reason = f"Unknown operation {operation} on {shortened(config.name)}."
            return Refusal(ErrorCode.INVALID_REQUEST, reason)
    return settings


def _edited_list(config: AlterableConfig, current: str | None) -> str | Refusal:
    key = dynamic_key_of(config.name)
    if key is None or key.type != "LIST":
        verb = "append to" if config.config_operation == APPEND else "subtract from"
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Can't {verb} {shortened(config.name)}: its type is not LIST.",
        )
    text = default_text(key) if current is None else current
    return edited_list(text, config.value or "", config.config_operation)


# -- loggers -----------------------------------------------------------------------------------


def _alter_loggers(broker: Broker, resource: AlterConfigsResource, validate_only: bool) -> Refusal:
    refusal = wrong_node(broker, resource.resource_name)
    known = logger_levels()
    for config in resource.configs:
        refusal = refusal or _refuse_level(config, known)
    if refusal is not None:
        return refusal
    if not validate_only:
        for config in resource.configs:
            set_level(config.name, config.value if config.config_operation == SET else None)
    return DONE


def _refuse_level(config: AlterableConfig, known: dict[str, str]) -> Refusal | None:
    name, value = shortened(config.name), shortened(config.value or "")
    if config.config_operation not in (SET, DELETE):
        reason = f"The level of {name} can be set or deleted, and nothing else."
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    if config.name not in known:
        return Refusal(ErrorCode.INVALID_CONFIG, f"There is no logger {name}.")
    if config.config_operation == DELETE and config.name == ROOT:
        reason = "The root logger must have a level, since the others inherit it."
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    if config.config_operation == SET and config.value not in LEVELS:
        reason = f"{value} is not a level: expected one of {', '.join(LEVELS)}."
        return Refusal(ErrorCode.INVALID_CONFIG, reason)
    return None

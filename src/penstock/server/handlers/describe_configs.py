"""DescribeConfigs, versions 1 to 4: the value of each key, where it comes from, and its synonyms.

A broker answers for itself, and for what is set for all brokers under the empty name; about
topics, groups and client metrics subscriptions it answers from the image. Secrets have no value.
Types and documentation are told from version 3 on. It takes DESCRIBE_CONFIGS on each topic or
group, and on the cluster for all else.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.controller.decision import Refusal
from penstock.controller.topic_names import invalid_name
from penstock.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from penstock.model.config.describe import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from penstock.model.config.layers import LOGGER_SOURCE
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from penstock.server.config_changes import layers_of, wrong_node
from penstock.server.config_rights import forbidden
from penstock.server.logger_levels import logger_levels

if TYPE_CHECKING:
    from penstock.protocol.generated.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call

ENTRIES_MAX = 500_000
"""Values that one answer may describe: all those of more than 10,000 topics."""

_SLICE_SECONDS = 0.02
_TOO_MANY = Refusal(
    ErrorCode.POLICY_VIOLATION,
    "The request asks for too many values at once: ask about fewer resources at a time.",
)
_KNOWN = frozenset({TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP})


async def handle(
    broker: Broker,
    call: Call,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse:
    """Describe each resource, or say why not."""
    if any(resource.resource_type not in _KNOWN for resource in request.resources):
        # Kafka refuses the whole request for one type that it does not know, and so do we.
        refusal = _invalid("The request names a type of resource that does not exist.")
        return DescribeConfigsResponse(
            results=[_result(resource, refusal, request) for resource in request.resources]
        )
    results = []
    entries = 0
    loop = asyncio.get_running_loop()
    until = loop.time() + _SLICE_SECONDS
    # What is named over and over is described once: an answer is far larger than its question.
    once = {(each.resource_type, each.resource_name): each for each in request.resources}
    for resource in once.values():
        found = _describe(broker, call, resource) if entries < ENTRIES_MAX else _TOO_MANY
        entries += 0 if isinstance(found, Refusal) else len(found)
        results.append(_result(resource, found, request))
        if loop.time() > until:
            await asyncio.sleep(0)  # tools ask about every topic at once, and others wait
            until = loop.time() + _SLICE_SECONDS
    return DescribeConfigsResponse(results=results)


def _describe(
    broker: Broker, call: Call, resource: DescribeConfigsResource
) -> list[Described] | Refusal:
    kind, name = resource.resource_type, resource.resource_name
    refusal = forbidden(broker, call, Operation.DESCRIBE_CONFIGS, kind, name)
    if refusal is not None:
        return refusal
    if kind == TOPIC:
        return _describe_topic(broker, name)
    if kind == BROKER and not name:
        return describe_cluster_default(layers_of(broker))
    if not name:
        return _invalid("The name of the resource is missing.")
    if kind == GROUP:
        return describe_group(broker.image.configs.of(GROUP, name), layers_of(broker))
    if kind == CLIENT_METRICS:
        return describe_client_metrics(broker.image.configs.of(CLIENT_METRICS, name))
    refusal = wrong_node(broker, name)
    if refusal is not None:
        return refusal
    return describe_broker(layers_of(broker)) if kind == BROKER else _describe_loggers()


def _describe_topic(broker: Broker, name: str) -> list[Described] | Refusal:
    wrong = invalid_name(name)
    if wrong is not None:
        reason = f"Topic name is invalid: {wrong}"
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name not in broker.image.topics.by_name:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return describe_topic(broker.image.configs.of(TOPIC, name), layers_of(broker))


def _describe_loggers() -> list[Described]:
    return [
        Described(name, level, LOGGER_SOURCE, False, False, 0, [], None)
        for name, level in logger_levels().items()
    ]


def _result(
    resource: DescribeConfigsResource,
    found: list[Described] | Refusal,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    if isinstance(found, Refusal):
        result.error_code, result.error_message = found
        return result
    asked = frozenset(resource.configuration_keys or ())
    result.configs = [
        _entry(described, request) for described in found if not asked or described.name in asked
    ]
    return result


def _entry(described: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = described.synonyms if request.include_synonyms else []
    documentation = None
    if request.include_documentation and described.key is not None:
        documentation = described.key.description
    return DescribeConfigsResourceResult(
        name=described.name,
        value=described.text,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=described.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=text, source=source)
            for name, text, source in synonyms
        ],
        config_type=described.type_id,
        documentation=documentation,
    )


def _invalid(reason: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, reason)

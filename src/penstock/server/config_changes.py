"""What AlterConfigs and IncrementalAlterConfigs have in common: judge here, decide there.

The broker judges what only it knows, its own file above all, and what needs no decision. All else
goes to the controller, and the answers come back in the order of the questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.controller.decision import Refusal
from penstock.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from penstock.model.config.dynamic import validate_broker_config
from penstock.model.config.layers import BrokerLayers
from penstock.model.config.problems import REASON_LENGTH_MAX, shortened
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.server import audit
from penstock.server.config_rights import forbidden
from penstock.server.forwarding import forward
from penstock.server.topic_configs import EVERY_BROKER

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call

FORWARDED = frozenset({TOPIC, BROKER, CLIENT_METRICS, GROUP})

_KINDS = {
    TOPIC: "TOPIC",
    BROKER: "BROKER",
    BROKER_LOGGER: "BROKER_LOGGER",
    CLIENT_METRICS: "CLIENT_METRICS",
    GROUP: "GROUP",
}

DONE = Refusal(ErrorCode.NONE)
"""Carried out here; nothing is left for the controller."""

Judge = Callable[[Any], Refusal | None]
"""Why a resource's change is refused, DONE if it was carried out, None to ask the controller."""


def layers_of(broker: Broker) -> BrokerLayers:
    """This broker's configuration: its file, and what was altered since."""
    configs = broker.image.configs
    mine = configs.of(BROKER, str(broker.node_id))
    return BrokerLayers(broker.config, mine, configs.of(BROKER, EVERY_BROKER))


def judge_all(resources: Sequence[Any], judge: Judge) -> dict[tuple[int, str], Refusal]:
    """The resources that are settled here, by type and name."""
    settled: dict[tuple[int, str], Refusal] = {}
    seen: set[tuple[int, str]] = set()
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        if key in seen:
            settled[key] = _invalid("Each resource must be altered once, not twice.")
        seen.add(key)
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        if key in settled:
            continue
        verdict = _misshapen(resource) or judge(resource)
        if verdict is not None:
            settled[key] = verdict
    return settled


def _misshapen(resource: Any) -> Refusal | None:
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        return _invalid("Each configuration key must be altered once, not twice.")
    return None


def may_not_alter(broker: Broker, call: Call, resource: Any) -> Refusal | None:
    """Asked before anything else: what is wrong with a change may tell how things are."""
    kind, name = resource.resource_type, resource.resource_name
    return forbidden(broker, call, Operation.ALTER_CONFIGS, kind, name)


def judge_broker(
    broker: Broker, call: Call, name: str, settings: Mapping[str, str]
) -> Refusal | None:
    """Whether these may be all the dynamic settings of a broker; "" stands for every broker."""
    if call.listener_name in broker.config.controller_listener_names:
        return None  # a controller knows no broker's file, and who passed this on has judged it
    refusal = wrong_node(broker, name) if name else None
    if refusal is not None:
        return refusal
    layers = layers_of(broker)
    problem = validate_broker_config(settings, layers, broker=bool(name))
    if problem is not None:
        return Refusal(ErrorCode[problem.error], str(problem))
    if any(".ssl." in each for each in settings):
        wrong = broker.judge_keys(layers._replace(broker=settings).current)
        return None if wrong is None else _invalid(wrong)
    return None


def wrong_node(broker: Broker, name: str) -> Refusal | None:
    """Only a broker itself can judge what is altered for it: clients ask each by its id."""
    try:
        node_id = int(name)
    except ValueError:
        return _invalid(f"Expected a broker's id, not {shortened(name)!r}.")
    if node_id != broker.node_id:
        return _invalid(f"This is broker {broker.node_id}: ask broker {name} about itself.")
    return None


def unknown_type(resource: Any) -> Refusal | None:
    """Refuse a type of resource that Kafka does not have, or that is not alterable so."""
    if resource.resource_type in FORWARDED:
        return None
    return _invalid(f"Unknown resource type {resource.resource_type}.")


def null_values(names: Sequence[str]) -> Refusal | None:
    """Refuse changes that set a key to nothing: to unset it is another operation."""
    return _invalid(f"Null value not supported for {', '.join(names)}.") if names else None


async def decide(
    broker: Broker, call: Call, request: Any, settled: Mapping[tuple[int, str], Refusal]
) -> list[tuple[Any, Refusal]]:
    """Each resource of a request with its outcome, after the controller decided on the rest."""
    rest = [
        resource
        for resource in request.resources
        if (resource.resource_type, resource.resource_name) not in settled
    ]
    outcomes = dict(settled)
    if rest:
        forwarded = type(request)(resources=rest, validate_only=request.validate_only)
        response = await forward(broker, call, forwarded)
        for answer in response.responses:
            key = (answer.resource_type, answer.resource_name)
            message = answer.error_message and shortened(answer.error_message, REASON_LENGTH_MAX)
            outcomes[key] = Refusal(ErrorCode(answer.error_code), message)
    missing = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    answers = [
        (resource, outcomes.get((resource.resource_type, resource.resource_name), missing))
        for resource in request.resources
    ]
    if not request.validate_only:
        _tell(call, [resource for resource, outcome in answers if not outcome.error])
    return answers


def _tell(call: Call, altered: Sequence[Any]) -> None:
    """To the audit log: which keys, and never their values, of which some are secrets."""
    told = {
        f"{_KINDS.get(each.resource_type, each.resource_type)}:{each.resource_name}": [
            config.name for config in each.configs
        ]
        for each in altered
    }
    if told:
        audit.changed(call, "alter configuration", {"keys": told})


def _invalid(reason: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, shortened(reason, REASON_LENGTH_MAX))

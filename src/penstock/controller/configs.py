"""AlterConfigs and IncrementalAlterConfigs: each resource is changed whole, or not at all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.controller import isr_min
from penstock.controller.decision import (
    RECORDS_MAX,
    TOO_MUCH_CONFIG,
    ConfigRoom,
    Context,
    Decision,
    Refusal,
)
from penstock.metadata.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from penstock.model.errors import ErrorCode
from penstock.protocol.generated import alter_configs as legacy
from penstock.protocol.generated import incremental_alter_configs as incremental
from penstock.protocol.generated.metadata_records import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

_ALTERABLE = frozenset({TOPIC, BROKER, CLIENT_METRICS, GROUP})
_DUPLICATE = Refusal(ErrorCode.INVALID_REQUEST, "The request alters the resource twice.")


def incremental_alter_configs(
    context: Context, request: incremental.IncrementalAlterConfigsRequest
) -> Decision:
    """Set, delete, or edit single keys; the others stay."""
    records: list[Any] = []
    room = ConfigRoom()
    responses = []
    twice = _twice(request.resources)
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        outcome = (
            _DUPLICATE if (kind, name) in twice else _edited(context, kind, name, resource.configs)
        )
        refusal = _alter(context, kind, name, outcome, records, room)
        responses.append(
            incremental.AlterConfigsResourceResponse(
                error_code=refusal.error,
                error_message=refusal.message,
                resource_type=kind,
                resource_name=name,
            )
        )
    response = incremental.IncrementalAlterConfigsResponse(responses=responses)
    return Decision([] if request.validate_only else records, response)


def alter_configs(context: Context, request: legacy.AlterConfigsRequest) -> Decision:
    """Replace all of a resource's overrides by the ones given."""
    records: list[Any] = []
    room = ConfigRoom()
    responses = []
    twice = _twice(request.resources)
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        wanted: dict[str, str | None] = {c.name: c.value for c in resource.configs}
        for key in context.image.configs.of(kind, name):
            wanted.setdefault(key, None)
        outcome = _DUPLICATE if (kind, name) in twice else wanted
        refusal = _alter(context, kind, name, outcome, records, room)
        responses.append(
            legacy.AlterConfigsResourceResponse(
                error_code=refusal.error,
                error_message=refusal.message,
                resource_type=kind,
                resource_name=name,
            )
        )
    response = legacy.AlterConfigsResponse(responses=responses)
    return Decision([] if request.validate_only else records, response)


def _twice(resources: Iterable[Any]) -> set[tuple[int, str]]:
    seen: set[tuple[int, str]] = set()
    twice: set[tuple[int, str]] = set()
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        (twice if key in seen else seen).add(key)
    return twice


def _edited(
    context: Context, kind: int, name: str, edits: Sequence[incremental.AlterableConfig]
) -> dict[str, str | None] | Refusal:
    """The new value of each key that is edited."""
    current = context.image.configs.of(kind, name)
    values: dict[str, str | None] = {}
    for edit in edits:
        key, operation = edit.name, edit.config_operation
        if key in values:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Configuration {key} is altered twice.")
        if operation == DELETE:
            values[key] = None
        elif edit.value is None:
            return Refusal(
                ErrorCode.INVALID_REQUEST, f"{key} needs a value; to unset it, delete it."
            )
        elif operation == SET:
            values[key] = edit.value
        elif operation in (APPEND, SUBTRACT):
            if not context.rules.is_list(kind, key):
                verb = "appended to" if operation == APPEND else "subtracted from"
                return Refusal(
                    ErrorCode.INVALID_CONFIG, f"{key} is no list, so nothing can be {verb} it."
                )
            old = current.get(key, context.rules.default(kind, key))
            values[key] = edited_list(old, edit.value, operation)
        else:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"There is no operation {operation}, as asked for on {key}.",
            )
    return values


def edited_list(old: str | None, change: str, operation: int) -> str:
    """The text of a list to which `change` was appended, or from which it was subtracted."""
    parts = [part for part in (old or "").split(",") if part]
    if operation == APPEND:
        known = set(parts)
        return ",".join(
            [*parts, *(it for it in dict.fromkeys(change.split(",")) if it not in known)]
        )
    gone = Counter(change.split(","))
    kept = []
    for part in parts:
        if gone[part] > 0:
            gone[part] -= 1
        else:
            kept.append(part)
    return ",".join(kept)


def _alter(
    context: Context,
    kind: int,
    name: str,
    wanted: Mapping[str, str | None] | Refusal,
    records: list[Any],
    room: ConfigRoom,
) -> Refusal:
    """Add the records of one resource; NONE, or why there are none."""
    if isinstance(wanted, Refusal):
        return wanted
    refusal = _refused(context, kind, name, wanted)
    if refusal is not None:
        return refusal
    current = context.image.configs.of(kind, name)
    # A broker's value is written even if it stays: brokers reload files that it names.
    changed = {k: v for k, v in wanted.items() if kind == BROKER or current.get(k) != v}
    if len(records) + len(changed) > RECORDS_MAX or not room.take(name, changed):
        return TOO_MUCH_CONFIG
    for key, value in changed.items():
        record = ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        records.append(record)
        records.extend(isr_min.after_change(context, record))
    return Refusal(ErrorCode.NONE)


def _refused(
    context: Context, kind: int, name: str, wanted: Mapping[str, str | None]
) -> Refusal | None:
    if kind not in _ALTERABLE:
        return Refusal(ErrorCode.INVALID_REQUEST, f"There is no resource type {kind} to alter.")
    old = context.image.configs.of(kind, name)
    values = {key: value for key, value in {**old, **wanted}.items() if value is not None}
    return (
        _absent(context, kind, name)
        or isr_min.refused(context, kind, name, wanted)
        or context.rules.refuse(kind, name, values, old)
    )


def _absent(context: Context, kind: int, name: str) -> Refusal | None:
    if kind == TOPIC:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "Name the topic: there is no default topic.")
        if name not in context.image.topics.by_name:
            return Refusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
    elif kind == BROKER and name:
        if not name.isdecimal():
            return Refusal(ErrorCode.INVALID_REQUEST, f"{name!r} is not a broker id.")
        if int(name) not in context.image.cluster.brokers:
            return Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {name} is not registered.")
    elif kind in (GROUP, CLIENT_METRICS) and not name:
        what = "group" if kind == GROUP else "subscription"
        return Refusal(ErrorCode.INVALID_REQUEST, f"Name the {what}: there is no default one.")
    return None

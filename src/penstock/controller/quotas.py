"""AlterClientQuotas, versions 0 and 1: what users, client ids and addresses may use.

Each entity is changed whole, or not at all. A name of null stands for everybody who has no quota
of their own.
"""

from __future__ import annotations

import ipaddress
import math
from typing import TYPE_CHECKING, Any

from penstock.controller.decision import (
    RECORDS_MAX,
    TOO_MUCH_CONFIG,
    ConfigRoom,
    Context,
    Decision,
    Refusal,
)
from penstock.model.errors import ErrorCode
from penstock.protocol.generated import alter_client_quotas as made
from penstock.protocol.generated.metadata_records import ClientQuotaRecord, EntityData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.quotas import Entity

USER, CLIENT_ID, ADDRESS = "user", "client-id", "ip"

_INT_MAX = 2**31 - 1
_LONG_MAX = 2.0**63

_OF_CLIENTS: dict[str, float | None] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""Keys for users and client ids, with the largest whole number that counts; None is a fraction."""

_OF_ADDRESSES: dict[str, float | None] = {"connection_creation_rate": _INT_MAX}

ENTITIES_MAX = 100_000
"""Entities that may have quotas at once."""

_NONE = Refusal(ErrorCode.NONE)
_FULL = Refusal(
    ErrorCode.POLICY_VIOLATION, f"At most {ENTITIES_MAX} entities may have quotas of their own."
)


def alter_quotas(context: Context, request: made.AlterClientQuotasRequest) -> Decision:
    """AlterClientQuotas: each entity succeeds or fails by itself."""
    records: list[ClientQuotaRecord] = []
    seen: set[Entity] = set()
    room = ConfigRoom()
    entries = []
    left = ENTITIES_MAX - len(context.image.client_quotas.entities)
    for entry in request.entries:
        outcome = _altered(context, entry, seen)
        if _begins(context, outcome):
            left -= 1
            outcome = outcome if left >= 0 else _FULL
        if not isinstance(outcome, Refusal) and not _fits(outcome, records, room):
            outcome = TOO_MUCH_CONFIG
        refusal = outcome if isinstance(outcome, Refusal) else _NONE
        if not isinstance(outcome, Refusal):
            records += outcome
        entries.append(
            made.AlterClientQuotasResponseEntryData(
                error_code=refusal.error,
                error_message=refusal.message,
                entity=[
                    made.AlterClientQuotasResponseEntityData(
                        entity_type=part.entity_type, entity_name=part.entity_name
                    )
                    for part in entry.entity
                ],
            )
        )
    response = made.AlterClientQuotasResponse(entries=entries)
    return Decision([] if request.validate_only else records, response)


def _begins(context: Context, outcome: Sequence[ClientQuotaRecord] | Refusal) -> bool:
    """Whether an entity gets quotas that has none so far."""
    if isinstance(outcome, Refusal) or not outcome:
        return False
    return _entity(outcome[0].entity) not in context.image.client_quotas.entities


def _fits(
    more: Sequence[ClientQuotaRecord], records: Sequence[ClientQuotaRecord], room: ConfigRoom
) -> bool:
    """Whether these changes fit into one batch with those before them."""
    if len(records) + len(more) > RECORDS_MAX:
        return False
    if not more:
        return True
    name = "".join(part.entity_name or "" for part in more[0].entity)
    return room.take(name, {record.key: None for record in more})


def _altered(context: Context, entry: Any, seen: set[Entity]) -> list[ClientQuotaRecord] | Refusal:
    problem = _misnamed(entry.entity) or _misstated(entry)
    if problem is not None:
        return _invalid(problem)
    entity = _entity(entry.entity)
    if entity in seen:
        return _invalid("The request alters the quotas of one entity twice.")
    seen.add(entity)
    current = context.image.client_quotas.entities.get(entity, {})
    return [
        ClientQuotaRecord(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            key=op.key,
            value=0.0 if op.remove else op.value,
            remove=op.remove,
        )
        for op in entry.ops
        if (op.key in current if op.remove else current.get(op.key) != op.value)
    ]


def _entity(parts: Sequence[Any]) -> Entity:
    return tuple(sorted(((p.entity_type, p.entity_name) for p in parts), key=_type))


def _type(part: tuple[str, str | None]) -> str:
    return part[0]


def _misnamed(entity: Sequence[Any]) -> str | None:
    """Why nobody can have quotas under this name."""
    kinds = [part.entity_type for part in entity]
    if not kinds:
        return "Name a user, a client id or an address."
    unknown = next((kind for kind in kinds if kind not in (USER, CLIENT_ID, ADDRESS)), None)
    if unknown is not None:
        return f"There is no entity type {unknown!r}: it is one of {USER}, {CLIENT_ID}, {ADDRESS}."
    if len(set(kinds)) != len(kinds):
        return "An entity names each type once."
    empty = next((part.entity_type for part in entity if part.entity_name == ""), None)
    if empty is not None:
        return f"A name of type {empty} is empty; null stands for the default."
    if ADDRESS not in kinds:
        return None
    if len(kinds) > 1:
        return "An address stands alone, without a user or a client id."
    return _not_an_address(entity[0].entity_name)


def _not_an_address(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        ipaddress.ip_address(name)
    except ValueError:
        # Kafka looks names up as well; a decision must not wait for a name server.
        return f"{name!r} is not an IP address."
    return None


def _misstated(entry: Any) -> str | None:
    """Why these quotas cannot be."""
    addresses = entry.entity[0].entity_type == ADDRESS
    known = _OF_ADDRESSES if addresses else _OF_CLIENTS
    keys = [op.key for op in entry.ops]
    if len(set(keys)) != len(keys):
        return "A quota is altered twice."
    for op in entry.ops:
        if op.remove:
            continue
        if op.key not in known:
            return f"There is no quota {op.key!r} here: it is one of {', '.join(known)}."
        if not op.value > 0 or math.isinf(op.value):
            return f"{op.key} must be a number above 0."
        largest = known[op.key]
        if largest is not None and (op.value > largest or abs(op.value % 1.0) > 1e-6):
            return f"{op.key} must be a whole number, at most {int(largest)}."
    return None


def _invalid(problem: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, problem)

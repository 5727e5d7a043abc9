"""DescribeClientQuotas, versions 0 and 1: the quotas of the entities that a filter means.

A filter has a part for each type that an entity must have: with one name, with the default that
null stands for, or with any. A strict filter means entities with these types and no others.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from penstock.controller.decision import Refusal
from penstock.controller.quotas import ADDRESS, CLIENT_ID, USER
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_client_quotas import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.metadata.quotas import Entity
    from penstock.protocol.generated.describe_client_quotas import (
        ComponentData,
        DescribeClientQuotasRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call

EXACT, DEFAULT, ANY = range(3)

SLICE = 5_000
"""Entities that are looked at before others get their turn."""


class Wanted(NamedTuple):
    """A filter: names by type, None for the default; and types with whatever name."""

    names: dict[str, str | None]
    kinds: set[str]
    strict: bool

    def means(self, entity: Entity) -> bool:
        """Whether an entity has all that the filter asks for and, if it is strict, no more."""
        if self.strict and len(entity) != len(self.names) + len(self.kinds):
            return False
        parts = dict(entity)
        return self.kinds <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in self.names.items()
        )


async def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse:
    """Answer from the image."""
    wanted = wanted_of(request)
    if isinstance(wanted, Refusal):
        return DescribeClientQuotasResponse(
            error_code=wanted.error, error_message=wanted.message, entries=None
        )
    entries = []
    for count, (entity, quotas) in enumerate(broker.image.client_quotas.entities.items()):
        if count % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        if wanted.means(entity):
            entries.append(_entry(entity, quotas))
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def wanted_of(request: DescribeClientQuotasRequest) -> Wanted | Refusal:
    """The filter of a request, or why it makes no sense."""
    wanted = Wanted({}, set(), request.strict)
    for part in request.components:
        refusal = _add(wanted, part)
        if refusal is not None:
            return refusal
    kinds = wanted.names.keys() | wanted.kinds
    if ADDRESS in kinds and len(kinds) > 1:
        return _invalid("An address stands alone, without a user or a client id.")
    return wanted


def _add(wanted: Wanted, part: ComponentData) -> Refusal | None:
    kind = part.entity_type
    if not kind:
        return _invalid("A part of the filter has no type.")
    if kind in wanted.names or kind in wanted.kinds:
        return _invalid(f"The filter names the type {kind} twice.")
    if kind not in (USER, CLIENT_ID, ADDRESS):
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"There are no entities of type {kind!r}.")
    if part.match_type not in (EXACT, DEFAULT, ANY):
        return _invalid(f"There is no match type {part.match_type}.")
    if (part.match_type == EXACT) != (part.match is not None):
        return _invalid("A name goes with an exact match, and with no other.")
    if part.match_type == ANY:
        wanted.kinds.add(kind)
    else:
        wanted.names[kind] = part.match
    return None


def _invalid(problem: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, problem)


def _entry(entity: Entity, quotas: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=value) for key, value in quotas.items()],
    )

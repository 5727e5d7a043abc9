"""Quotas of a cluster, through `wire`: whom they hold, and how much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.cli.failure import USAGE, Failure
from penstock.cli.output import Table
from penstock.cli.quota_rates import rate_text
from penstock.cli.wire_cluster import Cluster, check
from penstock.protocol.generated import alter_client_quotas as altering
from penstock.protocol.generated import describe_client_quotas as describing

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""How a filter's part matches, as DescribeClientQuotas numbers it."""

USER, CLIENT, IP = "user", "client-id", "ip"
KINDS = (USER, CLIENT, IP)

DEFAULT_WORD = "<default>"
"""Everybody of a kind for whom nothing else is said."""

Entity = tuple[tuple[str, str | None], ...]
"""Whom a quota holds: kinds and names, the user first; no name is the default of its kind."""

Quotas = dict[Entity, dict[str, float]]


def entity_of(
    user: str | None,
    client: str | None,
    ip: str | None,
    default_user: bool,
    default_client: bool,
    default_ip: bool,
) -> Entity:
    """Whom the options mean; empty where they mean nobody in particular."""
    parts: list[tuple[str, str | None]] = []
    for kind, name, default in (
        (USER, user, default_user),
        (CLIENT, client, default_client),
        (IP, ip, default_ip),
    ):
        if name is not None and default:
            raise Failure(f"one {kind}, and the default of all", "choose one of them", USAGE)
        if name is not None or default:
            if name == "":
                raise Failure(f"the {kind} has no name", f"--default-{kind} means the rest", USAGE)
            parts.append((kind, name))
    if len(parts) > 1 and parts[-1][0] == IP:
        raise Failure("an address goes with no user and no client", "choose one of them", USAGE)
    return tuple(parts)


def found(cluster: Cluster, entity: Entity, *, strict: bool) -> Quotas:
    """What holds entities; not `strict`: also those that name more than the parts given."""
    components = [
        describing.ComponentData(
            entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name
        )
        for kind, name in entity
    ]
    request = describing.DescribeClientQuotasRequest(components=components, strict=strict)
    told = cluster.anyone.ask(request, describing.DescribeClientQuotasResponse)
    check(told.error_code, "quotas cannot be listed", told.error_message)
    quotas: Quotas = {}
    for one in told.entries or ():
        parts = {each.entity_type: each.entity_name for each in one.entity}
        whom = tuple(sorted(parts.items(), key=lambda part: _order(part[0])))
        quotas[whom] = {each.key: each.value for each in one.values}
    return dict(sorted(quotas.items(), key=lambda item: [_sortable(part) for part in item[0]]))


def _order(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def _sortable(part: tuple[str, str | None]) -> tuple[int, bool, str]:
    kind, name = part
    return _order(kind), name is None, name or ""


def alter(
    cluster: Cluster, entity: Entity, changes: Mapping[str, float | None], *, dry_run: bool
) -> None:
    """Set quotas; None takes one away."""
    ops = [
        altering.OpData(key=key, value=value or 0.0, remove=value is None)
        for key, value in changes.items()
    ]
    parts = [
        altering.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
        for kind, name in entity
    ]
    entry = altering.AlterClientQuotasRequestEntryData(entity=parts, ops=ops)
    request = altering.AlterClientQuotasRequest(entries=[entry], validate_only=dry_run)
    told = cluster.anyone.ask(request, altering.AlterClientQuotasResponse)
    for one in told.entries:
        check(one.error_code, f"quotas of {named(entity)} were not changed", one.error_message)


def named(entity: Entity) -> str:
    """Whom a quota holds, in words."""
    return ", ".join(
        f"every other {kind}" if name is None else f"{kind} {name}" for kind, name in entity
    )


def documents(quotas: Quotas) -> list[dict[str, Any]]:
    """Quotas, for programs: Kafka's names and numbers."""
    return [
        {
            "entity": {kind: DEFAULT_WORD if name is None else name for kind, name in entity},
            "quotas": values,
        }
        for entity, values in quotas.items()
    ]


def table(quotas: Quotas) -> Table:
    rows = [
        (*_cells(entity, KINDS), key, rate_text(key, value))
        for entity, values in quotas.items()
        for key, value in sorted(values.items())
    ]
    return Table((*KINDS, "quota", "rate"), rows)


def _cells(entity: Entity, kinds: Sequence[str]) -> Iterable[str | None]:
    parts = dict(entity)
    return [(parts[kind] or DEFAULT_WORD) if kind in parts else None for kind in kinds]

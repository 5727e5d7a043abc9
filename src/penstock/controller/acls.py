"""CreateAcls and DeleteAcls, versions 1 to 3: who may do what, entry by entry.

Each entry has an id of its own, and goes by it: nothing else goes with it. An entry that stands
already is not written a second time.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from penstock.controller.decision import ConfigRoom, Context, Decision, Refusal
from penstock.metadata.acls import Acl
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import CLUSTER_NAME, PatternType, Permission, ResourceType
from penstock.protocol.generated import create_acls as creating
from penstock.protocol.generated import delete_acls as deleting
from penstock.protocol.generated.metadata_records import RemoveAccessControlEntryRecord
from penstock.security.acl_filters import AclFilter
from penstock.security.acl_words import word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.acls import AclsImage
    from penstock.protocol.generated.metadata_records import AccessControlEntryRecord

CHANGES_MAX = 10_000
"""Entries that one request may write or take away, as in Kafka."""

ACLS_MAX = 100_000
"""Entries that may stand at once: every node holds them all, and looks through them."""

LOOKS_MAX = 500_000
"""How many entries the filters of one request may look at: while they do, everybody waits."""

_KINDS = frozenset(map(int, ResourceType)) - {ResourceType.UNKNOWN, ResourceType.ANY}
_PATTERNS = frozenset({int(PatternType.LITERAL), int(PatternType.PREFIXED)})
_OPERATIONS = frozenset(map(int, Operation)) - {Operation.UNKNOWN, Operation.ANY}
_PERMISSIONS = frozenset({int(Permission.DENY), int(Permission.ALLOW)})

_TOO_MANY = Refusal(
    ErrorCode.POLICY_VIOLATION,
    f"One request may change at most {CHANGES_MAX} ACLs, and name them in at most 3 MiB.",
)
_FULL = Refusal(ErrorCode.POLICY_VIOLATION, f"There may be at most {ACLS_MAX} ACLs in all.")
_TOO_MUCH_WORK = Refusal(
    ErrorCode.POLICY_VIOLATION,
    "These filters would look through the ACLs too many times: name whole ACLs, or send fewer.",
)


# -- creating -------------------------------------------------------------------------------------


def create_acls(context: Context, request: creating.CreateAclsRequest) -> Decision:
    """CreateAcls: each entry is made or refused by itself, unless there are too many of them."""
    acls = context.image.acls
    wanted: dict[Acl, None] = {}
    refusals: list[Refusal | None] = []
    room = ConfigRoom()
    for creation in request.creations:
        acl = _acl(creation)
        refusal = why_not(acl)
        refusals.append(refusal)
        if refusal is not None or acl in acls.ids or acl in wanted:
            continue
        size = len(acl.resource_name.encode()) + len(acl.principal.encode()) + len(acl.host)
        if len(wanted) >= CHANGES_MAX or not room.take_bytes(size):
            return Decision([], _created([_TOO_MANY] * len(request.creations)))
        wanted[acl] = None
    if len(acls.by_id) + len(wanted) > ACLS_MAX:
        return Decision([], _created([_FULL] * len(request.creations)))
    return Decision(_records(context, wanted), _created(refusals))


def _records(context: Context, wanted: dict[Acl, None]) -> list[AccessControlEntryRecord]:
    taken = context.image.acls.by_id
    records: dict[bytes, AccessControlEntryRecord] = {}
    for acl in wanted:
        acl_id = context.chance.uuid()
        while acl_id in taken or acl_id in records:
            acl_id = context.chance.uuid()
        records[acl_id] = acl.record(acl_id)
    return list(records.values())


def _acl(creation: creating.AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def why_not(acl: Acl) -> Refusal | None:
    """Why there cannot be such an entry; None if there can."""
    problem = _misnamed(acl) or _misstated(acl)
    return None if problem is None else Refusal(ErrorCode.INVALID_REQUEST, problem)


def _misnamed(acl: Acl) -> str | None:
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"A resource of type CLUSTER has the name {CLUSTER_NAME}, and no other."
    if not acl.resource_name:
        return "The name of the resource is empty."
    if acl.resource_type not in _KINDS:
        return f"No ACL can be about resources of type {word(ResourceType, acl.resource_type)}."
    if acl.pattern_type not in _PATTERNS:
        named = word(PatternType, acl.pattern_type)
        return f"The pattern type of an ACL is LITERAL or PREFIXED, not {named}."
    return None


def _misstated(acl: Acl) -> str | None:
    if acl.operation not in _OPERATIONS:
        return f"No ACL can be about the operation {word(Operation, acl.operation)}."
    if acl.permission not in _PERMISSIONS:
        return f"An ACL says ALLOW or DENY, not {word(Permission, acl.permission)}."
    if ":" not in acl.principal:
        return f"{acl.principal!r} is no principal: its type and a colon are missing (User:name)."
    return _not_a_host(acl.host)


def _not_a_host(host: str) -> str | None:
    """Kafka takes any word for a host. One that is meant for a network, and is none, would silently
    apply to nobody: that one is refused."""
    if not host:
        return "The host is empty: write * for all of them."
    if "/" in host:
        try:
            ipaddress.ip_network(host)
        except ValueError:
            return f"{host!r} is no network: write it like 10.1.0.0/16."
    return None


def _created(refusals: Sequence[Refusal | None]) -> creating.CreateAclsResponse:
    return creating.CreateAclsResponse(
        results=[
            creating.AclCreationResult(error_code=0, error_message=None)
            if refusal is None
            else creating.AclCreationResult(error_code=refusal.error, error_message=refusal.message)
            for refusal in refusals
        ]
    )


# -- deleting -------------------------------------------------------------------------------------


def delete_acls(context: Context, request: deleting.DeleteAclsRequest) -> Decision:
    """DeleteAcls: each filter takes away what it means, and names it. An entry that two filters
    mean is named by both, and goes once."""
    acls = context.image.acls
    filters = [_filter(each) for each in request.filters]
    looks = sum(len(acls.by_id) if each.exact is None else 1 for each in filters)
    if looks > LOOKS_MAX:
        return Decision([], _deleted([_TOO_MUCH_WORK] * len(filters)))
    gone: dict[bytes, None] = {}
    outcomes: list[Refusal | list[Acl]] = []
    named = 0
    for each in filters:
        outcome = _meant(each, acls, gone)
        outcomes.append(outcome)
        named += 0 if isinstance(outcome, Refusal) else len(outcome)
        if len(gone) > CHANGES_MAX or named > ACLS_MAX:
            return Decision([], _deleted([_TOO_MANY] * len(filters)))
    records = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in gone]
    return Decision(records, _deleted(outcomes))


def _filter(asked: deleting.DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _meant(wanted: AclFilter, acls: AclsImage, gone: dict[bytes, None]) -> Refusal | list[Acl]:
    refusal = unknown(wanted)
    if refusal is not None:
        return refusal
    found = list(wanted.found(acls))
    gone.update((acl_id, None) for acl_id, _ in found)
    return [acl for _, acl in found]


def unknown(wanted: AclFilter) -> Refusal | None:
    """Why a filter makes no sense; None if it does."""
    if wanted.unknown_pattern:
        text = "The filter asks for a type of resource or of pattern that does not exist."
        return Refusal(ErrorCode.INVALID_REQUEST, text)
    if wanted.unknown_entry:
        text = "The filter asks for an operation or a permission that does not exist."
        return Refusal(ErrorCode.INVALID_REQUEST, text)
    return None


def _deleted(outcomes: Sequence[Refusal | list[Acl]]) -> deleting.DeleteAclsResponse:
    return deleting.DeleteAclsResponse(
        filter_results=[
            deleting.DeleteAclsFilterResult(error_code=outcome.error, error_message=outcome.message)
            if isinstance(outcome, Refusal)
            else deleting.DeleteAclsFilterResult(
                error_message=None, matching_acls=[_match(acl) for acl in outcome]
            )
            for outcome in outcomes
        ]
    )


def _match(acl: Acl) -> deleting.DeleteAclsMatchingAcl:
    return deleting.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )

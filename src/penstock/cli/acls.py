"""Rights of a cluster, through `wire`, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from penstock.cli.acl_grammar import WORDS, Entry, Filter, Resource, spelled
from penstock.cli.failure import Failures
from penstock.cli.output import Table
from penstock.cli.wire_cluster import Cluster, Refusal, check
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import PatternType, Permission, ResourceType
from penstock.protocol.generated import create_acls, delete_acls, describe_acls

REQUEST_ENTRIES_MAX = 1_000
"""Of one request: a controller writes them down at once or not at all."""

Number = TypeVar("Number", bound=IntEnum)


def found(cluster: Cluster, filters: Iterable[Filter]) -> list[Entry]:
    """The entries that are meant, each once, in the order of what they are about."""
    entries = {entry for each in filters for entry in _described(cluster, each)}
    return sorted(entries)


def _described(cluster: Cluster, wanted: Filter) -> Iterator[Entry]:
    request = describe_acls.DescribeAclsRequest(
        resource_type_filter=wanted.kind,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    told = cluster.anyone.ask(request, describe_acls.DescribeAclsResponse)
    check(told.error_code, "rights cannot be listed", told.error_message)
    for one in told.resources:
        resource = Resource(
            _known(ResourceType, one.resource_type),
            one.resource_name,
            _known(PatternType, one.pattern_type),
        )
        for acl in one.acls:
            yield Entry(
                resource,
                acl.principal,
                acl.host,
                _known(Operation, acl.operation),
                _known(Permission, acl.permission_type),
            )


def _known(kind: type[Number], number: int) -> Number:
    """A number's meaning; a newer cluster may have numbers that we do not know."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def add(cluster: Cluster, entries: Sequence[Entry]) -> Failures:
    """Write entries; those that are there already stay as they are."""
    failures = Failures()
    for part in _parts(entries):
        creations = [
            create_acls.AclCreation(
                resource_type=each.resource.kind,
                resource_name=each.resource.name,
                resource_pattern_type=each.resource.pattern,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in part
        ]
        request = create_acls.CreateAclsRequest(creations=creations)
        told = cluster.anyone.ask(request, create_acls.CreateAclsResponse)
        for entry, one in zip(part, told.results, strict=True):
            if one.error_code != ErrorCode.NONE:
                what = f"{sentence(entry)}: not added"
                failures.add(Refusal(one.error_code, what, one.error_message))
    return failures


def remove(cluster: Cluster, entries: Sequence[Entry]) -> tuple[int, Failures]:
    """Take away exactly these entries; how many went, and what did not."""
    failures, removed = Failures(), 0
    for part in _parts(entries):
        filters = [
            delete_acls.DeleteAclsFilter(
                resource_type_filter=each.resource.kind,
                resource_name_filter=each.resource.name,
                pattern_type_filter=each.resource.pattern,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in part
        ]
        request = delete_acls.DeleteAclsRequest(filters=filters)
        told = cluster.anyone.ask(request, delete_acls.DeleteAclsResponse)
        for entry, one in zip(part, told.filter_results, strict=True):
            if one.error_code != ErrorCode.NONE:
                what = f"{sentence(entry)}: not removed"
                failures.add(Refusal(one.error_code, what, one.error_message))
            removed += sum(each.error_code == ErrorCode.NONE for each in one.matching_acls)
    return removed, failures


def _parts(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    for at in range(0, len(entries), REQUEST_ENTRIES_MAX):
        yield entries[at : at + REQUEST_ENTRIES_MAX]


def sentence(entry: Entry) -> str:
    """An entry in words: `User:alice may read topic orders`."""
    verb = "may not" if entry.permission is Permission.DENY else "may"
    resource = entry.resource
    kind = WORDS.get(resource.kind, "something")
    name = "" if resource.kind is ResourceType.CLUSTER else f" {_shown(resource)}"
    where = "" if entry.host == "*" else f" from {entry.host}"
    return f"{entry.principal}{where} {verb} {spelled(entry.operation)} {kind}{name}"


def _shown(resource: Resource) -> str:
    return f"{resource.name}*" if resource.pattern is PatternType.PREFIXED else resource.name


def documents(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Entries, for programs."""
    return [
        {
            "principal": each.principal,
            "host": each.host,
            "permission": each.permission.name.lower(),
            "operation": spelled(each.operation),
            "resource": WORDS.get(each.resource.kind, "unknown"),
            "name": each.resource.name,
            "pattern": each.resource.pattern.name.lower(),
        }
        for each in entries
    ]


def table(entries: Iterable[Entry]) -> Table:
    rows = [list(each.values()) for each in documents(entries)]
    headings = ("principal", "host", "permission", "operation", "resource", "name", "pattern")
    return Table(headings, rows)

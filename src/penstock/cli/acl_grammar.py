"""Rights as people write them, and the entries that they mean. Pure.

A right is somebody, from somewhere, allowed or denied to do something to something:

    --user alice --host 10.0.0.7 --allow read,describe --topic orders
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from penstock.cli.failure import USAGE, Failure
from penstock.model.operations import Operation
from penstock.model.resources import (
    CLUSTER_NAME,
    WILDCARD,
    PatternType,
    Permission,
    ResourceType,
)

OPERATIONS = {
    each.name.lower().replace("_", "-"): each
    for each in Operation
    if each not in (Operation.UNKNOWN, Operation.ANY)
}

_TOPIC = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
POSSIBLE: dict[ResourceType, frozenset[Operation]] = {
    ResourceType.TOPIC: frozenset(_TOPIC),
    ResourceType.GROUP: frozenset(
        {
            Operation.READ,
            Operation.DESCRIBE,
            Operation.DELETE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
            Operation.ALTER,
            Operation.DESCRIBE,
        }
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset(
        {Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT}
    ),
    ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
    ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
}
"""What can be done to each kind of resource; besides, everything (ALL) can."""

WORDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional-id",
    ResourceType.DELEGATION_TOKEN: "token",
    ResourceType.USER: "as-user",
}
"""How options and tables name the kinds."""


class Resource(NamedTuple):
    """What a right is about."""

    kind: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL


class Entry(NamedTuple):
    """One right."""

    resource: Resource
    principal: str
    host: str
    operation: Operation
    permission: Permission


class Filter(NamedTuple):
    """Which entries are meant; None is all."""

    kind: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY


def resources_of(
    named: Sequence[tuple[ResourceType, Sequence[str] | None]], cluster: bool, prefixed: bool
) -> list[Resource]:
    """What the options name, by kind. With `prefixed` names are beginnings of names."""
    found = [_resource(kind, name, prefixed) for kind, names in named for name in names or ()]
    if cluster:
        found.append(Resource(ResourceType.CLUSTER, CLUSTER_NAME))
    return list(dict.fromkeys(found))


def _resource(kind: ResourceType, name: str, prefixed: bool) -> Resource:
    word = WORDS[kind]
    if prefixed:
        # A star at the end says the same again; alone it would be every name there is.
        name = name.removesuffix("*")
        if not name:
            raise Failure(f"--{word} '*' is every {word} already", "leave --prefixed out", USAGE)
        return Resource(kind, name, PatternType.PREFIXED)
    if name != WILDCARD and name.endswith("*") and kind is ResourceType.TOPIC:
        raise Failure(
            f"no topic can be named {name!r}",
            "add --prefixed if all topics are meant whose names begin so",
            USAGE,
        )
    if not name:
        raise Failure(f"--{word} names nothing", "'*' stands for all", USAGE)
    return Resource(kind, name)


def principals_of(users: Sequence[str] | None, others: Sequence[str] | None) -> list[str]:
    """Users by name, and principals written out as KIND:NAME."""
    found = []
    for user in users or ():
        if not user:
            raise Failure("--user names nobody", "'*' stands for everybody", USAGE)
        found.append(f"User:{user}")
    for text in others or ():
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise Failure(f"--principal {text!r} is none", "write it as User:alice", USAGE)
        found.append(text)
    return list(dict.fromkeys(found))


def operations_of(words: Iterable[str] | None, option: str) -> list[Operation]:
    """Operations out of `read,describe`; Kafka's own spellings are understood as well."""
    found = []
    for word in ",".join(words or ()).split(","):
        if not word.strip():
            continue
        name = word.strip().lower().replace("_", "-")
        operation = OPERATIONS.get(name) or _RUN_TOGETHER.get(name.replace("-", ""))
        if operation is None:
            raise Failure(
                f"{option} {word!r} is no operation", f"choose of {', '.join(OPERATIONS)}", USAGE
            )
        found.append(operation)
    return list(dict.fromkeys(found))


_RUN_TOGETHER = {name.replace("-", ""): operation for name, operation in OPERATIONS.items()}


def entries_of(
    principals: Sequence[str],
    hosts: Sequence[str] | None,
    allowed: Sequence[Operation],
    denied: Sequence[Operation],
    resources: Sequence[Resource],
) -> list[Entry]:
    """The entries that somebody writes out; `Failure` for those that cannot be."""
    for operation, resource in product((*allowed, *denied), resources):
        _check_possible(operation, resource.kind)
    rights = [(Permission.ALLOW, each) for each in allowed]
    rights += [(Permission.DENY, each) for each in denied]
    return [
        Entry(resource, principal, host, operation, permission)
        for resource, principal, host, (permission, operation) in product(
            resources, principals, hosts or (WILDCARD,), rights
        )
    ]


def _check_possible(operation: Operation, kind: ResourceType) -> None:
    possible = POSSIBLE[kind]
    if operation is Operation.ALL or operation in possible:
        return
    words = ", ".join(spelled(each) for each in sorted(possible))
    raise Failure(
        f"nobody can {spelled(operation)} a {WORDS[kind]}", f"there is all, {words}", USAGE
    )


def producer_entries(
    principals: Sequence[str], hosts: Sequence[str] | None, resources: Sequence[Resource]
) -> list[Entry]:
    """What somebody needs who writes to topics, with transactions where their ids are named."""
    return _conveniences(
        principals,
        hosts,
        resources,
        {
            ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
            ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
        },
        needed=(ResourceType.TOPIC,),
        option="--producer",
    )


def consumer_entries(
    principals: Sequence[str], hosts: Sequence[str] | None, resources: Sequence[Resource]
) -> list[Entry]:
    """What somebody needs who reads topics as a member of groups."""
    return _conveniences(
        principals,
        hosts,
        resources,
        {
            ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
            ResourceType.GROUP: (Operation.READ,),
        },
        needed=(ResourceType.TOPIC, ResourceType.GROUP),
        option="--consumer",
    )


def _conveniences(
    principals: Sequence[str],
    hosts: Sequence[str] | None,
    resources: Sequence[Resource],
    rights: dict[ResourceType, Sequence[Operation]],
    needed: Sequence[ResourceType],
    option: str,
) -> list[Entry]:
    for kind in needed:
        if not any(each.kind is kind for each in resources):
            raise Failure(f"{option} of which {WORDS[kind]}?", f"add --{WORDS[kind]}", USAGE)
    return [
        entry
        for resource in resources
        if resource.kind in rights
        for entry in entries_of(principals, hosts, rights[resource.kind], (), [resource])
    ]


def filters_of(
    principals: Sequence[str],
    hosts: Sequence[str] | None,
    allowed: Sequence[Operation],
    denied: Sequence[Operation],
    resources: Sequence[Resource],
    pattern: PatternType | None = None,
) -> list[Filter]:
    """What the options leave open is meant in all its forms; `pattern` overrides the resources'."""
    rights = [(each, Permission.ALLOW) for each in allowed]
    rights += [(each, Permission.DENY) for each in denied]
    things: list[tuple[ResourceType, str | None, PatternType]] = [
        (each.kind, each.name, pattern or each.pattern) for each in resources
    ]
    return [
        Filter(*thing, principal, host, *right)
        for thing, principal, host, right in product(
            things or [(ResourceType.ANY, None, PatternType.ANY)],
            principals or (None,),
            hosts or (None,),
            rights or [(Operation.ANY, Permission.ANY)],
        )
    ]


def spelled(operation: Operation | int) -> str:
    """An operation as the options take it."""
    try:
        return Operation(operation).name.lower().replace("_", "-")
    except ValueError:
        return f"operation-{operation}"

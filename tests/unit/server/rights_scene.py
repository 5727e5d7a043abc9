"""A world with an owner who has few rights in it, and all the questions that can be asked of it.

Some topics, groups and transactional ids are `mine`, some may only be `seen`, some are `theirs`,
and some do not exist, with rights to them or without. Requests name one of each kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.app.node import Node
from penstock.app.security import STANDARD_AUTHORIZER
from penstock.metadata.acls import Acl
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import CLUSTER_NAME, PatternType, Permission, ResourceType
from penstock.protocol.generated import create_acls, delete_acls
from penstock.protocol.message import Message, Part
from tests.unit.server.asking import Asker, asking, port_of, running_node

ME = "User:ANONYMOUS"
NOBODY = "User:nobody"

TOPICS = ("mine", "seen", "theirs", "absent", "absent-mine")
GROUPS = ("g-mine", "g-seen", "g-theirs")
TRANSACTIONS = ("t-mine", "t-seen", "t-theirs")

AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER}
OPEN_UNTIL_SAID = {**AUTHORIZED, "allow.everyone.if.no.acl.found": "true"}
"""Everybody may do everything to what no entry is about."""

_SMALL = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""Coordinators of one shard begin at once."""

Make = Callable[[int, Mapping[str, bytes]], Message]
"""A request in a version, with the ids of the topics on the node that gets it."""

_EVERY_KIND = (
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
    (ResourceType.CLUSTER, CLUSTER_NAME),
)


# -- rules ----------------------------------------------------------------------------------------


def _rule(
    kind: ResourceType,
    name: str,
    operations: Iterable[Operation],
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    who: str = ME,
) -> list[Acl]:
    return [Acl(kind, name, pattern, who, "*", each, permission) for each in operations]


def topic(name: str, *operations: Operation, **more: Any) -> list[Acl]:
    return _rule(ResourceType.TOPIC, name, operations, **more)


def group(name: str, *operations: Operation, **more: Any) -> list[Acl]:
    return _rule(ResourceType.GROUP, name, operations, **more)


def transaction(name: str, *operations: Operation, **more: Any) -> list[Acl]:
    return _rule(ResourceType.TRANSACTIONAL_ID, name, operations, **more)


def cluster(*operations: Operation) -> list[Acl]:
    return _rule(ResourceType.CLUSTER, CLUSTER_NAME, operations)


EVERYTHING = [rule for kind, name in _EVERY_KIND for rule in _rule(kind, name, [Operation.ALL])]

ABOUT_ALL = [
    rule for kind, name in _EVERY_KIND for rule in _rule(kind, name, [Operation.READ], who=NOBODY)
]
"""Entries about every resource, which allow nothing to us: with them, all is forbidden that is not
allowed, even where what no entry is about is open."""

FEW = [
    *topic("mine", Operation.READ, Operation.WRITE, Operation.DELETE),
    *topic("absent-mine", Operation.READ, Operation.WRITE, Operation.DELETE),
    *topic("seen", Operation.DESCRIBE),
    *group("g-mine", Operation.READ, Operation.DELETE),
    *group("g-seen", Operation.DESCRIBE),
    *transaction("t-mine", Operation.WRITE),
    *transaction("t-seen", Operation.DESCRIBE),
]


def creation(entries: Iterable[Acl]) -> create_acls.CreateAclsRequest:
    return create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in entries
        ]
    )


def deletion(entries: Iterable[Acl]) -> delete_acls.DeleteAclsRequest:
    return delete_acls.DeleteAclsRequest(
        filters=[
            delete_acls.DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in entries
        ]
    )


# -- a node ---------------------------------------------------------------------------------------


class Guarded:
    """A node with an authorizer, a client of it, and what the client may do."""

    def __init__(self, node: Node, asker: Asker) -> None:
        self.node = node
        self.broker = node.broker
        self.asker = asker
        self.ids: dict[str, bytes] = {}

    async def may(self, *rules: list[Acl]) -> None:
        """From now on these entries count, and no others."""
        wanted = {entry for rule in rules for entry in rule}
        standing = set(self.broker.image.acls.by_id.values())
        await self._change(creation(wanted - standing))
        await self._change(deletion(standing - wanted))
        await until(lambda: set(self.broker.image.acls.by_id.values()) == wanted)

    async def _change(self, request: Any) -> None:
        """Ask the controller itself: who has no rights could not give themselves any."""
        await self.broker.controller.handle(request.API_KEY, request, version=3)

    async def create(self, *names: str, partitions: int = 2) -> None:
        for name in names:
            self.ids[name] = await self.asker.create(name, partitions)

    async def ask(self, make: Make | Message, version: int) -> Any:
        request = make if isinstance(make, Message) else make(version, self.ids)
        return await self.asker.ask(request, version)


@asynccontextmanager
async def guarded_node(
    directory: Path, overrides: Mapping[str, str] | None = None
) -> AsyncIterator[Guarded]:
    """A node on which everything is allowed, until the test says otherwise."""
    config = {**AUTHORIZED, **_SMALL, **(overrides or {})}
    async with running_node(directory, config) as node, asking(port_of(node)) as asker:
        guarded = Guarded(node, asker)
        await guarded.may(EVERYTHING)
        yield guarded


# -- what answers say -----------------------------------------------------------------------------


def errors(answer: Any, items: str, name: str = "name") -> dict[Any, str]:
    """The errors that an answer tells of the items of a list, by name; more than one in a row."""
    return {getattr(item, name): " ".join(sorted(_errors(item))) for item in getattr(answer, items)}


def _errors(item: Any) -> set[str]:
    found: set[str] = set()
    for field in item.__slots__:
        value = getattr(item, field)
        if field.endswith("error_code"):
            found.add(ErrorCode(value).name)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Part):
                    found |= _errors(each)
    return found


def error_of(answer: Any) -> str:
    """The error that stands for the whole answer."""
    return ErrorCode(answer.error_code).name


async def until(true: Callable[[], bool], seconds_max: float = 10.0) -> None:
    async with asyncio.timeout(seconds_max):
        while not true():
            await asyncio.sleep(0.01)

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
from penstock.metadata.acls import Acl, AclsImage
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import CLUSTER_NAME, PatternType, Permission, ResourceType
from penstock.protocol.message import Message
from tests.unit.server.asking import Asker, asking, port_of, running_node

ME = "User:ANONYMOUS"
NOBODY = "User:nobody"

TOPICS = ("mine", "seen", "theirs", "absent", "absent-mine")
GROUPS = ("g-mine", "g-seen", "g-theirs")
TRANSACTIONS = ("t-mine", "t-seen", "t-theirs")

AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER}
OPEN_UNTIL_SAID = {**AUTHORIZED, "allow.everyone.if.no.acl.found": "true"}
"""Everybody may do everything to what no entry is about."""

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


# -- a node ---------------------------------------------------------------------------------------


class Guarded:
    """A node with an authorizer, a client of it, and what the client may do."""

    def __init__(self, node: Node, asker: Asker) -> None:
        self.node = node
        self.broker = node.broker
        self.asker = asker
        self.ids: dict[str, bytes] = {}
        self.may(EVERYTHING)

    def may(self, *rules: list[Acl]) -> None:
        """From now on these entries count, and no others."""
        assert self.broker.authorizer is not None
        entries = [entry for rule in rules for entry in rule]
        by_id = {number.to_bytes(16, "big"): entry for number, entry in enumerate(entries)}
        self.broker.authorizer.on_image(AclsImage(by_id))

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
    config = {**AUTHORIZED, **(overrides or {})}
    async with running_node(directory, config) as node, asking(port_of(node)) as asker:
        yield Guarded(node, asker)


# -- what answers say -----------------------------------------------------------------------------


def errors(answer: Any, *path: str) -> dict[Any, str]:
    """The errors of an answer by name: `path` leads through its lists to the name."""
    *lists, name = path
    items = [answer]
    for each in lists:
        items = [item for holder in items for item in getattr(holder, each)]
    return {getattr(item, name): error_name(item) for item in items}


def error_name(item: Any) -> str:
    return ErrorCode(item.error_code).name


async def until(true: Callable[[], bool], seconds_max: float = 10.0) -> None:
    async with asyncio.timeout(seconds_max):
        while not true():
            await asyncio.sleep(0.01)

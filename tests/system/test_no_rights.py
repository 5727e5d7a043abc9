"""Who has no rights sees nothing, changes nothing and finds out nothing.

Two nodes run side by side. In one there are topics with records, groups, transactions, users,
tokens, quotas and settings; in the other there is nothing. Somebody without any rights sends both
the same requests, of every API in every version on both kinds of listeners, and names what is in
the first: real topics and their ids, groups, users. If both always give the same answer, then
nothing in it tells one world from the other. Afterwards both worlds are as they were.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.model.operations import NOT_ASKED
from penstock.net.connection import CloseConnection
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.message import Part
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.registry import API, ApiSpec
from penstock.security.principal import Principal
from penstock.server.access import ACCESS, CONTROLLER_ACCESS
from penstock.server.apis import CONTROLLER_HANDLERS, HANDLERS
from penstock.server.logger_levels import logger_levels
from tests.system.filled_world import (
    ADMIN,
    GROUP,
    METRICS,
    SETTINGS,
    TOPIC,
    TRANSACTION,
    USER,
    Line,
    World,
)
from tests.unit.server.asking import question, running_node
from tests.unit.server.random_requests import RandomRequests

NOBODY = Principal("nobody")
REQUESTS_EACH = 6
"""Of each version of each API; what they name and what they leave out is left to chance."""

NAMES = (TOPIC, TOPIC, GROUP, TRANSACTION, USER, METRICS, "1", "kafka-cluster", "User", "", "*")

MEANT = {"group": GROUP, "transactional": TRANSACTION, "user": USER, "topic": TOPIC}
"""What a field names most of the time, by a word in its name or that of what it is in."""

RESOURCES = ((2, TOPIC), (3, GROUP), (4, ""), (4, "1"), (8, "1"), (16, METRICS), (32, GROUP))
"""Of configurations and of ACLs, by their numbers for kinds."""

_NUMBERS = {
    "ms": (0, 1, -1),  # nobody has patience
    "session_timeout_ms": (10_000,),
    "rebalance_timeout_ms": (10_000,),
    "port": (1, 100),
    "type": (0, 1, 2, 3, 4),
    "partition": (0, 1, 2, 7),
    "partitions": (0, 1, 2, 7),
    "index": (0, 1, 2, 7),
    "indexes": (0, 1, 2, 7),
}
"""Numbers that mean something, by a field's name or its last word."""

TOLD_TO_ALL = frozenset(
    {
        "cluster_id",  # clients must know which cluster they are talking to
        "port",
        "finalized_features_epoch",  # how long the metadata log is, as in Kafka
        "session_id",  # of chance
    }
)
"""Fields that two nodes cannot have in common, and which whoever is let in may know."""


_ALREADY_KNOWN: dict[int, int] = {
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
}
"""As in Kafka these errors are not the same. Who knows the 122 random bits of a topic's id, or the
512 of a token, was told by somebody who knew that it is there."""

_SAME = {*_ALREADY_KNOWN, *_ALREADY_KNOWN.values()}


async def said(line: Line, api_key: int, version: int, frame: bytes) -> str | dict[str, Any]:
    """What a node says to a request: every field by its path, or that it hung up."""
    try:
        answer = await line.send(api_key, version, frame)
    except CloseConnection:
        line.aborted = False
        return "hung up"
    return "nothing" if answer is None else dict(fields(answer))


def fields(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(part, Part):
        known = getattr(part, "error_code", 0) in _SAME
        for name in part.__slots__:
            if name not in TOLD_TO_ALL and not (known and name == "error_message"):
                yield from fields(getattr(part, name), f"{path}.{name}")
    elif isinstance(part, list):
        yield path, len(part)
        for at, each in enumerate(part):
            yield from fields(each, f"{path}[{at}]")
    elif path.endswith("error_code"):
        yield path, _ALREADY_KNOWN.get(part, part)
    else:
        yield path, bytes(part) if isinstance(part, memoryview) else part


# -- requests -------------------------------------------------------------------------------------


class Naming(RandomRequests):
    """Requests that name what there is, with every field that their version has."""

    def __init__(self, seed: int, world: World) -> None:
        super().__init__(seed)
        self._world = world
        self._left_out: set[str] = set()

    def of(self, spec: ApiSpec, version: int, count: int) -> list[bytes]:
        """So many requests of one version, as frames."""
        self._left_out = set()
        frames = [question(spec.request_class(), version)[4:]]  # of many APIs: about everything
        while len(frames) < count:
            try:
                frames.append(question(self._message(spec.request_class), version)[4:])
            except ProtocolError as problem:
                field = str(problem).partition(" ")[0]
                assert field not in self._left_out, problem
                self._left_out.add(field)  # this version has no place for it
        return frames

    def _part(self, cls: type[Part]) -> Any:
        fields = inspect.signature(cls.__init__).parameters
        made: Any = cls(
            **{
                name: self._value(cls, name, str(field.annotation))
                for name, field in fields.items()
                if name != "self" and f"{cls.__name__}.{name}" not in self._left_out
            }
        )
        if hasattr(made, "resource_type") and hasattr(made, "resource_name"):
            made.resource_type, made.resource_name = self._chance.choice(RESOURCES)
        return made

    def _value(self, cls: type[Part], name: str, kind: str) -> Any:
        chance = self._chance
        if "| None" in kind and chance.random() < 0.2:
            return None
        kind = kind.replace(" | None", "")
        if kind == "str":
            meant = [
                each for word, each in MEANT.items() if word in f"{cls.__name__}.{name}".lower()
            ]
            return meant[0] if meant and chance.random() < 0.8 else chance.choice(NAMES)
        if kind == "bytes":
            return chance.choice((self._world.topic_id, self._world.topic_id, self._world.hmac))
        if kind == "int":
            some = _NUMBERS.get(name) or _NUMBERS.get(name.rpartition("_")[2], (0, 1, -1, 2, 100))
            return chance.choice(some)
        if kind.startswith("list["):
            counts = (0, 0, 1, 2) if kind == "list[str]" else (0, 1, 1, 1, 2)
            return [self._value(cls, name, kind[5:-1]) for _ in range(chance.choice(counts))]
        return super()._value(cls, name, kind)


SEEN = {
    "DESCRIBE_CLIENT_QUOTAS",
    "DESCRIBE_CONFIGS",
    "DESCRIBE_DELEGATION_TOKEN",
    "DESCRIBE_GROUPS",
    "DESCRIBE_LOG_DIRS",
    "DESCRIBE_PRODUCERS",
    "DESCRIBE_TOPIC_PARTITIONS",
    "DESCRIBE_TRANSACTIONS",
    "DESCRIBE_USER_SCRAM_CREDENTIALS",
    "FETCH",
    "LIST_CONFIG_RESOURCES",
    "LIST_GROUPS",
    "LIST_OFFSETS",
    "LIST_TRANSACTIONS",
    "METADATA",
    "OFFSET_FETCH",
    "OFFSET_FOR_LEADER_EPOCH",
}
"""Whose answers tell who may see them what is there."""


# -- the test -------------------------------------------------------------------------------------


@asynccontextmanager
async def worlds(directory: Path) -> AsyncIterator[tuple[World, World]]:
    async with (
        running_node(directory / "full", SETTINGS) as full,
        running_node(directory / "empty", SETTINGS) as empty,
    ):
        world = World(full)
        await world.fill()
        yield world, World(empty)


def state(node: Node) -> tuple[Any, ...]:
    """Everything that a request could have changed."""
    broker = node.broker
    return (
        [each.encode(each.VERSIONS[-1]) for each in broker.image.records()],
        {key: (log.start, log.end) for key, log in broker.store.logs.items()},
        logger_levels(),
        dict(broker.store.moves),
    )


@pytest.mark.parametrize("quorum", [False, True], ids=["brokers", "controllers"])
async def test_two_worlds_look_the_same_to_who_has_no_rights(tmp_path: Path, quorum: bool) -> None:
    keys = CONTROLLER_HANDLERS if quorum else HANDLERS
    async with worlds(tmp_path) as (full, empty):
        before = [state(each.node) for each in (full, empty)]
        naming = Naming(7, full)
        different, asked = [], 0
        for key in sorted(keys):
            assert key in (CONTROLLER_ACCESS if quorum else ACCESS), API[key].name
            spec = API[key]
            for version in range(spec.codec_versions.start, spec.versions.stop):
                for frame in naming.of(spec, version, REQUESTS_EACH):
                    told, own = [
                        await said(Line(each.node, _who(key), quorum), key, version, frame)
                        for each in (full, empty)
                    ]
                    asked += 1
                    assert not _rights_in(told), (spec.name, version, told)
                    if told != own:
                        request, _ = spec.request_class.read(
                            memoryview(frame), version, _body_at(frame)
                        )
                        different.append(f"{spec.name} {version}: {told}\n not {own}\n {request}")
        assert not different, f"{len(different)} of {asked}:\n" + "\n".join(different[:20])
        assert [state(each.node) for each in (full, empty)] == before


def _rights_in(answer: str | dict[str, Any]) -> list[str]:
    """Rights that an answer says one has."""
    if isinstance(answer, str):
        return []
    told = ((path, value) for path, value in answer.items() if path.endswith("_operations"))
    return [path for path, value in told if value not in (0, NOT_ASKED)]


def _who(key: int) -> Principal:
    # Everybody may have tokens, but for those who came with one.
    return NOBODY._replace(by_token=key == ApiKey.CREATE_DELEGATION_TOKEN)


def _body_at(frame: bytes) -> int:
    from penstock.protocol.headers import read_request_header

    return read_request_header(memoryview(frame))[4]


async def test_an_administrator_sees_that_the_worlds_differ(tmp_path: Path) -> None:
    """The same comparison of the same requests, so that it is known not to be blind."""
    async with worlds(tmp_path) as (full, empty):
        naming = Naming(7, full)
        apart = set()
        for key in sorted(ApiKey[name] for name in SEEN):
            spec = API[key]
            version = spec.versions.stop - 1
            for frame in naming.of(spec, version, 30):
                told, own = [
                    await said(Line(each.node, ADMIN), key, version, frame)
                    for each in (full, empty)
                ]
                if told != own:
                    apart.add(ApiKey(key).name)
        assert apart == SEEN

"""A cluster through `wire`: who is there, who leads what, who coordinates whom, and refusals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from penstock.cli.addresses import address_of, nobody_there
from penstock.cli.failure import Failure
from penstock.cli.options import pairs_of
from penstock.cli.places import Place, Wanted, chosen
from penstock.cli.wire import Answer, Wire
from penstock.cli.wire_security import security_of
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from penstock.protocol.message import Message

Result = TypeVar("Result")

GROUP, TRANSACTION = 0, 1
"""What a coordinator is for, as FindCoordinator numbers it."""

RETRY_SECONDS = 0.1

_FIND_VERSION_MAX = 3  # the last that asks for one key; every broker knows it

_PASSES = {
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.REQUEST_TIMED_OUT,
}
"""Refusals that a moment's patience cures."""

_HINTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`penstock topic list` shows the topics that there are",
    ErrorCode.GROUP_ID_NOT_FOUND: "`penstock group list` shows the groups that there are",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first; `penstock group describe` shows them",
    ErrorCode.UNKNOWN_MEMBER_ID: "stop its members first; `penstock group describe` shows them",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "its members read this topic: stop them first",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`penstock txn list` shows the ids that there are",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "ask for the right to this group",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ask for the right to this topic",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "ask for the right to this id",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ask for the right to administer the cluster",
    ErrorCode.SECURITY_DISABLED: "this cluster lets everybody do everything, unless its nodes have "
    "authorizer.class.name set",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "its nodes need delegation.token.secret.key, the "
    "same for all",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "tokens are for those who have logged in with "
    "a password or a certificate",
}


class Refusal(Failure):
    """A broker's refusal: what it kept from happening, and its code."""

    def __init__(self, code: int, what: str, told: str | None = None) -> None:
        try:
            self.code = ErrorCode(code)
        except ValueError:
            self.code = ErrorCode.UNKNOWN_SERVER_ERROR
        reason = f"{told.rstrip('.')} ({self.code.name})" if told else self.code.name
        super().__init__(f"{what}: {reason}", _HINTS.get(self.code, ""))


def check(code: int, what: str, told: str | None = None) -> None:
    """Return if the code is none; else `Refusal` that begins with `what`."""
    if code != ErrorCode.NONE:
        raise Refusal(code, what, told)


class Node(NamedTuple):
    """A broker, and where it is."""

    id: int
    host: str
    port: int


class Cluster:
    """The brokers behind a bootstrap address, each connected to when first needed."""

    def __init__(self, bootstrap: str, words: Sequence[str] | None, wait: float) -> None:
        extra = pairs_of(words, "-X")
        self._security = security_of(extra)
        self._wait = wait
        self._wires: dict[int, Wire] = {}
        self._entrance = self._enter(extra.get("bootstrap.servers", bootstrap))
        self.nodes = self._nodes()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for wire in (self._entrance, *self._wires.values()):
            wire.close()

    @property
    def anyone(self) -> Wire:
        """A broker, whichever."""
        return self._entrance

    def node(self, number: int) -> Wire:
        """The broker of this id."""
        wire = self._wires.get(number)
        if wire is None:
            where = self.nodes.get(number)
            if where is None:  # new since we asked
                self.nodes = self._nodes()
                where = self.nodes.get(number)
            if where is None:
                raise Refusal(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {number} is not there")
            wire = self._wires[number] = self._connect(where.host, where.port)
        return wire

    def everyone(self, request: Message, answer: type[Answer]) -> Iterator[tuple[int, Answer]]:
        """What each broker answers to the same question."""
        for number in self.nodes:
            yield number, self.node(number).ask(request, answer)

    def coordinator(self, kind: int, key: str) -> Node:
        """The broker that keeps a group or a transactional id."""
        noun = "group" if kind == GROUP else "transactional id"
        request = FindCoordinatorRequest(key=key, key_type=kind)
        found = self._entrance.ask(request, FindCoordinatorResponse, _FIND_VERSION_MAX)
        what = f"the coordinator of {noun} {key} is not known"
        check(found.error_code, what, found.error_message)
        return Node(found.node_id, found.host, found.port)

    def leaders(self, topics: Iterable[str] | None) -> dict[Place, int]:
        """The leader of each partition, -1 where there is none; all topics for None.

        A topic that is not there is not in the answer.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        if wanted == []:
            return {}
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        found = self._entrance.ask(request, MetadataResponse)
        leaders = {}
        for topic in found.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or topic.name is None:
                continue
            check(topic.error_code, f"topic {topic.name} cannot be looked up")
            for one in sorted(topic.partitions, key=lambda one: one.partition_index):
                leaders[Place(topic.name, one.partition_index)] = one.leader_id
        return leaders

    def places(self, wanted: Sequence[Wanted], known: Iterable[Place] = ()) -> list[Place]:
        """The partitions that are wanted; `Failure` if one is neither there nor `known`."""
        return chosen(wanted, {*self.leaders({topic for topic, _ in wanted}), *known})

    def patiently(self, attempt: Callable[[], Result]) -> Result:
        """Attempt until it is not refused for a reason that passes, or the wait is over."""
        deadline = time.monotonic() + self._wait
        while True:
            try:
                return attempt()
            except Refusal as refusal:
                if refusal.code not in _PASSES or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_SECONDS)

    def _connect(self, host: str, port: int) -> Wire:
        try:
            return Wire(host, port, self._security, self._wait)
        except OSError as error:
            raise nobody_there([f"{host}:{port}: {error.strerror or error}"]) from None

    def _enter(self, servers: str) -> Wire:
        """A connection to the first server that takes one."""
        reasons = []
        for server in servers.split(","):
            host, port = address_of(server)
            try:
                return Wire(host, port, self._security, self._wait)
            except OSError as error:
                reasons.append(f"{host}:{port}: {error.strerror or error}")
        raise nobody_there(reasons)

    def _nodes(self) -> dict[int, Node]:
        found = self._entrance.ask(MetadataRequest(topics=[]), MetadataResponse)
        nodes = [Node(one.node_id, one.host, one.port) for one in found.brokers]
        return {node.id: node for node in sorted(nodes)}

"""The table of rights: complete, and asked before any handler is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from codegen import rights_page
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.message import Message, Part
from penstock.protocol.registry import API
from penstock.security.authorizer import Authorizer
from penstock.security.principal import ANONYMOUS, Principal
from penstock.server.access import ACCESS, CONTROLLER_ACCESS, Access, guarded
from penstock.server.apis import CONTROLLER_HANDLERS, HANDLERS
from penstock.server.broker import Broker
from penstock.server.call import Call
from penstock.server.refusals import refusal
from tests.unit.server.random_requests import RandomRequests

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

COVERED = sorted(
    (key, access.of_cluster) for key, access in CONTROLLER_ACCESS.items() if access.of_cluster
)


class OneRight(Authorizer):
    """Allows one operation on the cluster, and remembers what it was asked."""

    def __init__(self, *allowed: Operation) -> None:
        super().__init__([], False)
        self._allowed = allowed
        self.asked: list[Operation] = []

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        assert (principal, host, kind, name) == (
            ANONYMOUS,
            "10.0.0.1",
            ResourceType.CLUSTER,
            "kafka-cluster",
        )
        self.asked.append(operation)
        return operation in self._allowed


def broker_with(authorizer: Authorizer | None) -> Broker:
    return cast(Broker, SimpleNamespace(authorizer=authorizer))


def call_of(key: int, version: int = 0) -> Call:
    connection: Any = SimpleNamespace(gate=None, peer=("10.0.0.1", 1), listener_name="X")
    return Call(connection, key, version, 1, "somebody")


def errors_in(part: Part) -> list[int]:
    """Every error code in an answer."""
    found: list[int] = []
    for slot in part.__slots__:
        value = getattr(part, slot)
        if slot == "error_code":
            found.append(value)
        for each in value if isinstance(value, list) else ():
            found += errors_in(each) if isinstance(each, Part) else []
    return found


@pytest.mark.parametrize("key", list(ApiKey))
def test_every_api_has_a_row_that_says_one_thing(key: ApiKey) -> None:
    for table in (ACCESS, CONTROLLER_ACCESS):
        assert sum(map(bool, table[key])) == 1


def test_whatever_is_served_is_in_the_table() -> None:
    assert HANDLERS.keys() <= ACCESS.keys()
    assert CONTROLLER_HANDLERS.keys() <= CONTROLLER_ACCESS.keys()


def test_the_page_of_rights_says_what_the_table_says() -> None:
    with open(rights_page.TARGET, encoding="utf-8") as file:
        assert file.read() == rights_page.page(), "run: python -m codegen.rights_page"


def test_only_what_clients_need_to_begin_is_told_to_all() -> None:
    assert {ApiKey(key).name for key, access in ACCESS.items() if access.for_all} == {
        "API_VERSIONS",
        "DESCRIBE_CLUSTER",
        "GET_TELEMETRY_SUBSCRIPTIONS",
        "PUSH_TELEMETRY",
        "SASL_AUTHENTICATE",
        "SASL_HANDSHAKE",
    }
    more = {key for key, access in CONTROLLER_ACCESS.items() if access.for_all}
    assert more < {key for key, access in ACCESS.items() if access.for_all}


@pytest.mark.parametrize(("key", "rights"), COVERED)
async def test_without_the_right_no_handler_is_called(
    key: int, rights: tuple[Operation, ...]
) -> None:
    def handler(*_: object) -> None:
        raise AssertionError("the handler was called")

    guard = guarded(handler, Access(of_cluster=rights))
    spec = API[key]
    for version in range(spec.codec_versions.start, spec.versions.stop):
        others = [each for each in Operation if each not in rights]
        broker = broker_with(OneRight(*others))
        for request in RandomRequests(key).readable(spec, version, 5):
            answer = guard(broker, call_of(key, version), request)
            assert isinstance(answer, spec.response_class)
            assert set(errors_in(answer)) <= {REFUSED, ErrorCode.NONE}
            answer.write(version, bytearray())


@pytest.mark.parametrize(("key", "rights"), COVERED)
def test_any_of_the_rights_will_do(key: int, rights: tuple[Operation, ...]) -> None:
    guard = guarded(lambda *_: "answer", Access(of_cluster=rights))
    for right in rights:
        assert guard(broker_with(OneRight(right)), call_of(key), None) == "answer"


def test_an_open_node_asks_nobody() -> None:
    guard = guarded(lambda *_: "answer", CONTROLLER_ACCESS[ApiKey.VOTE])
    assert guard(broker_with(None), call_of(ApiKey.VOTE), None) == "answer"


def test_handlers_that_ask_for_themselves_stand_in_the_tables_as_they_are() -> None:
    def handler(*_: object) -> None:
        """Never called."""

    assert guarded(handler, ACCESS[ApiKey.PRODUCE]) is handler


@pytest.mark.parametrize(("key", "_"), COVERED)
def test_refusals_carry_their_error_wherever_there_is_something_to_refuse(
    key: int, _: object
) -> None:
    spec = API[key]
    version = spec.versions.stop - 1
    empty: Message = spec.request_class()
    for request in (*RandomRequests(1).readable(spec, version, 20), empty):
        answer = refusal(request, REFUSED, version)
        codes = errors_in(answer)
        if "error_code" in answer.__slots__:
            assert codes[0] == REFUSED
        else:
            assert set(codes) <= {REFUSED}
            assert bool(codes) == _names_something(request)


def _names_something(request: Any) -> bool:
    """Whether a request has a part that an error could be about."""
    match request.API_KEY:
        case ApiKey.CREATE_ACLS:
            return bool(request.creations)
        case ApiKey.DELETE_ACLS:
            return bool(request.filters)
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            return bool(request.deletions or request.upsertions)
        case ApiKey.ALTER_CLIENT_QUOTAS:
            return bool(request.entries)
        case ApiKey.WRITE_TXN_MARKERS:
            return any(t.partition_indexes for m in request.markers for t in m.topics)
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            return any(t.partitions for d in request.dirs for t in d.topics)
        case key if "SHARE_GROUP_STATE" in ApiKey(key).name:
            return any(topic.partitions for topic in request.topics)
    raise AssertionError(f"how is {API[request.API_KEY].name} refused?")

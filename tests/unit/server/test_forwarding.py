"""What clients hear when nobody can decide: Kafka's error, in the shape of each API's answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.message import Message, Part
from penstock.protocol.registry import API
from penstock.raft.driver import NotLeader
from penstock.security.principal import ANONYMOUS
from penstock.server.apis import CONTROLLER_MODULES, FORWARDED
from penstock.server.call import Call, Sender
from penstock.server.forwarding import forward
from penstock.server.refusals import refusal
from tests.unit.server.random_requests import RandomRequests

ANSWERED_HERE = {int(ApiKey.DESCRIBE_CONFIGS), int(ApiKey.DESCRIBE_CLUSTER)}
DECIDED = sorted(
    (FORWARDED - ANSWERED_HERE)
    | {key for key, module in CONTROLLER_MODULES.items() if module == "controller_request"}
)


class Absent:
    """A broker, and a controller, that find nobody who decides."""

    def __init__(self) -> None:
        self.controller = self
        self.local = SimpleNamespace(handle=self.handle)
        self.quotas = SimpleNamespace(mutations=lambda _: None)

    def controller_at(self, listener: str) -> Any:
        return self.local if listener == "CONTROLLER" else self

    async def handle(self, *_: Any, **__: Any) -> Any:
        raise NotLeader("nobody")


def call_on(listener: str, *, enveloped: bool = False) -> Call:
    connection: Any = SimpleNamespace(listener_name=listener)
    return Call(
        connection,
        int(ApiKey.CREATE_TOPICS),
        7,
        1,
        None,
        Sender(ANONYMOUS, "") if enveloped else None,
    )


async def asked(call: Call) -> list[int]:
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in "ab"])
    broker: Any = Absent()
    response = await forward(broker, call, request)
    return [each.error_code for each in response.topics]


async def test_a_client_of_a_broker_hears_that_its_time_is_up() -> None:
    assert await asked(call_on("PLAINTEXT")) == [ErrorCode.REQUEST_TIMED_OUT] * 2


async def test_who_asks_a_controller_hears_that_another_one_decides() -> None:
    assert await asked(call_on("CONTROLLER")) == [ErrorCode.NOT_CONTROLLER] * 2


async def test_what_lies_in_an_envelope_is_not_answered_but_the_envelope() -> None:
    with pytest.raises(NotLeader):
        await asked(call_on("CONTROLLER", enveloped=True))


@pytest.mark.parametrize("api_key", DECIDED, ids=lambda key: ApiKey(key).name)
def test_each_request_can_be_refused_in_each_of_its_versions(api_key: int) -> None:
    spec = API[api_key]
    requests = RandomRequests(api_key)
    for version in spec.codec_versions:
        for request in requests.readable(spec, version, 5):
            out = bytearray()
            refusal(request, ErrorCode.REQUEST_TIMED_OUT, version).write(version, out)
            response, end = spec.response_class.read(bytes(out), version, 0)
            assert end == len(out)
            found = set(errors_in(response))
            assert found <= {int(ErrorCode.REQUEST_TIMED_OUT)}
            assert found or not names_anything(request), "a refusal says why"


def errors_in(part: Any) -> list[int]:
    if isinstance(part, list):
        return [code for each in part for code in errors_in(each)]
    if not isinstance(part, (Message, Part)):
        return []
    own = [part.error_code] if hasattr(part, "error_code") else []
    within = [getattr(part, name) for name in part.__slots__]
    return [code for code in own if code] + [c for each in within for c in errors_in(each)]


def names_anything(request: Any) -> bool:
    lists = [getattr(request, name) for name in request.__slots__]
    parts = [each for each in lists if isinstance(each, list) and each]
    return bool(parts) and all(getattr(each, "partitions", True) for part in parts for each in part)


@pytest.mark.parametrize(("enveloped", "muted"), [(False, [0.5]), (True, [])])
async def test_who_is_told_to_wait_is_not_read_by_the_broker_that_it_asked(
    enveloped: bool, muted: list[float]
) -> None:
    class Slow(Absent):
        async def handle(self, *_: Any, **__: Any) -> Any:
            return CreateTopicsResponse(throttle_time_ms=500)

    call = call_on("PLAINTEXT", enveloped=enveloped)
    heard: list[float] = []
    call.connection.mute = heard.append  # type: ignore[method-assign]
    broker: Any = Slow()
    response = await forward(broker, call, CreateTopicsRequest())
    assert response.throttle_time_ms == 500
    assert heard == muted

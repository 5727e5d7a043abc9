"""The plain client, against a broker that says what it is told to say."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from penstock.cli.failure import UNREACHABLE, USAGE, Failure
from penstock.cli.wire import ANSWER_SIZE_MAX, Wire
from penstock.cli.wire_cluster import Refusal, check
from penstock.cli.wire_security import Security, security_of
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.generated.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.protocol.generated.sasl_authenticate import SaslAuthenticateResponse
from penstock.protocol.generated.sasl_handshake import SaslHandshakeResponse

SASL = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)

Reply = Callable[[int], bytes]
Broker = Callable[..., int]


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def hello(number: int, low: int = 0, high: int = 5) -> bytes:
    """An answer to ApiVersions: ListGroups is known, in some versions."""
    keys = [ApiVersion(api_key=ApiKey.LIST_GROUPS, min_version=low, max_version=high)]
    keys += [ApiVersion(api_key=key, min_version=1, max_version=1) for key in SASL]
    return framed(struct.pack(">i", number) + ApiVersionsResponse(api_keys=keys).encode(0))


def groups(number: int) -> bytes:
    answer = ListGroupsResponse(groups=[ListedGroup(group_id="g", group_state="Stable")])
    return framed(struct.pack(">ix", number) + answer.encode(5))


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Starts a listener that answers each request with the next of its replies; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(replies: tuple[Reply, ...]) -> None:
        connection, _ = listener.accept()
        with connection:
            for reply in replies:
                length = connection.recv(4, socket.MSG_WAITALL)
                if not length:
                    return
                (size,) = struct.unpack(">i", length)
                request = connection.recv(size, socket.MSG_WAITALL)
                (number,) = struct.unpack_from(">i", request, 4)
                connection.sendall(reply(number))
            connection.recv(1)  # until the other side has had enough

    def start(*replies: Reply) -> int:
        thread = threading.Thread(target=serve, args=(replies,), daemon=True)
        thread.start()
        threads.append(thread)
        port: int = listener.getsockname()[1]
        return port

    yield start
    listener.close()
    for thread in threads:
        thread.join(5)


def ask(
    port: int,
    wait: float = 5.0,
    security: Security = Security(),  # noqa: B008 - it is a tuple
) -> ListGroupsResponse:
    wire = Wire("127.0.0.1", port, security, wait)
    try:
        return wire.ask(ListGroupsRequest(), ListGroupsResponse)
    finally:
        wire.close()


def test_an_answer_is_read_in_the_newest_version_that_both_know(broker: Broker) -> None:
    assert [one.group_id for one in ask(broker(hello, groups)).groups] == ["g"]


def test_a_broker_without_a_common_version_is_told_of(broker: Broker) -> None:
    with pytest.raises(Failure, match="does not know ListGroups as we do"):
        ask(broker(lambda number: hello(number, low=70, high=80)))


@pytest.mark.parametrize("size", [-1, ANSWER_SIZE_MAX + 1])
def test_an_answer_of_any_size_is_not_waited_for(broker: Broker, size: int) -> None:
    with pytest.raises(Failure, match=f"an answer of {size} bytes"):
        ask(broker(hello, lambda _: struct.pack(">i", size)))


def test_an_answer_to_something_else_is_refused(broker: Broker) -> None:
    with pytest.raises(Failure, match="an answer to request 7, where 2 was sent"):
        ask(broker(hello, lambda _: groups(7)))


def test_an_answer_that_is_cut_short_is_refused(broker: Broker) -> None:
    with pytest.raises(Failure, match="does not answer as a broker"):
        ask(broker(hello, lambda number: framed(groups(number)[4:12])))


def test_silence_ends_with_the_wait_even_if_bytes_trickle(broker: Broker) -> None:
    began = time.monotonic()
    with pytest.raises(Failure) as failed:
        ask(broker(hello, lambda _: struct.pack(">i", 1000) + b"x"), wait=0.3)
    assert failed.value.status == UNREACHABLE
    assert "no answer from 127.0.0.1" in failed.value.problem
    assert time.monotonic() - began < 3


def test_a_connection_that_breaks_is_told_of(broker: Broker) -> None:
    with pytest.raises(Failure) as failed:
        # The listener reads one byte of the second request, and goes.
        ask(broker(hello))
    assert failed.value.status == UNREACHABLE
    assert "broke" in failed.value.problem


ALICE = Security(mechanism="PLAIN", pairs={"sasl.username": "alice", "sasl.password": "secret"})


def handshake(number: int, code: int = 0) -> bytes:
    answer = SaslHandshakeResponse(error_code=code, mechanisms=["SCRAM-SHA-256"])
    return framed(struct.pack(">i", number) + answer.encode(1))


def verdict(number: int, code: int = 0) -> bytes:
    answer = SaslAuthenticateResponse(error_code=code, error_message="wrong password")
    return framed(struct.pack(">i", number) + answer.encode(1))


def test_a_user_logs_in_before_anything_is_asked(broker: Broker) -> None:
    told = ask(broker(hello, handshake, verdict, groups), security=ALICE)
    assert [one.group_id for one in told.groups] == ["g"]


def test_a_mechanism_that_the_broker_does_not_take_is_told_of(broker: Broker) -> None:
    with pytest.raises(Failure) as failed:
        ask(broker(hello, lambda number: handshake(number, 33)), security=ALICE)
    assert failed.value.problem == "the broker does not take PLAIN"
    assert failed.value.hint == "it takes SCRAM-SHA-256"


def test_a_user_who_is_not_let_in_is_told_why(broker: Broker) -> None:
    port = broker(hello, handshake, lambda number: verdict(number, 58))
    with pytest.raises(Failure) as failed:
        ask(port, security=ALICE)
    assert failed.value.problem == "the broker does not let alice in: wrong password"
    assert "secret" not in failed.value.problem + failed.value.hint


def test_a_plain_listener_is_no_tls_listener(broker: Broker) -> None:
    with pytest.raises(Failure, match=r"no TLS with 127\.0\.0\.1"):
        ask(broker(hello), wait=1.0, security=Security(encrypted=True))


def test_a_missing_file_is_a_mistake_of_usage(broker: Broker) -> None:
    with pytest.raises(Failure) as failed:
        ask(broker(hello), security=Security(True, {"ssl.ca.location": "/no/such/file"}))
    assert failed.value.status == USAGE


def test_security_is_read_from_librdkafkas_names() -> None:
    pairs = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "plain",
        "sasl.username": "alice",
        "sasl.password": "secret",
        "ssl.ca.location": "/ca.pem",
    }
    security = security_of(pairs)
    assert security == Security(True, pairs, "PLAIN")
    assert "secret" not in repr(security)
    assert security_of({}) == Security()


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [
        ({"sasl.mechansim": "PLAIN"}, "-X sasl.mechansim means nothing"),
        ({"security.protocol": "tls"}, "security.protocol=tls is none"),
        (
            {"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"},
            "cannot log in with GSSAPI",
        ),
    ],
)
def test_security_that_is_not_understood_is_refused(pairs: dict[str, str], problem: str) -> None:
    with pytest.raises(Failure) as failed:
        security_of(pairs)
    assert problem in failed.value.problem
    assert failed.value.status == USAGE


def test_a_refusal_says_what_it_kept_from_happening() -> None:
    check(0, "nothing")
    with pytest.raises(Refusal) as refused:
        check(ErrorCode.NON_EMPTY_GROUP, "group g was not deleted", "There are members.")
    assert refused.value.problem == ("group g was not deleted: There are members (NON_EMPTY_GROUP)")
    assert "stop its members first" in refused.value.hint
    assert Refusal(12345, "it").code == ErrorCode.UNKNOWN_SERVER_ERROR

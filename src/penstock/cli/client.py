"""Talking to a cluster, with confluent-kafka, and telling its errors in a user's words.

confluent-kafka costs 100 ms to import, so this module is imported inside commands, never by them
at the top.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from penstock.cli.addresses import KNOCK_SECONDS_MAX, address_of, nobody_there
from penstock.cli.failure import REFUSED, UNREACHABLE, USAGE, Failure
from penstock.cli.options import pairs_of
from penstock.cli.secure_bearer import ENDPOINT, bearer_token
from penstock.cli.secure_properties import TOKEN_LOGIN

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

Client = TypeVar("Client")

_PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

BEARER_SECONDS = 300.0
"""After which a file with a token is read again: whoever puts it there replaces it in time."""

_NO_ANSWER = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
}

_NO_ANSWER_HINT = "does the cluster want TLS or a login? See --profile and --command-config"

_HINTS = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "`penstock topic list` shows the topics that there are",
    KafkaError.TOPIC_ALREADY_EXISTS: "choose another name, or pass --if-not-exists",
    KafkaError.INVALID_REPLICATION_FACTOR: "`penstock cluster describe` shows how many brokers "
    "there are: a partition has at most one replica on each",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "ask for the right to this topic, or pass the "
    "credentials of somebody who has it, with --profile or --command-config",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "ask for the right to this group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ask for the right to administer the cluster",
    KafkaError.INVALID_PARTITIONS: "a topic's partitions can grow in number, and never shrink",
}


def settings_of(bootstrap: str, words: Sequence[str] | None) -> dict[str, Any]:
    """The client's settings, once a broker was seen to listen.

    Knocking first turns a wrong address into an answer at once, where librdkafka would go on
    trying until its time is up.
    """
    extra = pairs_of(words, "-X")
    servers = extra.get("bootstrap.servers", bootstrap)
    if extra.pop(TOKEN_LOGIN, "").lower() == "true":
        raise Failure(
            "this command cannot log in with a delegation token",
            "its client library knows users and passwords, certificates and OAUTHBEARER",
            USAGE,
        )
    _knock(servers, extra)
    silent = logging.getLogger("penstock.cli.librdkafka")
    silent.addHandler(logging.NullHandler())
    silent.propagate = False
    return {
        "client.id": "penstock-cli",
        "logger": silent,  # what fails is raised and told by us; the rest is noise to a user
        **extra,
        **_bearer(extra),
        "bootstrap.servers": servers,
    }


def _bearer(extra: dict[str, str]) -> dict[str, Any]:
    """A token that lies in a file is shown by us: librdkafka fetches from endpoints alone."""
    if not extra.get(ENDPOINT, "").startswith("file:"):
        return {}
    pairs = {ENDPOINT: extra.pop(ENDPOINT)}

    def token(_: str) -> tuple[str, float]:
        return bearer_token(pairs), time.time() + BEARER_SECONDS

    return {"oauth_cb": token}


def admin(bootstrap: str, words: Sequence[str] | None) -> AdminClient:
    """A client for administration."""
    from confluent_kafka.admin import AdminClient

    return _made(AdminClient, settings_of(bootstrap, words))


def producer(bootstrap: str, words: Sequence[str] | None, defaults: Mapping[str, Any]) -> Producer:
    """A client that writes; what the user says with -X goes before `defaults`."""
    from confluent_kafka import Producer

    return _made(Producer, {**defaults, **settings_of(bootstrap, words)})


def consumer(bootstrap: str, words: Sequence[str] | None, defaults: Mapping[str, Any]) -> Consumer:
    """A client that reads; what the user says with -X goes before `defaults`."""
    from confluent_kafka import Consumer

    settings = {**defaults, **settings_of(bootstrap, words)}
    if not settings["group.id"]:
        # The client would end the whole process with a failed assertion.
        raise Failure("-X group.id= names no group", "leave it out", USAGE)
    return _made(Consumer, settings)


def result(future: Future[Any], what: str, wait: float) -> Any:
    """What the cluster answered; `Failure` that begins with `what` if it refused."""
    try:
        return future.result(wait)
    except KafkaException as refusal:
        raise failure_of(refusal, what) from None
    except TimeoutError:
        raise Failure(
            f"{what}: no answer within {wait:g} s",
            f"{_NO_ANSWER_HINT}; or is --wait too short?",
            UNREACHABLE,
        ) from None


def failure_of(refusal: KafkaException, what: str) -> Failure:
    """The cluster's refusal as a failure that begins with `what`."""
    error = refusal.args[0]
    if not isinstance(error, KafkaError):
        return Failure(f"{what}: {error}")
    code = error.code()
    if code in _NO_ANSWER:
        return Failure(f"{what}: {reason_of(error)}", _NO_ANSWER_HINT, UNREACHABLE)
    return Failure(f"{what}: {reason_of(error)}", _HINTS.get(code, ""), REFUSED)


def reason_of(error: KafkaError) -> str:
    """An error's own text and its name, without librdkafka's prefixes."""
    text = (error.str() or "").removeprefix("Broker: ").removeprefix("Local: ").strip()
    return f"{text} ({error.name()})" if text else str(error.name())


def code_of(refusal: KafkaException) -> int:
    """The error code of a refusal."""
    return int(refusal.args[0].code())


def _made(make: Callable[[dict[str, Any]], Client], settings: Mapping[str, Any]) -> Client:
    try:
        return make(dict(settings))
    except KafkaException as refusal:
        raise Failure(
            f"the client refused its settings: {reason_of(refusal.args[0])}",
            "check the words after -X against librdkafka's configuration page",
            USAGE,
        ) from None


def _knock(servers: str, extra: Mapping[str, str]) -> None:
    """Return when any of the servers lets us in; `Failure` if none does.

    librdkafka tells a wrong password or a stranger's certificate only to its log, and tries on and
    on. So where proof is asked for we come in once ourselves, and hear at once what is wrong.
    """
    reasons = []
    for server in servers.split(","):
        host, port = address_of(server)
        try:
            _enter(host, port, extra)
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    raise nobody_there(reasons)


def _enter(host: str, port: int, extra: Mapping[str, str]) -> None:
    protocol = extra.get("security.protocol", "plaintext").lower()
    mechanism = extra.get("sasl.mechanism", extra.get("sasl.mechanisms", "")).upper()
    ours = protocol == "ssl" or (protocol.startswith("sasl") and mechanism in _PASSWORDS)
    if not ours:
        socket.create_connection((host, port), KNOCK_SECONDS_MAX).close()
        return
    from penstock.cli.secure_properties import TAKEN
    from penstock.cli.wire import Wire
    from penstock.cli.wire_security import security_of

    security = security_of({key: value for key, value in extra.items() if key in TAKEN})
    Wire(host, port, security, KNOCK_SECONDS_MAX).close()

"""The cases of proof and rights: what encryption, logins and a thousand ACLs cost a broker."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import admin as administration

from bench import java, topics
from bench.model import Case, Criterion, Kind, Measures, Scale
from bench.process import Spent
from bench.rdkafka import ClientFailed, Consumer, Payload, Producer
from penstock.security.authority import Authority
from penstock.testing.ports import free_ports
from tests.oracle import apache
from tests.oracle.nodes import ApacheNode, Node

PARTITIONS = 4
ENTRIES = 1_000
KNOCKERS = 4
SECONDS_MAX = 300
SINGLE_RECORDS_MIN = 20_000
"""CPU time is counted in hundredths of a second: fewer would not show a difference of 5 %."""
WARM_UPS = 2
"""A JVM compiles while it warms up: without these Kafka would pay for it in the result."""

DEFAULT_BATCHES = {"batch_size": "16384", "linger_ms": "5"}
LARGE_BATCHES = {"batch_size": "1000000", "linger_ms": "100"}
MODULES = "org.apache.kafka.common.security"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USER, PASSWORD = "bench", "bench-secret"
MECHANISM = "SCRAM-SHA-256"


# -- TLS and SCRAM --------------------------------------------------------------------------------


def secured_traffic(node: Node, scale: Scale) -> Measures:
    """Produce and consume over SASL_SSL, all logged in with SCRAM."""
    with _behind_tls(node, "SASL_SSL") as (port, authority):
        _create_user(node)
        client = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM,
            "sasl_username": USER,
            "sasl_password": PASSWORD,
            "ssl_ca_location": str(authority),
        }
        bootstrap = f"127.0.0.1:{port}"
        for _ in range(WARM_UPS):
            _round(node, bootstrap, client, scale.records)
        return _round(node, bootstrap, client, scale.records)


def secured_traffic_with_java(node: Node, scale: Scale) -> Measures:
    """The same with Apache's own clients, whose TLS records are as large as they may be.

    librdkafka makes two small ones of each record that it sends: with it, decrypting them one by
    one is most of what either broker does.
    """
    with _behind_tls(node, "SASL_SSL") as (port, authority):
        _create_user(node)
        settings = node.directory / "client.properties"
        settings.write_text(
            "security.protocol=SASL_SSL\n"
            f"sasl.mechanism={MECHANISM}\n"
            f"sasl.jaas.config={MODULES}.scram.ScramLoginModule required"
            f' username="{USER}" password="{PASSWORD}";\n'
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={authority}\n"
        )
        bootstrap = f"127.0.0.1:{port}"
        for _ in range(WARM_UPS):
            _round_with_java(node, bootstrap, settings, scale.records)
        return _round_with_java(node, bootstrap, settings, scale.records)


def _round_with_java(node: Node, bootstrap: str, settings: Path, count: int) -> Measures:
    topic = topics.create(node, PARTITIONS)
    spent = Spent.now(node.pid)
    produced = java.produce(bootstrap, topic, count, settings)
    produce_cpu, spent = spent.since(), Spent.now(node.pid)
    consumed = java.consume(bootstrap, topic, count, settings)
    consume_cpu = spent.since()
    topics.delete(node, topic)
    return {
        "produce_cpu": produce_cpu,
        "produce_rate": produced,
        "consume_cpu": consume_cpu,
        "consume_rate": consumed,
    }


def _round(node: Node, bootstrap: str, client: dict[str, str], count: int) -> Measures:
    topic = topics.create(node, PARTITIONS)
    payload = Payload(100)
    measures = _produce(node, bootstrap, topic, payload, count, client | DEFAULT_BATCHES)
    with Producer(bootstrap, **client, **LARGE_BATCHES) as producer:
        producer.send(topic, payload, count)
        producer.flush(SECONDS_MAX)
    with Consumer(bootstrap, **client) as consumer:
        spent = Spent.now(node.pid)
        seconds = consumer.read(topic, range(PARTITIONS), 2 * count, SECONDS_MAX)
        measures |= {"consume_cpu": spent.since(), "consume_rate": 2 * count / seconds}
    topics.delete(node, topic)
    return measures


def _produce(
    node: Node,
    bootstrap: str,
    topic: str,
    payload: Payload,
    count: int,
    settings: dict[str, str],
) -> Measures:
    with Producer(bootstrap, **settings) as producer:
        producer.send(topic, payload, PARTITIONS)  # connects, proves who it is, learns who leads
        producer.flush(SECONDS_MAX)
        spent, begin = Spent.now(node.pid), time.monotonic()
        producer.send(topic, payload, count - PARTITIONS)
        producer.flush(SECONDS_MAX)
        used, seconds = spent.since(), time.monotonic() - begin
    return {"produce_cpu": used, "produce_rate": count / seconds}


@contextlib.contextmanager
def _behind_tls(node: Node, protocol: str) -> Iterator[tuple[int, Path]]:
    """A running node with a second listener that encrypts: its port, and whom to trust.

    The first one stays open, for what is not measured.
    """
    authority = Authority.make()
    node.directory.mkdir(parents=True, exist_ok=True)
    keys, trusted = node.directory / "node.p12", node.directory / "authority.pem"
    keys.write_bytes(authority.issue("node", ["localhost", "127.0.0.1"]).pkcs12(PASSWORD))
    trusted.write_text(authority.certificate_pem)
    (port,) = free_ports(1)
    places = f"PLAINTEXT://127.0.0.1:{node.port},{protocol}://127.0.0.1:{port}"
    node.config |= {
        "listeners": f"{places},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": places,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{protocol}:{protocol}"
        ",CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.{protocol.lower()}.{MECHANISM.lower()}.sasl.jaas.config": (
            f"{MODULES}.scram.ScramLoginModule required;"
        ),
    }
    node.start()
    _await_listener(port)
    yield port, trusted


def _await_listener(port: int) -> None:
    """Wait for a listener that opens after the one by which a node is known to have started."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 30).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _create_user(node: Node) -> None:
    made: Any = administration.AdminClient({"bootstrap.servers": node.bootstrap})
    mechanism = administration.ScramMechanism.SCRAM_SHA_256  # type: ignore[attr-defined]
    info = administration.ScramCredentialInfo(mechanism, 4096)  # type: ignore[attr-defined]
    change = administration.UserScramCredentialUpsertion(  # type: ignore[attr-defined]
        USER, info, PASSWORD.encode()
    )
    for done in made.alter_user_scram_credentials([change]).values():
        done.result(SECONDS_MAX)


# -- handshakes -----------------------------------------------------------------------------------


def handshakes(node: Node, scale: Scale) -> Measures:
    """Full TLS handshakes, none of them resumed, a few at a time."""
    count = 1_000 if scale.rounds > 1 else 200
    with _behind_tls(node, "SSL") as (port, authority):
        _knock(port, authority, 2 * count)
        spent, begin = Spent.now(node.pid), time.monotonic()
        _knock(port, authority, count)
        used, seconds = spent.since(), time.monotonic() - begin
    return {"cpu": 1000 * used / count, "core": count / max(used, 1e-9), "rate": count / seconds}


def _knock(port: int, authority: Path, count: int) -> None:
    failures: list[Exception] = []

    def knock() -> None:
        try:
            for _ in range(count // KNOCKERS):
                context = ssl.create_default_context(cafile=str(authority))
                with (
                    socket.create_connection(("127.0.0.1", port), 30) as plain,
                    context.wrap_socket(plain, server_hostname="localhost"),
                ):
                    pass
        except OSError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=knock) for _ in range(KNOCKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise ClientFailed(f"a handshake failed: {failures[0]}")


# -- rights ---------------------------------------------------------------------------------------


def rights(node: Node, scale: Scale) -> Measures:
    """Produce with an authorizer and a thousand ACLs, against the same without, side by side.

    Two nodes of the kind that was given take turns; batches of one record ask most often.
    """
    guarded = _guarded(node)
    with contextlib.ExitStack() as stack:
        for each in (node, guarded):
            each.start()
            stack.callback(each.close)
        _grant(guarded)
        count = max(scale.single_records, SINGLE_RECORDS_MIN)
        pairs = []
        for number in range(WARM_UPS + 2 * scale.rounds):
            # Each is first as often as the other: who is second finds the machine as it was left.
            turns = (node, guarded) if number % 2 else (guarded, node)
            pairs.append({each: _produce_singly(each, count) for each in turns})
    return {
        "ratio": median(pair[guarded] / pair[node] for pair in pairs[WARM_UPS:]),
        "guarded": median(pair[guarded] for pair in pairs[WARM_UPS:]),
    }


def _produce_singly(node: Node, count: int) -> float:
    topic = topics.create(node, PARTITIONS)
    single = {"batch_num_messages": "1", "linger_ms": "0"}
    measures = _produce(node, node.bootstrap, topic, Payload(100), count, single)
    topics.delete(node, topic)
    return measures["produce_cpu"]


def _guarded(node: Node) -> Node:
    """A node like the given one, beside it, that asks everybody for rights.

    Measured clients come in without a login, as to the other; who administers logs in.
    """
    directory = node.directory / "guarded"
    made = (
        ApacheNode(
            directory, config=node.config, heap=apache.HEAP_SHIPPED, options=apache.JVM_OPTIONS
        )
        if isinstance(node, ApacheNode)
        else type(node)(directory, config=node.config)
    )
    (port,) = free_ports(1)
    login = f'{MODULES}.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}" '
    login += f'user_{USER}="{PASSWORD}";'
    places = f"PLAINTEXT://127.0.0.1:{made.port},ADMIN://127.0.0.1:{port}"
    made.config |= {
        "listeners": f"{places},CONTROLLER://127.0.0.1:{made.controller_port}",
        "advertised.listeners": places,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ADMIN:SASL_PLAINTEXT"
        ",CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "ADMIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": login,
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": login,
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{USER}",
    }
    return made


def _grant(node: Node) -> None:
    """What the measured client needs, under a thousand entries of others."""
    places = dict(each.split("://") for each in node.config["advertised.listeners"].split(","))
    client: Any = administration.AdminClient(
        {
            "bootstrap.servers": places["ADMIN"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
    )
    mine = [_entry("bench-", "User:ANONYMOUS", operation) for operation in ("ALL",)]
    others = [
        _entry(f"team-{number % 100}-", f"User:member-{number}", operation)
        for number in range((ENTRIES - len(mine)) // 2)
        for operation in ("READ", "WRITE")
    ]
    everything = [*mine, *others]
    for at in range(0, len(everything), 200):
        for done in client.create_acls(everything[at : at + 200]).values():
            done.result(SECONDS_MAX)
    if len(client.describe_acls(_any_entry()).result(SECONDS_MAX)) < ENTRIES - 1:
        raise ClientFailed(f"{node.name} does not hold {ENTRIES} ACLs")


def _entry(prefix: str, principal: str, operation: str) -> Any:
    a: Any = administration
    return a.AclBinding(
        a.ResourceType.TOPIC,
        prefix,
        a.ResourcePatternType.PREFIXED,
        principal,
        "*",
        a.AclOperation[operation],
        a.AclPermissionType.ALLOW,
    )


def _any_entry() -> Any:
    a: Any = administration
    kinds = (a.ResourceType.ANY, None, a.ResourcePatternType.ANY)
    return a.AclBindingFilter(*kinds, None, None, a.AclOperation.ANY, a.AclPermissionType.ANY)


_TRAFFIC = (
    Criterion("produce_cpu", "broker CPU of producing", "s", Kind.RATIO_MAX, 1 / 2),
    Criterion("produce_rate", "produced", "records/s", Kind.REPORTED, 0),
    Criterion("consume_cpu", "broker CPU of consuming", "s", Kind.RATIO_MAX, 1 / 2),
    Criterion("consume_rate", "consumed", "records/s", Kind.REPORTED, 0),
)
CASES = [
    Case(
        "security-traffic", "100 B over TLS, logged in with SCRAM", secured_traffic,
        _TRAFFIC, own_node=True, warm_ups=0,
    ),
    Case(
        "security-traffic-java", "100 B over TLS with SCRAM, Apache's clients",
        secured_traffic_with_java, _TRAFFIC, own_node=True, warm_ups=0,
    ),
    Case(
        "security-rights", "one record per batch, 1,000 ACLs", rights,
        (Criterion("ratio", "broker CPU, against without an authorizer", "x", Kind.OWN_MAX, 1.05),
         Criterion("guarded", "broker CPU", "s", Kind.RATIO_MAX, 1 / 2)),
        own_node=True, warm_ups=0,
    ),
    Case(
        "security-handshakes", "full TLS handshakes", handshakes,
        (Criterion("cpu", "broker CPU of one", "ms", Kind.REPORTED, 0),
         Criterion("core", "of one core", "handshakes/s", Kind.REPORTED, 0),
         Criterion("rate", "in all", "handshakes/s", Kind.REPORTED, 0)),
        own_node=True, warm_ups=0,
    ),
]  # fmt: skip

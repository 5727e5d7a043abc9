"""Real nodes and clients over TLS: one node, and a cluster in which nobody speaks without it."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.security.authority import Authority, Issued, write_private
from penstock.testing.broker import Broker
from penstock.testing.cluster import Cluster

pytestmark = pytest.mark.penstock_only

HOSTS = ["localhost", "127.0.0.1"]
PASSWORD = "a long secret"


class Office:
    """An authority and the files that it wrote."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority.make()
        self.trust = self._write("trust.pem", self.authority.certificate_pem)
        self.alice = self._write("alice.pem", self.authority.issue("alice").pem(PASSWORD))

    def _write(self, name: str, content: str | bytes) -> str:
        path = str(self.directory / name)
        write_private(path, content)
        return path

    def pem(self, name: str, issued: Issued | None = None) -> dict[str, str]:
        """A keystore, as settings of a node."""
        issued = issued or self.authority.issue(name, HOSTS)
        path = self._write(f"{name}.pem", issued.pem(PASSWORD))
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": path,
            "ssl.key.password": PASSWORD,
        }

    def pkcs12(self, name: str) -> dict[str, str]:
        """The same as PKCS12."""
        packed = self.authority.issue(name, HOSTS).pkcs12(PASSWORD)
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": self._write(f"{name}.p12", packed),
            "ssl.keystore.password": PASSWORD,
        }

    @property
    def mutual(self) -> dict[str, str]:
        """Whom nodes believe, and that they ask."""
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trust,
            "ssl.client.auth": "required",
        }

    def client(self, servers: str) -> dict[str, Any]:
        """What alice sets in her clients."""
        return {
            "bootstrap.servers": servers,
            "security.protocol": "ssl",
            "ssl.ca.location": self.trust,
            "ssl.certificate.location": self.alice,
            "ssl.key.location": self.alice,
            "ssl.key.password": PASSWORD,
            "log_level": 0,
        }


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(tmp_path_factory.mktemp("office"))


@pytest.fixture(scope="module")
def broker(office: Office) -> Iterator[Broker]:
    with Broker({**office.pem("node"), **office.mutual}, protocol="SSL") as made:
        yield made


def send(producer: Producer, topic: str, values: list[bytes]) -> None:
    """Send, and see that all were taken."""
    failed: list[KafkaError] = []

    def told(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=told)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failed


def read(client: dict[str, Any], topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({**client, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    give_up = time.monotonic() + 60
    try:
        while len(found) < count and time.monotonic() < give_up:
            found += [each.value() for each in consumer.consume(count, 0.2) if not each.error()]
    finally:
        consumer.close()
    return found


def until(condition: Callable[[], object], what: str, seconds_max: float = 20) -> None:
    give_up = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < give_up, f"never happened: {what}"
        time.sleep(0.05)


def s_client(broker: Broker, *options: str) -> str:
    """What OpenSSL's own client says when it connects."""
    command = ["openssl", "s_client", "-connect", broker.bootstrap_servers, "-brief", *options]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=20, check=False)
    return (done.stdout + done.stderr).decode()


# -- one node -------------------------------------------------------------------------------------


def test_large_and_small_records_come_back_as_they_were_sent(
    broker: Broker, office: Office
) -> None:
    client = office.client(broker.bootstrap_servers)
    values = [os.urandom(900_000) for _ in range(20)] + [b"%d" % each for each in range(2000)]
    topic = f"t-{uuid.uuid4().hex}"
    send(Producer({**client, "linger.ms": 5}), topic, values)
    assert read({**client, "fetch.max.bytes": 20_000_000}, topic, len(values)) == values


def test_a_client_without_a_certificate_hears_why(broker: Broker, office: Office) -> None:
    problems: list[str] = []
    client = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "ssl",
        "ssl.ca.location": office.trust,
        "error_cb": lambda error: problems.append(str(error)),
        "log_level": 0,
    }
    producer = Producer(client)
    until(lambda: producer.poll(0.1) or problems, "an error")
    assert "certificate required" in problems[0]
    until(lambda: "peer did not return a certificate" in broker.log, "a line of the audit log")


def test_versions_that_can_no_longer_be_trusted_are_not_spoken(
    broker: Broker, office: Office
) -> None:
    files = ("-CAfile", office.trust, "-cert", office.alice, "-key", office.alice)
    trust = (*files, "-pass", f"pass:{PASSWORD}")
    for version, name in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
        told = s_client(broker, version, *trust)
        assert f"Protocol version: {name}" in told
        assert "Verification: OK" in told
    weak = ("-tls1_1", "-cipher", "ALL:@SECLEVEL=0")  # else the client itself would refuse
    assert "CONNECTION ESTABLISHED" not in s_client(broker, *weak, *trust)


def test_those_who_speak_without_tls_are_closed_at_once(broker: Broker) -> None:
    with socket.create_connection((broker.host, broker.port), timeout=2) as client:
        client.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\0\0")  # ApiVersions
        while client.recv(100):
            pass
    until(lambda: "speaks without TLS" in broker.log, "a line of the audit log")


def test_keys_are_renewed_under_the_eyes_of_clients(office: Office) -> None:
    keys = office.pem("renewing")
    settings = {**keys, **office.mutual}
    with Broker(settings, protocol="SSL") as broker:
        client = office.client(broker.bootstrap_servers)
        old = Producer(client)
        send(old, "t", [b"1"])
        before = shown(broker, office)
        write_private(keys["ssl.keystore.location"], "nonsense")
        until(lambda: "the old ones stay" in broker.log, "a word about the broken file")
        assert shown(broker, office) == before
        office.pem("renewing")
        until(lambda: shown(broker, office) != before, "the new certificate")
        send(old, "t", [b"2"])  # over the connection that was there
        send(Producer(client), "t", [b"3"])
        assert read(client, "t", 3) == [b"1", b"2", b"3"]


def shown(broker: Broker, office: Office) -> bytes | None:
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=office.trust)
    context.load_cert_chain(office.alice, password=PASSWORD)
    with (
        socket.create_connection((broker.host, broker.port), timeout=5) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as client,
    ):
        return client.getpeercert(binary_form=True)


# -- a cluster ------------------------------------------------------------------------------------


def test_a_cluster_that_speaks_nothing_but_mutual_tls_survives_a_crash(office: Office) -> None:
    configs = {
        1: office.pkcs12("node-1"),
        2: office.pem("node-2"),
        3: office.pkcs12("node-3"),
    }
    settings = {
        **office.mutual,
        "broker.session.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "200",
        "replica.fetch.wait.max.ms": "200",
        "min.insync.replicas": "2",
    }
    with Cluster(
        3, config=settings, configs=configs, protocol="SSL", controller_protocol="SSL"
    ) as cluster:
        client = office.client(cluster.bootstrap_servers)
        admin = AdminClient(client)
        admin.create_topics([NewTopic("t", 1, 3)])["t"].result(30)
        producer = Producer({**client, "acks": "all"})
        before = [b"before %d" % each for each in range(500)]
        send(producer, "t", before)
        leader = admin.list_topics("t").topics["t"].partitions[0].leader
        cluster.node(leader).kill()
        after = [b"after %d" % each for each in range(500)]
        send(producer, "t", after)
        cluster.node(leader).start()
        assert read(client, "t", 1000) == before + after
        told = "".join(node.log for node in cluster.nodes.values())
        for name in ("node-1", "node-2", "node-3", "alice"):
            assert f'"principal": "User:CN={name}"' in told
        assert "login failed" not in told

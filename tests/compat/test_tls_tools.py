"""Apache's tools over mutual TLS: with PKCS12 and with PEM, and a keystore that Java made."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from penstock.security.authority import Authority, write_private
from penstock.security.stores import Store, read_keys
from penstock.testing.broker import Broker
from tests.oracle.tools import Tools

pytestmark = [pytest.mark.java, pytest.mark.penstock_only]

PASSWORD = "a-long-secret"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What nodes and clients have; the node's own key is Java's, certified by itself."""
    directory = tmp_path_factory.mktemp("keys")
    node = Store("keystore", location=str(directory / "node.p12"), password=PASSWORD)
    command = ["keytool", "-genkeypair", "-alias", "node", "-keyalg", "RSA"]
    command += ["-keystore", str(node.location), "-storepass", PASSWORD, "-storetype", "PKCS12"]
    command += ["-dname", "CN=node-1, O=Example", "-ext", "SAN=dns:localhost,ip:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    certificate = read_keys(node).chain
    (directory / "node.pem").write_bytes(certificate)
    entry = pkcs12.PKCS12Certificate(load_pem_x509_certificate(certificate), b"node")
    packed = pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(PASSWORD.encode()))
    (directory / "nodes.p12").write_bytes(packed)
    authority = Authority.make()
    alice = authority.issue("alice", unit="Data")
    write_private(str(directory / "alice.p12"), alice.pkcs12(PASSWORD))
    write_private(str(directory / "alice.pem"), alice.pem())
    (directory / "trusted.pem").write_text(authority.certificate_pem + certificate.decode())
    return directory


@pytest.fixture(scope="module")
def broker(files: Path) -> Iterator[Broker]:
    settings = {
        "ssl.keystore.location": str(files / "node.p12"),  # of the kind that nobody said
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files / "trusted.pem"),
        "ssl.client.auth": "required",
    }
    with Broker(settings, protocol="SSL") as made:
        yield made


def client_file(files: Path, kind: str) -> str:
    """The settings of a client of Java's."""
    keys, trust = ("alice.p12", "nodes.p12") if kind == "PKCS12" else ("alice.pem", "node.pem")
    lines = [
        "security.protocol=SSL",
        f"ssl.keystore.type={kind}",
        f"ssl.keystore.location={files / keys}",
        f"ssl.truststore.type={kind}",
        f"ssl.truststore.location={files / trust}",
    ]
    if kind == "PKCS12":
        lines += [f"ssl.{store}.password={PASSWORD}" for store in ("keystore", "truststore")]
    path = files / f"{kind}.properties"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.parametrize("kind", ["PKCS12", "PEM"])
def test_topics_are_made_and_found(tools: Tools, broker: Broker, files: Path, kind: str) -> None:
    server = ("--bootstrap-server", broker.bootstrap_servers)
    common = (*server, "--command-config", client_file(files, kind))
    name = f"made-with-{kind.lower()}"
    tools.check("TopicCommand", *common, "--create", "--topic", name)
    assert name in tools.check("TopicCommand", *common, "--list").split()
    assert '"principal": "User:CN=alice,OU=Data"' in broker.log


def test_records_go_there_and_back(tools: Tools, broker: Broker, files: Path) -> None:
    server = ("--bootstrap-server", broker.bootstrap_servers)
    settings = client_file(files, "PKCS12")
    tools.check(
        "ProducerPerformance",
        *("--topic", "t", "--num-records", "2000", "--record-size", "1000", "--throughput", "-1"),
        *("--command-config", settings, *server),
    )
    told = tools.check(
        "ConsumerPerformance",
        *("--topic", "t", "--num-records", "2000", "--timeout", "20000"),
        *("--command-config", settings, *server),
    )
    assert "2000" in told.replace(",", " ").split()

"""`penstock user`, `acl`, `quota`, `token` and `profile`, against a node that asks for proof."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.security.authority import Authority, write_private
from penstock.security.jaas import OAUTH_MODULE, PLAIN_MODULE
from penstock.testing.broker import Broker
from tests.oracle.tools import Tools
from tests.unit.cli.runner import Penstock
from tests.unit.security.signing import AUDIENCE, ISSUER, Issuer

READY = "penstock is ready on "
UNREACHABLE, USAGE = 3, 2

pytestmark = pytest.mark.penstock_only


class Node:
    """A node of `penstock up --secure`."""

    def __init__(self, data: Path, *words: str) -> None:
        self.data = data
        command = [sys.executable, "-m", "penstock", "up", "--secure", "--data", str(data), *words]
        with open(data.with_suffix(".log"), "w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), data.with_suffix(".log").read_text()
        self.bootstrap = line.removeprefix(READY).strip()

    @property
    def admin(self) -> Path:
        return self.data / "admin.properties"

    @property
    def log(self) -> str:
        return self.data.with_suffix(".log").read_text()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    data = tmp_path_factory.mktemp("secure") / "data"
    running = Node(data, "--port", "0", "-c", "delegation.token.secret.key=only for tests")
    yield running
    running.process.terminate()
    running.process.wait(60)


@pytest.fixture
def penstock(node: Node, tmp_path: Path) -> Penstock:
    """The commands of the admin."""
    made = Penstock(tmp_path)
    made.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    made.environment["PENSTOCK_COMMAND_CONFIG"] = str(node.admin)
    return made


class User:
    """Somebody who may do nothing yet, and their commands."""

    def __init__(self, admin: Penstock, name: str) -> None:
        self.name = name
        self.password = admin.out("user", "create", name, "--generate").strip()
        self.commands = Penstock(admin.directory)
        self.commands.environment |= admin.environment
        file = admin.directory / f"{name}.properties"
        written = Path(admin.environment["PENSTOCK_COMMAND_CONFIG"]).read_text().splitlines()
        lines = [line for line in written if not line.startswith("sasl.jaas.config")]
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        login = f'{module} required username="{name}" password="{self.password}";'
        file.write_text("\n".join([*lines, f"sasl.jaas.config={login}", ""]))
        self.commands.environment["PENSTOCK_COMMAND_CONFIG"] = str(file)


@pytest.fixture
def alice(penstock: Penstock, topic: str) -> User:
    return User(penstock, f"alice-{topic}")


def test_users_are_created_listed_given_passwords_and_deleted(penstock: Penstock) -> None:
    made = penstock("user", "create", "bob", "-m", "scram-sha-256", stdin="geheim\n")
    assert (made.returncode, made.stdout) == (0, "")
    assert "geheim" not in made.stderr
    again = penstock("user", "create", "bob", stdin="geheim\n")
    assert again.returncode == 1 and "is there already" in again.stderr

    both = ("-m", "scram-sha-256", "-m", "scram-sha-512", "--iterations", "4096")
    word = penstock.out("user", "password", "bob", "--generate", *both).strip()
    assert len(word) == 32
    (listed,) = json.loads(penstock.out("user", "list", "bob", "-o", "json"))
    assert listed["mechanisms"] == [
        {"mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert "admin" in penstock.out("user", "list", "-q").split()

    unasked = penstock("user", "delete", "bob")
    assert unasked.returncode == USAGE and "--yes" in unasked.stderr
    penstock.out("user", "delete", "bob", "--dry-run")
    assert "bob" in penstock.out("user", "list", "-q").split()
    penstock.out("user", "delete", "bob", "--yes")
    assert "bob" not in penstock.out("user", "list", "-q").split()
    assert penstock("user", "delete", "bob", "--yes").returncode == USAGE
    penstock.out("user", "delete", "bob", "--yes", "--if-exists")


def test_a_user_may_do_what_was_granted_and_no_more(
    penstock: Penstock, alice: User, topic: str
) -> None:
    penstock.out("topic", "create", topic)
    denied = alice.commands("produce", topic, stdin="too early\n")
    assert denied.returncode == 1 and "TOPIC_AUTHORIZATION_FAILED" in denied.stderr

    who = ("--user", alice.name)
    shown = penstock("acl", "add", *who, "--producer", "--topic", topic, "--dry-run")
    assert "3 right(s) would be added" in shown.stderr
    assert json.loads(penstock.out("acl", "list", *who, "-o", "json")) == []
    penstock.out("acl", "add", *who, "--producer", "--topic", topic)
    alice.commands.out("produce", topic, stdin="from alice\n")
    assert alice.commands("consume", topic).returncode == 1

    # Reading needs no group where none is joined.
    penstock.out("acl", "add", *who, "--allow", "read", "--topic", f"{topic[:6]}*", "--prefixed")
    assert alice.commands.out("consume", topic) == "from alice\n"
    applying = json.loads(penstock.out("acl", "list", "--topic", topic, "-o", "json"))
    assert {each["pattern"] for each in applying} == {"literal", "prefixed"}

    again = penstock("acl", "add", *who, "--producer", "--topic", topic)
    assert "0 right(s) were added, 3 were there already" in again.stderr
    penstock.out("acl", "add", *who, "--deny", "write", "--topic", topic)
    assert alice.commands("produce", topic, stdin="no\n").returncode == 1

    removed = penstock("acl", "remove", *who, "--yes")
    assert "5 right(s) were removed" in removed.stderr
    assert penstock("acl", "remove").returncode == USAGE
    assert "denied" in _audit(penstock)


def _audit(penstock: Penstock) -> str:
    admin = Path(penstock.environment["PENSTOCK_COMMAND_CONFIG"])
    return admin.parent.with_suffix(".log").read_text()


def test_whoever_is_not_let_in_hears_why_at_once(penstock: Penstock, alice: User) -> None:
    wrong = ("-X", "sasl.password=wrong")
    for words in (("topic", "list"), ("group", "list")):
        ran = alice.commands(*words, *wrong)
        assert "does not let" in ran.stderr and "wrong credentials" in ran.stderr
        assert alice.password not in ran.stderr
    ran = penstock("group", "list", "-X", "sasl.mechanism=PLAIN")
    assert "it takes SCRAM-SHA-512" in ran.stderr
    ran = penstock("topic", "list", "-X", "ssl.ca.location=/etc/ssl/certs/ca-certificates.crt")
    assert ran.returncode != 0


def test_rights_are_not_for_those_who_have_none(alice: User) -> None:
    for words in (
        ("user", "list"),
        ("acl", "list"),
        ("quota", "list"),
        ("acl", "add", "--user", alice.name, "--allow", "all", "--cluster"),
        ("quota", "set", "--user", alice.name, "--produce", "1GB/s"),
    ):
        ran = alice.commands(*words)
        assert ran.returncode == 1, words
        assert "CLUSTER_AUTHORIZATION_FAILED" in ran.stderr, words


def test_quotas_are_set_listed_and_removed(penstock: Penstock, topic: str) -> None:
    entity = ("--user", topic, "--client", "app")
    penstock.out("quota", "set", *entity, "--produce", "10MB/s", "--request", "50%")
    shown = penstock.out("quota", "list", "--user", topic)
    assert "10 MB/s" in shown and "50%" in shown
    (listed,) = json.loads(penstock.out("quota", "list", "--user", topic, "-o", "json"))
    assert listed == {
        "entity": {"user": topic, "client-id": "app"},
        "quotas": {"producer_byte_rate": 10_000_000.0, "request_percentage": 50.0},
    }
    penstock.out("quota", "remove", *entity, "--only", "produce", "--yes")
    penstock.out("quota", "remove", *entity, "--yes", "--dry-run")
    (listed,) = json.loads(penstock.out("quota", "list", *entity, "-o", "json"))
    assert list(listed["quotas"]) == ["request_percentage"]
    penstock.out("quota", "remove", *entity, "--yes")
    assert penstock("quota", "remove", *entity, "--yes").returncode == 1
    refused = penstock("quota", "set", "--user", topic, "--connections", "5/s")
    assert refused.returncode == 1 and "INVALID_REQUEST" in refused.stderr


def test_a_token_stands_for_its_owner_until_it_is_expired(
    penstock: Penstock, alice: User, topic: str
) -> None:
    penstock.out("topic", "create", topic)
    penstock.out("acl", "add", "--user", alice.name, "--allow", "describe", "--group", "*")
    made = json.loads(alice.commands.out("token", "create", "--max-life", "1d", "-o", "json"))
    assert made["owner"] == f"User:{alice.name}"

    token = ("-X", f"sasl.username={made['id']}", "-X", f"sasl.password={made['hmac']}")
    bearer = (*token, "-X", "sasl.tokenauth=true")
    alice.commands.out("group", "list", *bearer)
    begets = alice.commands("token", "create", *bearer)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in begets.stderr
    assert "cannot log in with a delegation token" in (
        alice.commands("topic", "list", *bearer).stderr
    )

    listed = alice.commands.out("token", "list")
    assert made["id"] in listed and made["hmac"] not in listed
    alice.commands.out("token", "renew", made["id"], "--for", "1h")
    assert alice.commands("token", "expire", made["id"]).returncode == USAGE
    alice.commands.out("token", "expire", made["id"], "--yes")
    assert made["id"] not in alice.commands.out("token", "list")
    assert "does not let" in alice.commands("group", "list", *bearer).stderr


def test_a_profile_keeps_the_cluster_and_its_guard(penstock: Penstock, node: Node) -> None:
    del penstock.environment["PENSTOCK_COMMAND_CONFIG"]
    penstock.out("profile", "add", "look", "--command-config", str(node.admin), "--readonly")
    penstock.out("profile", "use", "look")
    assert penstock.out("user", "list", "-q")
    refused = penstock("topic", "create", "t")
    assert refused.returncode == USAGE and "profile look is readonly" in refused.stderr
    penstock.out("topic", "create", "t", "--dry-run")
    assert node.bootstrap in penstock.out("profile", "list")


def test_certificates_let_in_both_kinds_of_commands(tmp_path: Path) -> None:
    """librdkafka's commands and our own, with PEM, PKCS12 and keys that are written out."""
    authority = Authority.make()
    write_private(str(tmp_path / "node.pem"), authority.issue("node", ["127.0.0.1"]).pem())
    write_private(str(tmp_path / "ca.pem"), authority.certificate_pem)
    alice = authority.issue("alice")
    write_private(str(tmp_path / "alice.pem"), alice.pem("geheim"))
    write_private(str(tmp_path / "alice.p12"), alice.pkcs12("geheim"))
    write_private(str(tmp_path / "trust.p12"), authority.truststore("geheim"))
    config = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.auth": "required",
    }
    pem = alice.key_pem().replace("\n", "\\n"), alice.chain_pem.replace("\n", "\\n")
    files = {
        "pem": f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/alice.pem\n"
        f"ssl.key.password=geheim\nssl.truststore.location={tmp_path}/ca.pem\n",
        "pkcs12": f"ssl.keystore.type=PKCS12\nssl.keystore.location={tmp_path}/alice.p12\n"
        f"ssl.keystore.password=geheim\nssl.truststore.type=PKCS12\n"
        f"ssl.truststore.location={tmp_path}/trust.p12\nssl.truststore.password=geheim\n",
        "inline": f"ssl.keystore.type=PEM\nssl.keystore.key={pem[0]}\n"
        f"ssl.keystore.certificate.chain={pem[1]}\nssl.truststore.location={tmp_path}/ca.pem\n",
    }
    with Broker(config, protocol="SSL") as broker:
        penstock = Penstock(tmp_path, broker.bootstrap_servers)
        for name, text in files.items():
            file = tmp_path / f"{name}.properties"
            file.write_text(f"security.protocol=SSL\n{text}")
            for words in (("topic", "list"), ("group", "list")):
                penstock.out(*words, "--command-config", str(file))
        bare = ("-X", "security.protocol=ssl", "-X", f"ssl.ca.location={tmp_path}/ca.pem")
        for words in (("topic", "list"), ("group", "list")):
            assert penstock(*words, *bare, "--wait", "3").returncode != 0


def test_plain_and_bearer_tokens_let_in_both_kinds_of_commands(tmp_path: Path) -> None:
    hashed = Penstock(tmp_path).out("user", "hash", stdin="geheim\n").strip()
    signer, keys, token = Issuer(), tmp_path / "keys.json", tmp_path / "token"
    keys.write_bytes(signer.key_set)
    now = int(time.time())
    token.write_text(signer.sign({"sub": "alice", "iat": now, "exp": now + 600}))
    config = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{hashed}";',
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    endpoint = f"sasl.oauthbearer.token.endpoint.url=file://{token}"
    files = {
        "plain": "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="alice" password="geheim";\n',
        "bearer": f"sasl.mechanism=OAUTHBEARER\n{endpoint}\n"
        f"sasl.jaas.config={OAUTH_MODULE} required;\n",
    }
    with Broker(config, protocol="SASL_PLAINTEXT") as broker:
        penstock = Penstock(tmp_path, broker.bootstrap_servers)
        for name, text in files.items():
            file = tmp_path / f"{name}.properties"
            file.write_text(f"security.protocol=SASL_PLAINTEXT\n{text}")
            for words in (("topic", "list"), ("group", "list")):
                penstock.out(*words, "--command-config", str(file))
        token.write_text(Issuer().sign({"sub": "alice", "iat": now, "exp": now + 600}))
        forged = penstock("group", "list", "--command-config", str(tmp_path / "bearer.properties"))
        assert forged.returncode == 1 and "does not let us in" in forged.stderr


@pytest.mark.java
def test_kafkas_own_tools_take_the_same_file(node: Node, tools: Tools, topic: str) -> None:
    where = ("--bootstrap-server", node.bootstrap, "--command-config", str(node.admin))
    tools.check("TopicCommand", *where, "--create", "--topic", topic)
    rights = ("--add", "--allow-principal", "User:carol", "--producer", "--topic", topic)
    tools.check("AclCommand", *where, *rights)
    listed = tools.check("AclCommand", *where, "--list", "--topic", topic)
    assert "User:carol" in listed
    user = ("--entity-type", "users", "--entity-name", f"u-{topic}")
    change = ("--alter", "--add-config", "SCRAM-SHA-512=[password=geheim]")
    tools.check("kafka.admin.ConfigCommand", *where, *user, *change)
    assert "SCRAM-SHA-512" in tools.check("kafka.admin.ConfigCommand", *where, *user, "--describe")
    sends = ("--num-records", "10", "--record-size", "10", "--throughput", "-1")
    tools.check("ProducerPerformance", *where, "--topic", topic, *sends)

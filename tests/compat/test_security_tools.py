"""Apache's tools for rights, users, quotas and tokens, as platform teams type them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.oracle.nodes import Node, format_penstock
from tests.oracle.tools import ToolResult, Tools

pytestmark = pytest.mark.java

CONFIG = "kafka.admin.ConfigCommand"
LISTENER = "SASL_PLAINTEXT"
MODULES = "org.apache.kafka.common.security"
SECRET = "admin-secret"


def guard(node: Node) -> None:
    """Ask everybody for a password, and whether they may."""
    prefix = f"listener.name.{LISTENER.lower()}"
    scram = f"{MODULES}.scram.ScramLoginModule required;"
    node.config |= {
        "listeners": f"{LISTENER}://127.0.0.1:{node.port}"
        f",CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": f"{LISTENER}://127.0.0.1:{node.port}",
        "listener.security.protocol.map": f"{LISTENER}:{LISTENER},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": LISTENER,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{prefix}.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required "
        f'username="admin" password="{SECRET}" user_admin="{SECRET}" user_ann="ann-secret";',
        f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
        f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "delegation.token.secret.key": "the key of all nodes",
    }


class Shell:
    """The tools, pointed at a node, in the name of somebody."""

    def __init__(self, tools: Tools, node: Node, folder: Path) -> None:
        self._tools = tools
        self._folder = folder
        self.bootstrap = node.bootstrap
        self.controllers = f"127.0.0.1:{node.controller_port}"
        self.admin = self.plain("admin", SECRET)

    def plain(self, user: str, password: str) -> Path:
        return self._file("PLAIN", f'{MODULES}.plain.PlainLoginModule required username="{user}" '
                          f'password="{password}";')  # fmt: skip

    def scram(self, user: str, password: str, mechanism: str, extra: str = "") -> Path:
        return self._file(mechanism, f"{MODULES}.scram.ScramLoginModule required "
                          f'username="{user}" password="{password}" {extra};')  # fmt: skip

    def _file(self, mechanism: str, jaas: str) -> Path:
        path = self._folder / f"{len(list(self._folder.iterdir()))}.properties"
        path.write_text(
            f"security.protocol={LISTENER}\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
        )
        return path

    def attempt(self, name: str, *arguments: str, who: Path | None = None) -> ToolResult:
        where = ("--bootstrap-server", self.bootstrap, "--command-config", str(who or self.admin))
        return self._tools.run(name, *where, *arguments)

    def __call__(self, name: str, *arguments: str, who: Path | None = None) -> str:
        result = self.attempt(name, *arguments, who=who)
        assert result.status == 0, f"{name} {arguments}:\n{result.out}{result.err}"
        assert "Exception" not in result.out + result.err, result.out + result.err
        return result.out

    def of_controllers(self, name: str, *arguments: str) -> str:
        """Through the listener of the controllers, which asks for no password here."""
        return self._tools.check(name, "--bootstrap-controller", self.controllers, *arguments)

    def config(self, *arguments: str) -> str:
        return self(CONFIG, *arguments)


@pytest.fixture(scope="module")
def shell(
    target: type[Node], tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("guarded")
    node = target(folder / "node")
    guard(node)
    clients = folder / "clients"
    clients.mkdir()
    with node:
        yield Shell(tools, node, clients)


# -- ACLs -----------------------------------------------------------------------------------------

ENTRY = re.compile(r"\(principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)")


def entries(text: str) -> set[tuple[str, ...]]:
    """(principal, host, operation, permission) of all that a tool lists."""
    return {found.groups() for found in ENTRY.finditer(text)}


def test_acls_are_added_listed_and_removed(shell: Shell, topic: str) -> None:
    shell("AclCommand", "--add", "--allow-principal", "User:bob", "--operation", "Read",
          "--operation", "Describe", "--topic", topic)  # fmt: skip
    shell("AclCommand", "--add", "--deny-principal", "User:bob", "--deny-host", "10.1.2.3",
          "--operation", "Read", "--topic", topic)  # fmt: skip
    everywhere = {("User:bob", "*", "READ", "ALLOW"), ("User:bob", "*", "DESCRIBE", "ALLOW")}
    denied = {("User:bob", "10.1.2.3", "READ", "DENY")}
    listed = shell("AclCommand", "--list", "--topic", topic)
    assert f"resourceType=TOPIC, name={topic}, patternType=LITERAL" in listed
    assert entries(listed) == everywhere | denied
    shell("AclCommand", "--remove", "--force", "--allow-principal", "User:bob",
          "--operation", "Read", "--topic", topic)  # fmt: skip
    left = {("User:bob", "*", "DESCRIBE", "ALLOW")} | denied
    assert entries(shell("AclCommand", "--list", "--topic", topic)) == left
    shell("AclCommand", "--remove", "--force", "--topic", topic)
    assert not entries(shell("AclCommand", "--list", "--topic", topic))


def test_what_applies_to_a_name_is_found_by_it(shell: Shell, topic: str) -> None:
    prefix = ("--resource-pattern-type", "prefixed")
    shell("AclCommand", "--add", "--allow-principal", "User:eve", "--consumer", "--topic",
          topic[:8], "--group", topic[:8], *prefix)  # fmt: skip
    match = ("--resource-pattern-type", "match")
    listed = shell("AclCommand", "--list", "--topic", topic, *match)
    assert f"name={topic[:8]}, patternType=PREFIXED" in listed
    assert entries(listed) == {
        ("User:eve", "*", "READ", "ALLOW"),
        ("User:eve", "*", "DESCRIBE", "ALLOW"),
    }
    assert not entries(shell("AclCommand", "--list", "--topic", topic))
    listed = shell("AclCommand", "--list", "--principal", "User:eve")
    assert "resourceType=GROUP" in listed and "resourceType=TOPIC" in listed
    both = ("--topic", topic, "--group", topic)
    shell("AclCommand", "--remove", "--force", "--allow-principal", "User:eve", "--consumer",
          *both, *match)  # fmt: skip
    assert not entries(shell("AclCommand", "--list", "--principal", "User:eve"))


def test_who_has_no_right_to_see_or_change_rights_does_neither(shell: Shell) -> None:
    ann = shell.plain("ann", "ann-secret")
    for words in (
        ("--list",),
        ("--add", "--allow-principal", "User:ann", "--operation", "All", "--cluster"),
        ("--remove", "--force", "--cluster"),
    ):
        refused = shell.attempt("AclCommand", *words, who=ann)
        assert "ClusterAuthorizationException" in refused.out + refused.err, words


def test_controllers_are_asked_about_rights_themselves(shell: Shell, topic: str) -> None:
    shell.of_controllers("AclCommand", "--add", "--allow-principal", "User:bob", "--operation",
                         "Write", "--topic", topic)  # fmt: skip
    given = {("User:bob", "*", "WRITE", "ALLOW")}
    assert entries(shell.of_controllers("AclCommand", "--list", "--topic", topic)) == given
    assert entries(shell("AclCommand", "--list", "--topic", topic)) == given
    shell.of_controllers("AclCommand", "--remove", "--force", "--topic", topic)
    assert not entries(shell.of_controllers("AclCommand", "--list", "--topic", topic))


# -- users ----------------------------------------------------------------------------------------


def client(shell: Shell, mechanism: str, user: str, password: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": shell.bootstrap,
            "security.protocol": LISTENER,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }
    )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_come_log_in_and_go(shell: Shell, topic: str, mechanism: str) -> None:
    user = f"user-{topic}"
    who = ("--entity-type", "users", "--entity-name", user)
    told = shell.config("--alter", *who, "--add-config", f"{mechanism}=[password=first]")
    assert f"Completed updating config for user {user}." in told
    described = shell.config("--describe", *who)
    assert f"SCRAM credential configs for user-principal '{user}' are {mechanism}=" in described
    assert "iterations=4096" in described
    assert client(shell, mechanism, user, "first").list_topics(timeout=10).brokers
    shell.config("--alter", *who, "--add-config", f"{mechanism}=[iterations=8192,password=second]")
    assert "iterations=8192" in shell.config("--describe", *who)
    assert client(shell, mechanism, user, "second").list_topics(timeout=10).brokers
    with pytest.raises(KafkaException):
        client(shell, mechanism, user, "first").list_topics(timeout=1)
    assert user in shell.config("--describe", "--entity-type", "users")
    shell.config("--alter", *who, "--delete-config", mechanism)
    assert user not in shell.config("--describe", "--entity-type", "users")
    gone = shell.attempt(CONFIG, "--alter", *who, "--delete-config", mechanism)
    assert gone.status != 0 or "ResourceNotFoundException" in gone.out + gone.err


@pytest.mark.penstock_only
def test_the_first_user_is_there_before_anybody_could_add_one(
    make_node: Callable[..., Node], tools: Tools, tmp_path: Path
) -> None:
    node = make_node("first")
    guard(node)
    node.config |= {"super.users": "User:first"}
    node.directory.mkdir()
    node.write_properties()
    word = "SCRAM-SHA-512=[name=first,password=hunter2]"
    format_penstock(node.properties_path, node.cluster_id, "--add-scram", word)
    node.start()
    clients = tmp_path / "clients"
    clients.mkdir()
    shell = Shell(tools, node, clients)
    first = shell.scram("first", "hunter2", "SCRAM-SHA-512")
    shell("AclCommand", "--list", who=first)
    shell(CONFIG, "--alter", "--entity-type", "users", "--entity-name", "second",
          "--add-config", "SCRAM-SHA-256=[password=pencil]", who=first)  # fmt: skip
    assert client(shell, "SCRAM-SHA-256", "second", "pencil").list_topics(timeout=10).brokers
    for place in [node.directory / "output.log", *node.data.rglob("*")]:
        if place.is_file():
            assert b"hunter2" not in place.read_bytes(), place


def test_a_user_sees_what_acls_give_and_no_more(shell: Shell, topic: str) -> None:
    user = f"user-{topic}"
    shell.config("--alter", "--entity-type", "users", "--entity-name", user,
                 "--add-config", "SCRAM-SHA-512=[password=secret]")  # fmt: skip
    for name in (topic, f"{topic}-other"):
        shell("TopicCommand", "--create", "--topic", name)
    bob = shell.scram(user, "secret", "SCRAM-SHA-512")
    assert topic not in shell("TopicCommand", "--list", who=bob)
    grant = ("--allow-principal", f"User:{user}", "--operation", "Read", "--topic", topic)
    shell("AclCommand", "--add", *grant)
    assert shell("TopicCommand", "--list", who=bob).split() == [topic]
    shell("AclCommand", "--remove", "--force", *grant)
    assert topic not in shell("TopicCommand", "--list", who=bob)


# -- quotas ---------------------------------------------------------------------------------------


def test_quotas_of_users_clients_and_addresses_are_set_described_and_taken_away(
    shell: Shell, topic: str
) -> None:
    user, client_id = f"user-{topic}", f"client-{topic}"
    of_user = ("--entity-type", "users", "--entity-name", user)
    of_both = (*of_user, "--entity-type", "clients", "--entity-name", client_id)
    default = ("--entity-type", "users", "--entity-name", user, "--entity-type", "clients",
               "--entity-default")  # fmt: skip
    address = ("--entity-type", "ips", "--entity-name", "10.9.8.7")
    for entity, quota in (
        (of_user, "producer_byte_rate=1024"),
        (of_both, "consumer_byte_rate=2048,request_percentage=150"),
        (default, "controller_mutation_rate=10"),
        (address, "connection_creation_rate=5"),
    ):
        shell.config("--alter", *entity, "--add-config", quota)
    assert re.search(
        f"Quota configs for user-principal '{user}' are producer_byte_rate=1024.0",
        shell.config("--describe", *of_user),
    )
    both = shell.config("--describe", *of_both)
    assert f"user-principal '{user}', client-id '{client_id}'" in both
    assert "consumer_byte_rate=2048.0" in both and "request_percentage=150.0" in both
    assert "controller_mutation_rate=10.0" in shell.config("--describe", *default)
    assert "connection_creation_rate=5.0" in shell.config("--describe", *address)
    every = shell.config("--describe", "--entity-type", "users", "--entity-type", "clients")
    assert f"client-id '{client_id}'" in every
    shell.config("--alter", *of_user, "--delete-config", "producer_byte_rate")
    assert "producer_byte_rate" not in shell.config("--describe", *of_user)
    wrong = shell.attempt(CONFIG, "--alter", *address, "--add-config", "producer_byte_rate=1")
    assert wrong.status != 0 or "Exception" in wrong.out + wrong.err


# -- delegation tokens ----------------------------------------------------------------------------

TOKENS = "DelegationTokenCommand"
SEEN_SECONDS_MAX = 10.0


def rows(text: str) -> list[list[str]]:
    """The cells of the table that the tool prints, without its head."""
    lines = [line.split() for line in text.splitlines()]
    at = next(number for number, line in enumerate(lines) if line[:1] == ["TOKENID"])
    return [line for line in lines[at + 1 :] if line]


def seen(shell: Shell, owner: str, *expected: str, who: Path | None = None) -> list[str]:
    """The ids of the tokens of `owner` that somebody is shown, as soon as they are those that are
    expected: what was decided a moment ago may still be on its way to the broker."""
    deadline = time.monotonic() + SEEN_SECONDS_MAX
    while True:
        ids = [
            row[0] for row in rows(shell(TOKENS, "--describe", "--owner-principal", owner, who=who))
        ]
        if ids == list(expected) or time.monotonic() > deadline:
            return ids


def test_tokens_are_made_shown_renewed_used_and_ended(shell: Shell) -> None:
    ann = shell.plain("ann", "ann-secret")
    made = shell(TOKENS, "--create", "--max-life-time-period", "-1",
                 "--renewer-principal", "User:admin", who=ann)  # fmt: skip
    (row,) = rows(made)
    token_id, hmac, owner = row[:3]
    assert owner == "User:ann"
    assert seen(shell, "User:ann", token_id, who=ann) == [token_id]
    assert seen(shell, "User:ann", token_id) == [token_id]
    assert "Completed renew operation" in shell(
        TOKENS, "--renew", "--hmac", hmac, "--renew-time-period", "-1"
    )
    by_token = shell.scram(token_id, hmac, "SCRAM-SHA-512", 'tokenauth="true"')
    shell("TopicCommand", "--list", who=by_token)
    another = shell.attempt(TOKENS, "--create", "--max-life-time-period", "-1", who=by_token)
    assert "Delegation Token requests are not allowed" in another.out + another.err
    assert "Completed expire operation" in shell(
        TOKENS, "--expire", "--hmac", hmac, "--expiry-time-period", "-1", who=ann
    )
    assert not seen(shell, "User:ann", who=ann)
    gone = shell.attempt(TOKENS, "--renew", "--hmac", hmac, "--renew-time-period", "-1", who=ann)
    assert gone.status != 0


def test_a_token_for_another_takes_a_right_and_is_shown_to_whom_it_concerns(shell: Shell) -> None:
    ann = shell.plain("ann", "ann-secret")
    for_eve = ("--create", "--max-life-time-period", "-1", "--owner-principal", "User:eve")
    refused = shell.attempt(TOKENS, *for_eve, who=ann)
    assert "Delegation Token authorization failed" in refused.out + refused.err
    (row,) = rows(shell(TOKENS, *for_eve))
    assert row[2] == "User:eve"
    assert seen(shell, "User:eve", row[0]) == [row[0]]
    assert not seen(shell, "User:eve", who=ann)
    refused = shell.attempt(
        TOKENS, "--expire", "--hmac", row[1], "--expiry-time-period", "-1", who=ann
    )
    assert "DelegationTokenOwnerMismatchException" in refused.out + refused.err

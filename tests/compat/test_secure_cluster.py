"""Three nodes that prove to each other who they are, by certificate or by password, and Apache's
tools and console clients that prove it to them in every way."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from penstock.security.jaas import SCRAM_MODULE
from tests.oracle.nodes import Node
from tests.oracle.papers import STANDARD_AUTHORIZER, Office, Proof, listen, servers
from tests.oracle.tools import ToolResult, Tools
from tests.oracle.trio import Trio

pytestmark = pytest.mark.java

SECONDS_MAX = 30
CONFIG = "kafka.admin.ConfigCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TOKENS = "DelegationTokenCommand"
MUTUAL_TLS, SCRAM = "mutual TLS", "SCRAM"
ADMIN = Proof("SCRAM-SHA-512", "admin", "admin-secret")
ADMIN_CERTIFIED = Proof("certificate", "admin")
ALICE = {
    way: Proof(way, "alice", "alice-secret")
    for way in ("certificate", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
}
TWO_WAYS = ("certificate", "OAUTHBEARER")

# What a node says that is not let in, of either make.
REFUSED = re.compile("does not get in|failed authentication due to|ClusterAuthorizationException")

PROTOCOLS = {"LOGIN": "SASL_SSL", "MUTUAL": "SSL", "BROKERS": ""}
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin;User:node;User:node-1;User:node-2;User:node-3;User:node-4",
    "delegation.token.secret.key": "the key of all nodes",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.wait.max.ms": "200",
    "listener.name.mutual.ssl.client.auth": "required",
}


class Company:
    """The cluster, the papers of all who work with it, and the tools in somebody's name."""

    def __init__(
        self, folder: Path, make: Callable[[Path], Node], between: str, office: Office, tools: Tools
    ) -> None:
        self.between = between
        self.office = office
        self._make = make
        self._tools = tools
        self.trio = Trio(
            folder,
            [self._node(number) for number in (1, 2, 3)],
            SETTINGS,
            client=self.office.librdkafka(ADMIN),
        )

    def _node(self, number: int) -> Callable[[Path], Node]:
        return lambda directory: self.node(directory, f"node-{number}")

    def node(
        self,
        directory: Path,
        name: str,
        login: tuple[str, str] = ("node", "node-secret"),
        certified: bool = True,
    ) -> Node:
        """A node that proves to the others who it is, if login and certificate are right."""
        node = self._make(directory)
        protocol = "SSL" if self.between == MUTUAL_TLS else "SASL_SSL"
        listen(node, {**PROTOCOLS, "BROKERS": protocol}, between="BROKERS", controller=protocol)
        node.config |= {
            **self.office.keys(name, certified),
            **self.office.logins("LOGIN", {"alice": "alice-secret"}),
        }
        for listener in ("brokers", "controller"):
            if self.between == MUTUAL_TLS:
                node.config[f"listener.name.{listener}.ssl.client.auth"] = "required"
            else:
                user, password = login
                jaas = f'{SCRAM_MODULE} required username="{user}" password="{password}";'
                prefix = f"listener.name.{listener}"
                node.config[f"{prefix}.sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
                node.config[f"{prefix}.scram-sha-512.sasl.jaas.config"] = jaas
        node.config |= {
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        }
        users = {"admin": "admin-secret", "node": "node-secret"}
        for user, word in users.items():
            node.format_words += ("--add-scram", f"SCRAM-SHA-512=[name={user},password={word}]")
        node.variables["JAVA_TOOL_OPTIONS"] = " ".join(self.office.allow_files())
        return node

    def servers(self, proof: Proof, *numbers: int) -> str:
        listener = "MUTUAL" if proof.mechanism == "certificate" else "LOGIN"
        return ",".join(servers(self.trio.nodes[each], listener) for each in numbers or (1, 2, 3))

    def client(self, proof: Proof) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers(proof), **self.office.librdkafka(proof)}

    # -- Apache's tools ---------------------------------------------------------------------------

    def attempt(
        self, name: str, *words: str, who: Proof | Path = ADMIN, at: int = 1, stdin: str = ""
    ) -> ToolResult:
        """Run a tool in somebody's name at one of the nodes."""
        if isinstance(who, Proof):
            where, settings = self.servers(who, at), self.office.java(who)
        else:
            where, settings = self.servers(ADMIN, at), who
        server = ("--bootstrap-server", where, "--command-config", str(settings))
        return self._tools.run(name, *server, *words, stdin=stdin)

    def run(
        self, name: str, *words: str, who: Proof | Path = ADMIN, at: int = 1, stdin: str = ""
    ) -> str:
        return checked(self.attempt(name, *words, who=who, at=at, stdin=stdin))

    def of_controllers(self, name: str, *words: str) -> str:
        """Run a tool at a controller, in the way that its listener asks for."""
        proof = ADMIN_CERTIFIED if self.between == MUTUAL_TLS else ADMIN
        port = self.trio.nodes[2].controller_port
        server = ("--bootstrap-controller", f"127.0.0.1:{port}")
        settings = ("--command-config", str(self.office.java(proof)))
        return checked(self._tools.run(name, *server, *settings, *words))


def checked(result: ToolResult) -> str:
    assert result.status == 0, result.out + result.err
    assert "Exception" not in result.out + result.err, result.out + result.err
    return result.out


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(tmp_path_factory.mktemp("office"))


@pytest.fixture(scope="module")
def tools(office: Office) -> Iterator[Tools]:
    """Apache's tools in a JVM of their own, which may read tokens from a file."""
    running = Tools(*office.allow_files())
    yield running
    running.close()


# Apache's controllers do not take SCRAM of each other: who they know is in the log that they would
# elect a leader for.
@pytest.fixture(
    scope="module", params=[MUTUAL_TLS, pytest.param(SCRAM, marks=pytest.mark.penstock_only)]
)
def company(
    request: pytest.FixtureRequest,
    target: type[Node],
    office: Office,
    tools: Tools,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Company]:
    folder = tmp_path_factory.mktemp("company")
    made = Company(folder, target, request.param, office, tools)
    with made.trio:
        introduce_alice(made)
        yield made


def introduce_alice(company: Company) -> None:
    """Her passwords, and rights to whatever is hers, all with Apache's tools."""
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):  # one at a time, as Kafka wants it
        word = f"{mechanism}=[password=alice-secret]"
        company.run(CONFIG, "--alter", *named("users", "alice"), "--add-config", word, at=2)
    prefixed = ("--resource-pattern-type", "prefixed", "--allow-principal", "User:alice")
    for role in (("--producer", "--transactional-id", "alice"), ("--consumer", "--group", "alice")):
        company.run("AclCommand", "--add", *prefixed, *role, "--topic", "alice", at=3)
    listing = ("--list", "--group", "alice", "--resource-pattern-type", "prefixed")
    for at in (1, 2, 3):
        until_told(company, "User:alice", "AclCommand", *listing, at=at)


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.1)


def until_told(company: Company, wanted: str, name: str, *words: str, at: int) -> None:
    """Ask a node until it knows: what was decided a moment ago is on its way to it."""
    until(lambda: wanted in company.run(name, *words, at=at), f"{wanted} at node {at}")


def named(kind: str, name: str) -> tuple[str, ...]:
    return ("--entity-type", kind, "--entity-name", name)


def create(company: Company, topic: str) -> None:
    made = ("--topic", topic, "--partitions", "3", "--replication-factor", "3")
    company.run("TopicCommand", "--create", *made, who=ADMIN_CERTIFIED)


def brokers(company: Company) -> set[int]:
    return set(AdminClient(company.client(ADMIN)).list_topics(timeout=SECONDS_MAX).brokers)


# -- tools ----------------------------------------------------------------------------------------


def test_console_clients_write_and_read_in_every_way(company: Company) -> None:
    create(company, "alice-console")
    produce = ("--topic", "alice-console", "--sync")
    # How nodes talk to each other makes no difference to their clients: two ways show that.
    ways = ALICE if company.between == MUTUAL_TLS else {way: ALICE[way] for way in TWO_WAYS}
    for at, (way, proof) in enumerate(ways.items()):
        company.run("ConsoleProducer", *produce, who=proof, at=at % 3 + 1, stdin=f"by {way}\n")
    expected = sorted(f"by {way}" for way in ways)
    for at, (way, proof) in enumerate(ways.items()):
        group = ("--group", f"alice-{way}", "--from-beginning", "--timeout-ms", "20000")
        count = ("--max-messages", str(len(expected)))
        told = company.run(
            CONSUMER, "--topic", "alice-console", *group, *count, who=proof, at=at % 3 + 1
        )
        assert sorted(told.splitlines()) == expected, way


def test_console_clients_hear_what_they_may_not_and_that_they_are_not_believed(
    company: Company,
) -> None:
    create(company, "others")
    denied = company.attempt(
        "ConsoleProducer", "--topic", "others", "--sync", who=ALICE["certificate"], stdin="x\n"
    )
    assert "TopicAuthorizationException" in denied.out + denied.err
    for way, said in (
        ("certificate", "SslAuthenticationException"),
        ("SCRAM-SHA-512", "SaslAuthenticationException"),
        ("OAUTHBEARER", "SaslAuthenticationException"),
    ):
        forged = ALICE[way]._replace(right=False)
        refused = company.attempt("TopicCommand", "--list", who=forged)
        assert said in refused.out + refused.err, way


def test_rights_are_given_at_one_node_and_taken_at_the_controllers(company: Company) -> None:
    entry = ("--allow-principal", "User:bob", "--operation", "Read", "--topic", "alice-rights")
    company.run("AclCommand", "--add", *entry, who=ADMIN_CERTIFIED, at=1)
    shown = "(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)"
    listing = ("--list", "--topic", "alice-rights")
    until_told(company, shown, "AclCommand", *listing, at=2)
    assert shown in company.of_controllers("AclCommand", *listing)
    company.of_controllers("AclCommand", "--remove", "--force", *entry)
    until(lambda: shown not in company.run("AclCommand", *listing, at=3), "the right is gone")
    denied = company.attempt("AclCommand", "--list", who=ALICE["PLAIN"])
    assert "ClusterAuthorizationException" in denied.out + denied.err


def test_users_and_their_quotas_are_known_to_all_nodes(company: Company) -> None:
    who = named("users", "carol")
    secret = "SCRAM-SHA-256=[iterations=8192,password=carol-secret]"
    company.run(CONFIG, "--alter", *who, "--add-config", secret, at=1)
    company.run(CONFIG, "--alter", *who, "--add-config", "producer_byte_rate=4096", at=2)

    def described() -> bool:
        told = company.run(CONFIG, "--describe", *who, at=3)
        return "producer_byte_rate=4096.0" in told and "SCRAM-SHA-256=iterations=8192" in told

    until(described, "what was said of carol, at a third node")
    carol = Proof("SCRAM-SHA-256", "carol", "carol-secret")
    for at in (1, 2, 3):
        company.run("TopicCommand", "--list", who=carol, at=at)
    for word in ("SCRAM-SHA-256", "producer_byte_rate"):
        company.run(CONFIG, "--alter", *who, "--delete-config", word)
    gone = company.attempt("TopicCommand", "--list", who=carol)
    assert "SaslAuthenticationException" in gone.out + gone.err


def test_a_token_opens_every_node_until_it_is_ended(company: Company) -> None:
    create(company, "alice-token")
    made = company.run(
        TOKENS, "--create", "--max-life-time-period", "-1", who=ALICE["certificate"], at=1
    )
    row = re.search(r"^(\S+)\s+(\S+)\s+User:alice\s", made, re.MULTILINE)
    assert row is not None, made
    token_id, hmac = row.groups()
    proof = Proof("SCRAM-SHA-256", token_id, hmac)
    settings = company.office.java(proof, "token-of-alice", 'tokenauth="true"')
    shown = ("--describe", "--owner-principal", "User:alice")
    for at in (1, 2, 3):
        until_told(company, token_id, TOKENS, *shown, at=at)
        produce = ("--topic", "alice-token", "--sync")
        company.run("ConsoleProducer", *produce, who=settings, at=at, stdin=f"at {at}\n")
    ended = ("--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    company.run(TOKENS, *ended, who=ALICE["SCRAM-SHA-512"], at=3)
    until(lambda: token_id not in company.run(TOKENS, *shown, at=1), "the token is gone")
    refused = company.attempt("TopicCommand", "--list", who=settings, at=1)
    assert "SaslAuthenticationException" in refused.out + refused.err


# -- nodes ----------------------------------------------------------------------------------------


NODE_4: dict[str, Any] = {"name": "node-4"}
STRANGERS: dict[str, dict[str, dict[str, Any]]] = {
    MUTUAL_TLS: {
        "not believed": {**NODE_4, "certified": False},
        "not a node": {"name": "node-5"},  # who has a certificate and no right
    },
    SCRAM: {
        "not believed": {**NODE_4, "login": ("node", "not-the-password")},
        "not a node": {**NODE_4, "login": ("alice", "alice-secret")},
    },
}


def newcomer(company: Company, folder: Path, papers: dict[str, Any]) -> Node:
    """A fourth node, broker only."""
    node = company.node(folder, **papers)
    voters = company.trio.nodes[1].config["controller.quorum.voters"]
    without_controller = node.config["listeners"].partition(",CONTROLLER")[0]
    node.config |= company.trio.config | {
        "process.roles": "broker",
        "node.id": "4",
        "listeners": without_controller,
        "controller.quorum.voters": voters,
    }
    return node


@pytest.mark.parametrize("kind", ["not believed", "not a node"])
def test_who_cannot_prove_to_be_a_node_stays_out(
    company: Company, tmp_path: Path, kind: str
) -> None:
    stranger = newcomer(company, tmp_path / "stranger", STRANGERS[company.between][kind])
    stranger.launch()
    try:
        until(lambda: bool(REFUSED.search(stranger.output())), "the stranger says what is wrong")
        time.sleep(1)
        assert brokers(company) == {1, 2, 3}
    finally:
        stranger.close()


def test_a_fourth_node_with_papers_in_order_is_let_in(company: Company, tmp_path: Path) -> None:
    fourth = newcomer(company, tmp_path / "fourth", NODE_4)
    with fourth:
        until(lambda: brokers(company) == {1, 2, 3, 4}, "the fourth is known")
    until(lambda: brokers(company) == {1, 2, 3}, "the fourth has left")


class Stream:
    """A producer that goes on whatever happens to the nodes, and remembers what was taken."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._producer = Producer({**settings, "acks": "all", "linger.ms": 5})
        self._topic = topic
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.taken: set[bytes] = set()
        self.failed: list[KafkaError] = []

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        assert self._producer.flush(SECONDS_MAX) == 0

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            value = message.value()
            assert value is not None
            self.taken.add(value)
        else:
            self.failed.append(error)

    def _run(self) -> None:
        number = 0
        while not self._ending.is_set():
            self._producer.produce(self._topic, b"%d" % number, on_delivery=self._told)
            self._producer.poll(0.005)
            number += 1

    def go_on(self) -> None:
        """Wait until more was taken."""
        wanted = len(self.taken) + 100
        until(lambda: len(self.taken) >= wanted, "records are taken")


def test_nothing_is_lost_and_nobody_shut_out_when_a_node_is_killed(company: Company) -> None:
    create(company, "alice-crash")
    certified = company.client(ALICE["certificate"])
    with Stream(certified, "alice-crash") as stream:
        stream.go_on()
        for number in (1, 2):
            company.trio.nodes[number].kill()
            stream.go_on()
            # Others log in meanwhile, and administrators change things.
            word = f"consumer_byte_rate={number * 1000000}"
            company.run(CONFIG, "--alter", *named("users", "dave"), "--add-config", word, at=3)
            company.trio.nodes[number].start()
            stream.go_on()
    assert stream.failed == []
    settings = company.client(ALICE["OAUTHBEARER"])
    group = {"group.id": "alice-crash", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **group})
    consumer.subscribe(["alice-crash"])
    left, deadline = set(stream.taken), time.monotonic() + SECONDS_MAX
    while left and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            if message.error() is None:
                left.discard(message.value() or b"")
    consumer.close()
    assert not left
    assert brokers(company) == {1, 2, 3}

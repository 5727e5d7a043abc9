"""What configuration may say about SASL, and what keeps a node from starting."""

from __future__ import annotations

import gc
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from penstock.app.problems import CannotStart
from penstock.app.sasl import Sasl
from penstock.model.config.node import NodeConfig
from penstock.platform.chance import SystemChance
from penstock.platform.workers import InlineWorkers
from penstock.security.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE
from tests.unit.security.signing import AUDIENCE, ISSUER, Issuer

BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "CLIENTS",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
}
OTHERS = {"controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094"}
OF_CLIENTS = "listener.name.clients.plain.sasl.jaas.config"
OF_CONTROLLERS = "listener.name.controller.scram-sha-512.sasl.jaas.config"


def opened_with(settings: dict[str, str]) -> Sasl:
    sasl = Sasl(NodeConfig.of({**BASE, **settings}))
    sasl.open(InlineWorkers(), SystemChance())
    return sasl


def refusal_of(settings: dict[str, str]) -> str:
    with pytest.raises(CannotStart) as caught:
        opened_with(settings)
    return str(caught.value)


def test_a_node_alone_needs_no_credentials_of_its_own() -> None:
    opened_with({})


def test_no_password_of_a_user_stays_in_memory_in_clear() -> None:
    text = f'{PLAIN_MODULE} required user_alice="hunter2";'
    config = NodeConfig.of({**BASE, OF_CLIENTS: text, "sasl.jaas.config": text})
    assert reachable_from(config, "hunter2") != []
    sasl = Sasl(config)
    sasl.open(InlineWorkers(), SystemChance())
    assert config.is_set(OF_CLIENTS)
    assert reachable_from(sasl, "hunter2") == []
    assert reachable_from(config, "hunter2") == []


def reachable_from(root: object, secret: str) -> list[object]:
    """Texts and bytes with a secret that an object holds, however deep."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType):
            continue
        seen[id(each)] = each
        # Of functions only what they close over: their globals are the whole program.
        held = each.__closure__ or () if isinstance(each, FunctionType) else gc.get_referents(each)
        waiting += held
    return [
        each
        for each in seen.values()
        if (isinstance(each, str) and secret in each)
        or (isinstance(each, bytes) and secret.encode() in each)
    ]


@pytest.mark.parametrize(
    ("protocol", "host", "warned"),
    [
        ("SASL_PLAINTEXT", "127.0.0.1", False),
        ("SASL_PLAINTEXT", "0.0.0.0", True),
        ("SASL_PLAINTEXT", "", True),
        ("SASL_SSL", "0.0.0.0", False),
    ],
)
def test_passwords_on_an_open_road_are_warned_of(
    protocol: str, host: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    opened_with(
        {
            "listeners": f"CLIENTS://{host}:0,CONTROLLER://127.0.0.1:0",
            "advertised.listeners": "CLIENTS://127.0.0.1:9092",
            "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:SASL_PLAINTEXT",
        }
    )
    assert ("CLIENTS takes PLAIN without TLS" in caplog.text) is warned


def test_a_node_among_others_says_what_it_lacks() -> None:
    refusal = refusal_of(OTHERS)
    assert "listener CLIENTS with PLAIN" in refusal
    assert OF_CLIENTS in refusal
    own = f'{PLAIN_MODULE} required username="a" password="b";'
    refusal = refusal_of({**OTHERS, OF_CLIENTS: own})
    assert OF_CONTROLLERS in refusal
    own_scram = f'{SCRAM_MODULE} required username="a" password="b";'
    opened_with({**OTHERS, OF_CLIENTS: own, OF_CONTROLLERS: own_scram})
    opened_with({**OTHERS, "sasl.jaas.config": own + own_scram})
    opened_with({**OTHERS, OF_CLIENTS: own, "listener.name.controller.sasl.jaas.config": own_scram})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "GSSAPI"),
        ({"listener.name.controller.sasl.enabled.mechanisms": "GSSAPI"}, "CONTROLLER: GSSAPI"),
        ({"sasl.mechanism.controller.protocol": "GSSAPI"}, "sasl.mechanism.controller.protocol"),
        ({OF_CLIENTS: "hunter2"}, f"{OF_CLIENTS}: character 1"),
        ({OF_CLIENTS: f"{SCRAM_MODULE} required;"}, PLAIN_MODULE),
        ({OF_CLIENTS: f'{PLAIN_MODULE} required user_="hunter2";'}, "user_NAME"),
        ({OF_CLIENTS: f'{PLAIN_MODULE} required hunter2="x";'}, "user_NAME"),
        ({OF_CLIENTS: f'{PLAIN_MODULE} required user_a="";'}, "user_NAME"),
        ({OF_CLIENTS: f'{PLAIN_MODULE} required user_a="SCRAM-SHA-256$hunter2";'}, "user a"),
        ({OF_CLIENTS: f'{PLAIN_MODULE} required password="hunter2";'}, "needs both"),
        ({"sasl.server.callback.handler.class": "com.example.Hunter2"}, "cannot be loaded"),
    ],
)
def test_what_makes_no_sense_keeps_the_node_from_starting(
    settings: dict[str, str], expected: str
) -> None:
    refusal = refusal_of(settings)
    assert expected in refusal
    assert "hunter2" not in refusal.lower()


OAUTH = {
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
}
SECURED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def test_tokens_are_taken_with_keys_issuer_and_audience(tmp_path: Path) -> None:
    opened_with(OAUTH)
    prefixed = "listener.name.clients.oauthbearer.sasl.server.callback.handler.class"
    opened_with({**OAUTH, prefixed: SECURED})
    keys = tmp_path / "keys.json"
    keys.write_bytes(Issuer().key_set)
    opened_with({**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}"})


@pytest.mark.parametrize(
    "missing",
    [
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.expected.audience",
    ],
)
def test_without_one_of_them_the_node_does_not_start(missing: str) -> None:
    refusal = refusal_of({key: value for key, value in OAUTH.items() if key != missing})
    assert f"without {missing} it would" in refusal


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://issuer.example/keys"}, "use https://"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///no/such/file"}, "No such file"),
        (
            {
                "listener.name.clients.oauthbearer.sasl.jaas.config": (
                    f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="admin";'
                )
            },
            "unsecured tokens",
        ),
        (
            {
                "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
                    "OAuthBearerUnsecuredValidatorCallbackHandler"
                )
            },
            "cannot be loaded",
        ),
    ],
)
def test_tokens_that_anybody_can_make_are_not_taken(
    settings: dict[str, str], expected: str
) -> None:
    assert expected in refusal_of({**OAUTH, **settings})


OWN = {
    **OAUTH,
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.mechanism.controller.protocol": "OAUTHBEARER",
}


def test_a_node_has_a_token_from_a_file_or_for_its_credentials() -> None:
    endpoint = "sasl.oauthbearer.token.endpoint.url"
    opened_with({**OWN, **OTHERS, endpoint: "file:///run/token"})
    jaas = f'{OAUTH_MODULE} required clientId="a" clientSecret="b" scope="c";'
    opened_with({**OWN, **OTHERS, endpoint: "https://issuer.example/t", "sasl.jaas.config": jaas})
    keys = {
        "sasl.oauthbearer.client.credentials.client.id": "a",
        "sasl.oauthbearer.client.credentials.client.secret": "b",
    }
    opened_with({**OWN, **OTHERS, endpoint: "https://issuer.example/t", **keys})
    assert "cannot get a token" in refusal_of({**OWN, endpoint: "https://issuer.example/t"})
    assert "use https://" in refusal_of({**OWN, endpoint: "http://issuer.example/t", **keys})
    assert "has nothing to show" in refusal_of({**OWN, **OTHERS})

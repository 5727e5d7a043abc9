"""Secrets stay where they are: every setting and message that bears one holds a canary here, and
no log line, audit line, answer, error, command or `repr` shows any of them."""

from __future__ import annotations

import gc
import json
import logging
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.problems import CannotStart
from penstock.model.config import BROKER_KEYS
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.protocol.generated import alter_user_scram_credentials as scrams
from penstock.protocol.generated import create_delegation_token as tokens
from penstock.protocol.generated import describe_configs as describing
from penstock.protocol.generated import incremental_alter_configs as altering
from penstock.protocol.generated.describe_delegation_token import DescribeDelegationTokenRequest
from penstock.security.authority import Authority, Issued
from penstock.security.oauth import shown
from penstock.security.scram_keys import BY_NAME, salted
from tests.fuzz.targets.logins import _key_set
from tests.unit.security.entering import (
    ADMIN,
    ADMIN_PASSWORD,
    entered,
    knocking,
    secured,
    secured_node,
    show,
    show_scram,
)
from tests.unit.server.asking import Asker

CANARY = "c4naryBird"
BROKER, BROKER_LOGGER = 4, 8
PER_BROKER = ("ssl.keystore.password", "ssl.key.password", "ssl.truststore.password")
UNUSED = (
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret",
)


class Canaries:
    """Every secret that was given away, to be looked for."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def new(self, what: str) -> str:
        made = f"{CANARY}-{what}"
        self.known.add(made)
        return made

    def assert_absent(self, text: str, where: str) -> None:
        for secret in self.known:
            at = text.find(secret)
            assert at < 0, f"{secret} in {where}: ...{text[max(0, at - 200) : at + 100]}"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make()


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("node", ["localhost", "127.0.0.1"])


def _settings(
    canaries: Canaries, folder: Path, authority: Authority, issued: Issued
) -> dict[str, str]:
    """A node with a canary in every setting that bears a secret."""
    (folder / "keys.json").write_bytes(_key_set())
    store_password = canaries.new("store")
    (folder / "keys.p12").write_bytes(issued.pkcs12(store_password))
    trust_password = canaries.new("trust")
    (folder / "trust.p12").write_bytes(authority.truststore(trust_password))
    settings = secured("SASL_SSL", {"alice": canaries.new("jaas")})
    settings |= {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder / 'keys.json'}",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "kafka",
        "delegation.token.secret.key": canaries.new("tokens"),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "keys.p12"),
        "ssl.keystore.password": store_password,
        "ssl.key.password": store_password,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(folder / "trust.p12"),
        "ssl.truststore.password": trust_password,
        "listener.name.other.scram-sha-512.sasl.jaas.config": canaries.new("other"),
    }
    return settings | {key: canaries.new(key.replace(".", "-")) for key in UNUSED}


def test_every_setting_that_bears_a_secret_is_one_of_those_driven_here() -> None:
    driven = {"delegation.token.secret.key", "sasl.jaas.config", *PER_BROKER, *UNUSED}
    inline = {"ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"}
    assert {name for name, key in BROKER_KEYS.items() if key.sensitive} == driven | inline


async def test_a_node_shows_none_of_its_secrets_and_none_of_its_clients(
    tmp_path: Path, authority: Authority, issued: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    canaries = Canaries()
    settings = _settings(canaries, tmp_path, authority, issued)
    caplog.set_level(logging.DEBUG)
    tls = ssl.create_default_context(cadata=authority.certificate_pem)
    answers: list[Any] = []
    async with secured_node(tmp_path / "data", settings, "SASL_SSL") as node:
        await _log_in_wrongly(node, tls, canaries, answers)
        async with entered(node, ADMIN, ADMIN_PASSWORD, tls) as admin:
            await _administer(admin, canaries, answers)
            await _use_token(node, tls, admin, canaries)
        canaries.assert_absent("\n".join(map(repr, answers)), "an answer")
        _assert_no_repr_tells(canaries)
    lines = "\n".join(record.getMessage() for record in caplog.records)
    assert "login failed" in lines and "changed" in lines, "nothing was written down at all"
    canaries.assert_absent(caplog.text, "the log")
    canaries.assert_absent(lines, "the log")


async def _log_in_wrongly(
    node: Any, tls: ssl.SSLContext, canaries: Canaries, answers: list[Any]
) -> None:
    """What is shown in vain is a secret too: it may be right elsewhere, or nearly right here."""
    wrong = canaries.new("wrong")
    token = f"{canaries.new('token')}.b.c"
    for mechanism, *messages in (
        ("PLAIN", f"\0alice\0{wrong}".encode()),
        ("PLAIN", f"bob\0alice\0{wrong}".encode()),
        ("PLAIN", wrong.encode()),
        ("SCRAM-SHA-256", wrong.encode()),
        ("OAUTHBEARER", shown(token), b"\x01"),
        ("OAUTHBEARER", token.encode()),
    ):
        async with knocking(node, tls) as asker:
            answers.append(await show(asker, mechanism, *messages))
            assert answers[-1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    async with knocking(node, tls) as asker:
        answers.append(await show_scram(asker, "SCRAM-SHA-256", "alice", wrong))


async def _administer(admin: Asker, canaries: Canaries, answers: list[Any]) -> None:
    kind = BY_NAME["SCRAM-SHA-256"]
    stretched = salted(kind, canaries.new("scram"), b"salt", 4096)
    canaries.known |= {repr(stretched)[2:20], stretched.hex()}
    user = scrams.ScramCredentialUpsertion(
        name="carol", mechanism=1, iterations=4096, salt=b"salt", salted_password=stretched
    )
    answers.append(await admin.ask(scrams.AlterUserScramCredentialsRequest(upsertions=[user]), 0))
    assert answers[-1].results[0].error_code == ErrorCode.NONE
    for key in PER_BROKER:
        # The right value is taken, a wrong one refused: neither is repeated.
        answers.append(await _alter(admin, BROKER, "1", key, canaries.new(f"new-{key}")))
        answers.append(await _alter(admin, BROKER, "", key, canaries.new(f"all-{key}")))
    answers.append(await _alter(admin, BROKER, "1", "log.retention.ms", canaries.new("misplaced")))
    answers[-1] = None  # a value of a public key is repeated in its error, as in Kafka
    canaries.known.discard(f"{CANARY}-misplaced")
    answers.append(await _alter(admin, BROKER, "1", "sasl.jaas.config", canaries.new("jaas-new")))
    for synonyms in (False, True):
        request = describing.DescribeConfigsRequest(
            resources=[
                describing.DescribeConfigsResource(
                    resource_type=BROKER, resource_name=name, configuration_keys=None
                )
                for name in ("1", "")
            ],
            include_synonyms=synonyms,
            include_documentation=synonyms,
        )
        described = await admin.ask(request, 4)
        assert all(result.error_code == ErrorCode.NONE for result in described.results)
        secret = [c for r in described.results for c in r.configs if c.is_sensitive]
        assert {"delegation.token.secret.key", *PER_BROKER} <= {c.name for c in secret}
        assert all(c.value is None for c in secret)
        answers.append(described)


async def _alter(admin: Asker, kind: int, name: str, key: str, value: str) -> Any:
    config = altering.AlterableConfig(name=key, config_operation=0, value=value)
    resource = altering.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[config]
    )
    return await admin.ask(altering.IncrementalAlterConfigsRequest(resources=[resource]), 1)


async def _use_token(node: Any, tls: ssl.SSLContext, admin: Asker, canaries: Canaries) -> None:
    """A delegation token's secret is told to who asked for it, and to nobody else."""
    import base64

    for version in (1, 2, 3):  # only the last can say who asked
        made = await admin.ask(tokens.CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
        assert made.error_code == ErrorCode.NONE
        asked = DescribeDelegationTokenRequest(owners=None)
        assert len((await admin.ask(asked, version)).tokens) == version
    secret = base64.b64encode(made.hmac).decode()
    canaries.known |= {secret, bytes(made.hmac).hex()}
    async with knocking(node, tls) as asker:
        answer = await show_scram(asker, "SCRAM-SHA-256", made.token_id, secret, by_token=True)
        assert answer.error_code == ErrorCode.NONE, answer


def _assert_no_repr_tells(canaries: Canaries) -> None:
    """Whatever of ours lives now, shown as a debugger or a careless log line would show it."""
    shown_types = set()
    for each in gc.get_objects():
        kind = type(each)
        if isinstance(each, type) or not str(kind.__module__).startswith("penstock."):
            continue
        shown_types.add(kind.__name__)
        canaries.assert_absent(repr(each), f"the repr of a {kind.__name__}")
    assert {"NodeConfig", "Node", "Security"} <= shown_types


def test_settings_that_make_no_sense_are_refused_without_repeating_secrets(
    tmp_path: Path, authority: Authority, issued: Issued
) -> None:
    from penstock.app.security import Security

    canaries = Canaries()
    good = _settings(canaries, tmp_path, authority, issued)
    exact = "listener.name.sasl_ssl.plain.sasl.jaas.config"
    bad = {
        exact: canaries.new("bare"),
        "ssl.keystore.password": canaries.new("closed"),
        "ssl.truststore.password": canaries.new("shut"),
        "delegation.token.secret.key": canaries.new("kept"),
        "ssl.keystore.key": canaries.new("inline"),
    }
    for key, value in bad.items():
        node = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "SASL_SSL://127.0.0.1:0,CONTROLLER://localhost:0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            **good,
            key: value,
        }
        try:
            security = Security(NodeConfig.of(node))
            security.open(None, _Chance())  # type: ignore[arg-type]
        except (CannotStart, ValueError) as problem:
            told, cause = str(problem), problem.__cause__
            canaries.assert_absent(f"{told} {cause!r} {problem!r}", f"the refusal of {key}")


class _Chance:
    def token_bytes(self, count: int) -> bytes:
        return bytes(count)


@pytest.fixture
def file_with_secrets(
    tmp_path: Path, authority: Authority, issued: Issued
) -> Iterator[tuple[Path, Canaries]]:
    canaries = Canaries()
    node = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "SASL_SSL://127.0.0.1:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        **_settings(canaries, tmp_path, authority, issued),
        "ssl.keystore.key": canaries.new("inline"),
        "ssl.keystore.passwort": canaries.new("misspelt"),
        "num.partitions": "many",
    }
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in node.items()))
    yield path, canaries


def test_validating_a_file_repeats_no_secret_of_it(
    file_with_secrets: tuple[Path, Canaries],
) -> None:
    path, canaries = file_with_secrets
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", "config", "validate", str(path)],
        capture_output=True,
        text=True,
    )
    assert "num.partitions" in ran.stdout + ran.stderr, "it found nothing to complain about"
    canaries.assert_absent(ran.stdout + ran.stderr, "what `config validate` prints")


def test_configurations_show_no_secret(file_with_secrets: tuple[Path, Canaries]) -> None:
    from penstock.model.config.describe import describe_broker
    from penstock.model.config.layers import BrokerLayers
    from penstock.model.config.sources import read_entries

    path, canaries = file_with_secrets
    settings = {entry.key: entry.text for entry in read_entries(str(path))}
    del settings["num.partitions"], settings["ssl.keystore.passwort"]
    config = NodeConfig.of(settings)
    layers = BrokerLayers(config, {PER_BROKER[0]: canaries.new("all")}, {PER_BROKER[1]: CANARY})
    described = describe_broker(layers)
    canaries.assert_absent(repr(described), "a description")
    canaries.assert_absent(repr(layers), "the layers of a configuration")
    canaries.assert_absent(repr(config) + str(config), "a configuration")
    canaries.assert_absent(json.dumps(list(map(str, config.notices()))), "a notice")

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.failure import USAGE, Failure
from penstock.cli.secure_properties import pem_lines, read_properties, translated
from penstock.cli.wire_security import _context
from penstock.security.authority import Authority

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make()


def test_a_file_for_kafkas_tools_is_read_as_it_is(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "ca.pem").write_text(authority.certificate_pem)
    file = tmp_path / "admin.properties"
    file.write_text(
        f"""\
        # for kafka-topics.sh
        bootstrap.servers = a:9092,b:9092
        security.protocol = SASL_SSL
        sasl.mechanism = SCRAM-SHA-512
        sasl.jaas.config = {SCRAM} required \\
            username="alice" password="pass;word=\\\\"1";
        ssl.truststore.type = PEM
        ssl.truststore.location = {tmp_path}/ca.pem
        ssl.endpoint.identification.algorithm =
        default.api.timeout.ms = 5000
        """
    )
    assert read_properties(str(file)) == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'pass;word="1',
        "ssl.ca.location": f"{tmp_path}/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_a_pkcs12_truststore_becomes_pem(tmp_path: Path, authority: Authority) -> None:
    path = tmp_path / "trust.p12"
    path.write_bytes(authority.truststore("geheim"))
    settings = {"ssl.truststore.location": str(path), "ssl.truststore.password": "geheim"}
    found = translated(settings, "it")
    assert found == {"ssl.ca.pem": authority.certificate_pem}
    with pytest.raises(Failure, match=r"ssl\.truststore\.password is wrong") as failed:
        translated({**settings, "ssl.truststore.password": "falsch"}, "it")
    assert "falsch" not in failed.value.problem


def test_a_pem_keystore_is_certificate_and_key_in_one(tmp_path: Path, authority: Authority) -> None:
    path = tmp_path / "keys.pem"
    path.write_text(authority.issue("alice").pem("geheim"))
    found = translated(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(path),
            "ssl.key.password": "geheim",
        },
        "it",
    )
    assert found == {
        "ssl.certificate.location": str(path),
        "ssl.key.location": str(path),
        "ssl.key.password": "geheim",
    }
    assert _context(found) is not None


def test_a_pkcs12_keystore_stays_one_once_it_opens(tmp_path: Path, authority: Authority) -> None:
    path = tmp_path / "keys.p12"
    path.write_bytes(authority.issue("alice").pkcs12("geheim"))
    settings = {"ssl.keystore.location": str(path), "ssl.keystore.password": "geheim"}
    assert translated({**settings, "ssl.keystore.type": "PKCS12"}, "it") == settings
    assert _context(settings) is not None
    with pytest.raises(Failure):
        translated({**settings, "ssl.keystore.password": "falsch"}, "it")


def test_keys_that_are_written_out_are_put_in_order_again(authority: Authority) -> None:
    issued = authority.issue("alice")
    squeezed = issued.chain_pem.replace("\n", " ")
    found = translated(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": issued.key_pem().replace("\n", "\\n"),
            "ssl.keystore.certificate.chain": squeezed,
            "ssl.truststore.certificates": authority.certificate_pem,
        },
        "it",
    )
    assert found == {
        "ssl.key.pem": issued.key_pem(),
        "ssl.certificate.pem": issued.chain_pem,
        "ssl.ca.pem": authority.certificate_pem,
    }
    assert pem_lines(squeezed) == issued.chain_pem
    assert _context(found) is not None


def test_a_java_keystore_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "trust.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    with pytest.raises(Failure, match="keytool -importkeystore") as failed:
        translated({"ssl.truststore.location": str(path)}, "it")
    assert failed.value.status == USAGE


def test_tokens_and_oauth_are_translated() -> None:
    token = f'{SCRAM} required username="id" password="hmac" tokenauth="true";'
    assert translated({"sasl.jaas.config": token}, "it")["sasl.tokenauth"] == "true"
    oauth = f'{OAUTH} required clientId="app" clientSecret="secret" scope="kafka";'
    assert translated({"sasl.jaas.config": oauth}, "it") == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.scope": "kafka",
    }


def test_a_login_module_that_cannot_be_read_is_told_of_without_its_secrets() -> None:
    with pytest.raises(Failure) as failed:
        translated({"sasl.jaas.config": f'{SCRAM} required password="secret'}, "it")
    assert "sasl.jaas.config" in failed.value.problem
    assert "secret" not in failed.value.problem


def test_what_is_said_of_the_user_itself_goes_before_the_login_module() -> None:
    jaas = f'{SCRAM} required username="alice" password="a";'
    found = translated({"sasl.jaas.config": jaas, "sasl.username": "bob"}, "it")
    assert found == {"sasl.username": "bob", "sasl.password": "a"}


@pytest.mark.parametrize("key", ["ssl.truststore.location", "ssl.keystore.location"])
def test_a_store_that_is_not_there_is_told_of(key: str) -> None:
    with pytest.raises(Failure, match="/no/such: No such file"):
        translated({key: "/no/such"}, "it")

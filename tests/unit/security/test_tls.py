"""TLS settings and the contexts made of them, shaking hands in memory."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from penstock.security.authority import Authority, Issued
from penstock.security.stores import Store, StoreError
from penstock.security.suites import suites_of
from penstock.security.tls import (
    TlsSettings,
    client_context,
    server_context,
    settings_of,
    stamps_of,
)

AUTHORITY = Authority.make()
NODE = AUTHORITY.issue("node-1", ["localhost", "127.0.0.1"])
ALICE = AUTHORITY.issue("alice")
BOTH = frozenset({"TLSv1.2", "TLSv1.3"})


def keys_of(issued: Issued) -> Store:
    return Store("keystore", "PEM", key=issued.key_pem(), certificates=issued.chain_pem)


def trust_in(pem: str) -> Store:
    return Store("truststore", "PEM", certificates=pem)


def settings(keystore: Store | None = None, **others: object) -> TlsSettings:
    made = TlsSettings(
        keystore or keys_of(NODE), trust_in(AUTHORITY.certificate_pem), BOTH, None, "none", True
    )
    return made._replace(**others)  # type: ignore[arg-type]


def shake_hands(
    server: TlsSettings, client: TlsSettings, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Server's and client's end, after each was told all that the other said."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server_context(server).ssl.wrap_bio(to_server, to_client, server_side=True)
    theirs = client_context(client).ssl.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(4):
        for end in (theirs, ours):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ours, theirs


# -- contexts -------------------------------------------------------------------------------------


def test_both_sides_prove_who_they_are() -> None:
    ours, theirs = shake_hands(settings(client_auth="required"), settings(keys_of(ALICE)))
    assert ours.version() == theirs.version() == "TLSv1.3"
    shown = ours.getpeercert()
    assert shown is not None and shown["subject"] == ((("commonName", "alice"),),)


def test_who_shows_nothing_is_refused_where_a_certificate_is_required() -> None:
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(settings(client_auth="required"), settings(Store("keystore")))


def test_who_shows_nothing_passes_where_a_certificate_is_requested() -> None:
    ours, _ = shake_hands(settings(client_auth="requested"), settings(Store("keystore")))
    assert ours.getpeercert(binary_form=True) is None


@pytest.mark.parametrize("asked", ["requested", "required"])
def test_a_certificate_of_somebody_elses_authority_is_refused(asked: str) -> None:
    stranger = Authority.make("another").issue("alice")
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake_hands(settings(client_auth=asked), settings(keys_of(stranger)))


def test_an_expired_certificate_is_refused_on_either_side() -> None:
    old = AUTHORITY.issue("old", ["localhost"], days=-1)
    with pytest.raises(ssl.SSLError, match="certificate has expired"):
        shake_hands(settings(client_auth="required"), settings(keys_of(old)))
    with pytest.raises(ssl.SSLError, match="certificate has expired"):
        shake_hands(settings(keys_of(old)), settings())


def test_a_server_has_to_bear_the_name_under_which_it_is_reached() -> None:
    with pytest.raises(ssl.SSLError, match="not valid for 'elsewhere'"):
        shake_hands(settings(), settings(), host="elsewhere")
    shake_hands(settings(), settings(), host="127.0.0.1")
    shake_hands(settings(), settings(checks_host=False), host="elsewhere")


def test_even_without_a_name_to_check_a_server_has_to_be_believed() -> None:
    stranger = Authority.make("another").issue("node-1", ["localhost"])
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake_hands(settings(keys_of(stranger)), settings(checks_host=False))


def test_a_certificate_in_the_truststore_is_believed_without_its_authority() -> None:
    own_word = trust_in(NODE.chain_pem.split("-----END CERTIFICATE-----")[0])
    alone = own_word._replace(certificates=f"{own_word.certificates}-----END CERTIFICATE-----")
    shake_hands(settings(), settings(truststore=alone))


@pytest.mark.parametrize("version", sorted(BOTH))
def test_a_version_that_is_not_enabled_is_not_spoken(version: str) -> None:
    only, other = frozenset({version}), BOTH - {version}
    ours, _ = shake_hands(settings(versions=only), settings())
    assert ours.version() == version
    with pytest.raises(ssl.SSLError):
        shake_hands(settings(versions=only), settings(versions=other))


def test_suites_are_chosen_by_the_names_of_java() -> None:
    chosen = suites_of(["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"])
    ours, _ = shake_hands(settings(suites=chosen), settings())
    cipher = ours.cipher()
    assert cipher is not None and cipher[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    assert ours.version() == "TLSv1.2"  # no suite of 1.3 was named


def test_suites_of_tls_13_alone_leave_tls_12_out() -> None:
    chosen = suites_of(["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"])
    assert chosen is not None and chosen.narrowed
    with pytest.raises(ssl.SSLError):
        shake_hands(settings(suites=chosen), settings(versions=frozenset({"TLSv1.2"})))


@pytest.mark.parametrize(
    "name",
    ["TLS_RSA_WITH_AES_128_CBC_SHA", "SSL_RSA_WITH_RC4_128_MD5", "ECDHE-RSA-AES128-GCM-SHA256"],
)
def test_suites_that_are_weak_or_unknown_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is unknown or too weak"):
        suites_of([name])


def test_suites_without_a_version_to_use_them_in_are_refused() -> None:
    chosen = suites_of(["TLS_AES_128_GCM_SHA256"])
    with pytest.raises(StoreError, match="none that belongs to one of"):
        server_context(settings(suites=chosen, versions=frozenset({"TLSv1.2"})))


def test_every_suite_that_is_known_is_one_of_openssl() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    exchanges = ("TLS_ECDHE_ECDSA_WITH_", "TLS_ECDHE_RSA_WITH_", "TLS_DHE_RSA_WITH_")
    ciphers = ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256")
    for name in (exchange + cipher for exchange in exchanges for cipher in ciphers):
        chosen = suites_of([name])
        assert chosen is not None
        context.set_ciphers(chosen.openssl)
        assert chosen.openssl in {each["name"] for each in context.get_ciphers()}


def test_a_listener_without_keys_is_refused() -> None:
    with pytest.raises(StoreError, match="there is no key"):
        server_context(settings(Store("keystore")))


@pytest.mark.parametrize("asked", ["requested", "required"])
def test_clients_are_asked_only_by_those_who_know_whom_to_believe(asked: str) -> None:
    with pytest.raises(StoreError, match="without a truststore would believe every"):
        server_context(settings(client_auth=asked, truststore=Store("truststore")))


def test_sessions_are_resumed_with_tickets() -> None:
    context = server_context(settings()).ssl
    assert context.num_tickets == 1
    assert not context.options & ssl.OP_NO_TICKET


# -- settings -------------------------------------------------------------------------------------


def read(texts: dict[str, object], asks_clients: bool = True) -> TlsSettings:
    return settings_of(lambda name: texts.get(name), asks_clients)


def test_settings_are_read_by_kafkas_names() -> None:
    found = read(
        {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": "/k",
            "ssl.keystore.password": "p",
            "ssl.key.password": "q",
            "ssl.truststore.certificates": "text",
            "ssl.enabled.protocols": ("TLSv1.3",),
            "ssl.client.auth": "required",
            "ssl.endpoint.identification.algorithm": "HTTPS",
        }
    )
    assert found.keystore == Store("keystore", "PKCS12", "/k", "p", "q")
    assert found.truststore == Store("truststore", certificates="text")
    assert found.versions == {"TLSv1.3"}
    assert found.client_auth == "required"
    assert found.checks_host


def test_clients_are_not_asked_where_it_does_not_count() -> None:
    assert read({"ssl.client.auth": "required"}, asks_clients=False).client_auth == "none"


def test_an_empty_algorithm_checks_no_host() -> None:
    assert not read({"ssl.endpoint.identification.algorithm": ""}).checks_host


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ssl.enabled.protocols", ("TLSv1.1", "TLSv1.3"), r"TLSv1\.1 can no longer be trusted"),
        ("ssl.enabled.protocols", ("SSLv3",), "SSLv3 can no longer be trusted"),
        ("ssl.protocol", "TLSv1", r"expected TLSv1\.3, TLSv1\.2 or TLS"),
        ("ssl.cipher.suites", ("NULL",), r"ssl\.cipher\.suites: NULL is unknown"),
        ("ssl.engine.factory.class", "com.example.Mine", "a part of Java's"),
        ("ssl.provider", "BC", "a part of Java's"),
        ("ssl.endpoint.identification.algorithm", "LDAPS", "expected https, or nothing"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(name: str, value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read({name: value})


def test_a_changed_file_changes_the_stamps(tmp_path: Path) -> None:
    path = tmp_path / "trust.pem"
    path.write_text(AUTHORITY.certificate_pem)
    made = settings(truststore=Store("truststore", "PEM", str(path)))
    before = stamps_of(made)
    assert stamps_of(made) == before
    path.write_text(AUTHORITY.certificate_pem * 2)
    assert stamps_of(made) != before


def test_what_is_shown_holds_no_secret() -> None:
    assert "PRIVATE" not in repr(settings())

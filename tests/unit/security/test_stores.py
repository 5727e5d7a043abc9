"""Keystores and truststores: PEM and PKCS12, from files and from settings."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest

from penstock.security.authority import Authority
from penstock.security.stores import (
    FILE_BYTES_MAX,
    Store,
    StoreError,
    read_keys,
    read_trusted,
    stamp_of,
)

AUTHORITY = Authority.make()
NODE = AUTHORITY.issue("node-1", ["localhost", "127.0.0.1"], organization="Example")
OTHER = AUTHORITY.issue("node-2", ["localhost"])
SECRET = "a-secret-that-nobody-repeats"


def keystore(tmp_path: Path, content: str | bytes, **settings: str) -> Store:
    return Store("keystore", location=written(tmp_path, content), **settings)


def truststore(tmp_path: Path, content: str | bytes, **settings: str) -> Store:
    return Store("truststore", location=written(tmp_path, content), **settings)


def written(tmp_path: Path, content: str | bytes) -> str:
    path = tmp_path / "store"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


# -- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PEM", "pem", None])
def test_a_pem_file_holds_key_and_chain(tmp_path: Path, kind: str | None) -> None:
    keys = read_keys(keystore(tmp_path, NODE.pem())._replace(kind=kind))
    assert keys.chain.decode() == NODE.chain_pem
    assert keys.key.decode() == NODE.key_pem()
    assert keys.subject == "CN=node-1,O=Example"
    assert keys.hosts == {"localhost", "127.0.0.1"}


def test_the_order_in_a_pem_file_and_what_stands_between_do_not_matter(tmp_path: Path) -> None:
    text = f"Bag Attributes\n{NODE.chain_pem}\nsubject=whoever\n{NODE.key_pem()}"
    assert read_keys(keystore(tmp_path, text)).chain.decode() == NODE.chain_pem


def test_an_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    store = keystore(tmp_path, NODE.pem(SECRET), kind="PEM")
    assert read_keys(store._replace(key_password=SECRET)).key.decode() == NODE.key_pem()
    with pytest.raises(StoreError, match=r"encrypted, and ssl\.key\.password is not set"):
        read_keys(store)
    with pytest.raises(StoreError, match=r"or ssl\.key\.password is wrong") as told:
        read_keys(store._replace(key_password="wrong-and-secret"))
    assert "wrong-and-secret" not in str(told.value)


def stretched(tmp_path: Path, *options: str) -> Store:
    plain, encrypted = tmp_path / "plain.pem", tmp_path / "encrypted.pem"
    plain.write_text(NODE.key_pem())
    files = ("-topk8", "-in", str(plain), "-out", str(encrypted), "-passout", f"pass:{SECRET}")
    subprocess.run(["openssl", "pkcs8", *files, *options], check=True)
    key = encrypted.read_text()
    return Store("keystore", key=key, certificates=NODE.chain_pem, key_password=SECRET)


def test_a_key_that_takes_long_to_open_is_refused_at_once(tmp_path: Path) -> None:
    """It may be altered over the wire, and everybody would wait for it."""
    slow = stretched(tmp_path, "-iter", "3000000")
    with pytest.raises(StoreError, match="takes too long to open"):
        read_keys(slow)
    many = base64.b64encode(b"\x30\x80" * 100_000).decode()
    block = f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{many}\n-----END ENCRYPTED PRIVATE KEY-----"
    with pytest.raises(StoreError, match="takes too long to open"):
        read_keys(slow._replace(key=block))


@pytest.mark.parametrize("options", [("-iter", "600000"), ("-scrypt",), ("-v1", "PBE-SHA1-3DES")])
def test_a_key_that_is_well_protected_is_opened(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert read_keys(stretched(tmp_path, *options)).key.decode() == NODE.key_pem()


def test_a_password_for_a_key_that_is_not_encrypted_does_no_harm(tmp_path: Path) -> None:
    assert read_keys(keystore(tmp_path, NODE.pem(), key_password=SECRET)).subject


def test_pkcs12_is_opened_with_its_password(tmp_path: Path) -> None:
    store = keystore(tmp_path, NODE.pkcs12(SECRET), kind="PKCS12", password=SECRET)
    assert read_keys(store).chain.decode() == NODE.chain_pem
    with pytest.raises(StoreError, match=r"ssl\.keystore\.password is wrong") as told:
        read_keys(store._replace(password="wrong-and-secret"))
    assert "wrong-and-secret" not in str(told.value)
    with pytest.raises(StoreError, match=r"ssl\.keystore\.password is missing"):
        read_keys(store._replace(password=None))


@pytest.mark.parametrize("kind", [None, "JKS"])
def test_pkcs12_is_read_where_jks_was_said_or_nothing(tmp_path: Path, kind: str | None) -> None:
    store = keystore(tmp_path, NODE.pkcs12(SECRET), password=SECRET)._replace(kind=kind)
    assert read_keys(store).subject == "CN=node-1,O=Example"


def test_jks_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    store = keystore(tmp_path, b"\xfe\xed\xfe\xed\0\0\0\2", password=SECRET)
    with pytest.raises(StoreError, match="keytool -importkeystore") as told:
        read_keys(store)
    assert f"-srckeystore {store.location} " in str(told.value)
    assert "ssl.keystore.type=PKCS12" in str(told.value)
    assert SECRET not in str(told.value)


def test_keys_may_be_written_out_in_the_settings() -> None:
    store = Store("keystore", "PEM", key=NODE.key_pem(), certificates=NODE.chain_pem)
    assert read_keys(store).chain.decode() == NODE.chain_pem


def test_a_properties_file_takes_the_line_breaks_of_pem_away() -> None:
    def flat(text: str) -> str:
        return text.replace("\n", " ").replace("----- ", "-----").replace(" -----", "-----")

    store = Store("keystore", "PEM", key=flat(NODE.key_pem()), certificates=flat(NODE.chain_pem))
    keys = read_keys(store)
    assert keys.chain.decode() == NODE.chain_pem
    assert keys.key.decode() == NODE.key_pem()


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (Store("keystore", "PEM", key=NODE.key_pem()), "go together"),
        (Store("keystore", "PEM", certificates=NODE.chain_pem), "go together"),
        (
            Store("keystore", "PEM", "/a/file", key=NODE.key_pem(), certificates=NODE.chain_pem),
            "both set",
        ),
        (
            Store("keystore", "PKCS12", key=NODE.key_pem(), certificates=NODE.chain_pem),
            "has to be PEM",
        ),
        (
            Store("keystore", "PEM", key=NODE.key_pem(), certificates=OTHER.chain_pem),
            "does not belong to the first certificate",
        ),
        (Store("keystore", "BKS", "/a/file"), r"ssl\.keystore\.type=BKS: expected PEM or PKCS12"),
        (Store("keystore", "PEM", "/not/there"), "No such file"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(store: Store, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        read_keys(store)


@pytest.mark.parametrize(
    ("content", "settings", "reason"),
    [
        (NODE.chain_pem, {}, "expected one private key and found 0"),
        (NODE.pem() + OTHER.pem(), {}, "expected one private key and found 2"),
        (NODE.key_pem(), {}, "no certificate beside"),
        (NODE.pem(), {"kind": "PKCS12"}, r"but PEM: set ssl\.keystore\.type=PEM"),
        (NODE.pem(), {"password": SECRET}, r"set ssl\.key\.password instead"),
        (NODE.pkcs12("x"), {"kind": "PEM"}, "but PKCS12"),
        (AUTHORITY.truststore("x"), {"password": "x"}, "no private key with a certificate"),
        ("hello", {}, "this is not PEM or PKCS12"),
        ("", {}, "this is not PEM or PKCS12"),
        (b"\x30\x82\x01", {"password": "x"}, "or the file is damaged"),
        ("x" * (FILE_BYTES_MAX + 1), {}, "has more than"),
        (NODE.pem().replace("MI", "XX"), {}, "damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, content: str | bytes, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(StoreError, match=reason):
        read_keys(keystore(tmp_path, content, **settings))


# -- trust ----------------------------------------------------------------------------------------


def test_trust_is_read_from_pem_and_pkcs12_and_settings(tmp_path: Path) -> None:
    expected = AUTHORITY.certificate_pem
    assert read_trusted(truststore(tmp_path, expected)) == expected
    packed = truststore(tmp_path, AUTHORITY.truststore(SECRET), password=SECRET)
    assert read_trusted(packed) == expected
    assert read_trusted(Store("truststore", "PEM", certificates=expected)) == expected


def test_a_truststore_may_hold_many_authorities(tmp_path: Path) -> None:
    both = AUTHORITY.certificate_pem + Authority.make("another").certificate_pem
    assert read_trusted(truststore(tmp_path, both)) == both


@pytest.mark.parametrize(
    ("content", "settings", "reason"),
    [
        (NODE.key_pem(), {}, "no certificate in it"),
        (AUTHORITY.certificate_pem, {"password": SECRET}, "is not for PEM"),
        (AUTHORITY.truststore("x"), {"password": "y"}, r"ssl\.truststore\.password is wrong"),
        (AUTHORITY.certificate_pem.replace("MI", "XX"), {}, "a certificate in it is damaged"),
    ],
)
def test_trust_that_cannot_be_read_is_refused(
    tmp_path: Path, content: str | bytes, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(StoreError, match=reason):
        read_trusted(truststore(tmp_path, content, **settings))


# -- besides --------------------------------------------------------------------------------------


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """A pipe that nobody writes to would hold up whoever opens it for ever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for wanted in (str(path), "/dev/zero", str(tmp_path)):
        with pytest.raises(StoreError, match=r"cannot be read|is not a file"):
            read_keys(Store("keystore", location=wanted))


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    store = keystore(tmp_path, NODE.pem(SECRET), key_password=SECRET)
    inline = Store("keystore", "PEM", key=NODE.key_pem(), certificates=NODE.chain_pem)
    shown = f"{store!r} {inline!r} {read_keys(store)!r}"
    assert SECRET not in shown
    assert "PRIVATE" not in shown


def test_a_file_that_was_replaced_has_another_stamp(tmp_path: Path) -> None:
    store = keystore(tmp_path, NODE.pem())
    before = stamp_of(store)
    assert stamp_of(store) == before
    keystore(tmp_path, OTHER.pem())
    assert stamp_of(store) != before
    Path(str(store.location)).unlink()
    assert stamp_of(store) is None


def test_a_key_of_the_old_kind_is_read_with_its_headers(tmp_path: Path) -> None:
    path = tmp_path / "rsa.pem"
    command = ["openssl", "genrsa", "-traditional", "-aes128", "-passout", f"pass:{SECRET}"]
    subprocess.run([*command, "-out", str(path), "2048"], check=True, capture_output=True)
    command = ["openssl", "req", "-x509", "-key", str(path), "-passin", f"pass:{SECRET}"]
    made = subprocess.run([*command, "-subj", "/CN=old"], check=True, capture_output=True)
    assert "Proc-Type" in path.read_text()
    store = keystore(tmp_path, path.read_bytes() + made.stdout, key_password=SECRET)
    assert read_keys(store).subject == "CN=old"


@pytest.mark.parametrize("options", [(), ("-legacy",)])
def test_pkcs12_that_openssl_packed_is_opened(tmp_path: Path, options: tuple[str, ...]) -> None:
    plain = tmp_path / "plain.pem"
    plain.write_text(NODE.pem())
    command = ["openssl", "pkcs12", "-export", "-in", str(plain), "-passout", f"pass:{SECRET}"]
    made = subprocess.run([*command, *options], capture_output=True, check=True)
    store = keystore(tmp_path, made.stdout, password=SECRET)
    assert read_keys(store).chain.decode().startswith(NODE.chain_pem[:500])

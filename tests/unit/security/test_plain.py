"""PLAIN: who comes in with which password, in which forms passwords are kept, any bytes at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.security.mechanisms import Accepted, Outcome, Refused
from penstock.security.plain import PlainMechanism, keep, written
from penstock.security.principal import Principal
from tests.unit.security.users import NOW, SHA256, SHA512, accounts, kept, settled

FILE = {"alice": keep("alice-secret", b"1" * 16), "shadowed": keep("of the file", b"2" * 16)}
METADATA = {
    ("SCRAM-SHA-256", "bob"): kept("bob-secret"),
    ("SCRAM-SHA-512", "carol"): kept("carol-secret", kind="SCRAM-SHA-512"),
    ("SCRAM-SHA-256", "both"): kept("older"),
    ("SCRAM-SHA-512", "both"): kept("newer", kind="SCRAM-SHA-512"),
    ("SCRAM-SHA-512", "shadowed"): kept("of the metadata", kind="SCRAM-SHA-512"),
}
MECHANISM = PlainMechanism(FILE)


def outcome_of(message: bytes | str) -> Outcome:
    data = message if isinstance(message, bytes) else message.encode()
    return settled(MECHANISM.begin(accounts(METADATA), b"").step(data, NOW))


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("alice", "alice-secret"),
        ("bob", "bob-secret"),
        ("carol", "carol-secret"),
        ("both", "newer"),
        ("shadowed", "of the file"),
    ],
)
def test_the_right_password_lets_in(user: str, password: str) -> None:
    assert outcome_of(f"\0{user}\0{password}") == Accepted(Principal(user))
    assert outcome_of(f"{user}\0{user}\0{password}") == Accepted(Principal(user))


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("alice", "wrong"),
        ("alice", "alice-secret "),
        ("bob", "alice-secret"),
        ("nobody", "alice-secret"),
        ("shadowed", "of the metadata"),
        ("ALICE", "alice-secret"),
        ("", "alice-secret"),
        ("alice", ""),
    ],
)
def test_all_others_hear_the_same(user: str, password: str) -> None:
    refused = outcome_of(f"\0{user}\0{password}")
    assert isinstance(refused, Refused)
    assert refused.told == "wrong user name or password"
    assert refused.user == user


def test_nobody_acts_as_somebody_else_even_with_the_right_password() -> None:
    refused = outcome_of("bob\0alice\0alice-secret")
    assert isinstance(refused, Refused)
    assert "authorization id" in refused.told


@pytest.mark.parametrize(
    "message",
    [b"", b"alice", b"alice\0alice-secret", b"\0a\0b\0c", b"\0alice\0\xff", b"\0" + b"x" * 5000],
)
def test_a_message_of_another_form_is_refused(message: bytes) -> None:
    assert isinstance(outcome_of(message), Refused)


@settings(max_examples=50)
@given(st.binary(max_size=40))
def test_any_bytes_are_refused_and_never_raise(message: bytes) -> None:
    assert isinstance(outcome_of(message), Refused)


@pytest.mark.parametrize("kind", [SHA256, SHA512])
def test_a_password_may_be_written_stretched(kind: object) -> None:
    mechanism = SHA256 if kind is SHA256 else SHA512
    text = written(mechanism, kept("alice-secret", kind=mechanism.name, rounds=5000))
    assert text.startswith(f"{mechanism.name}$5000:")
    assert "alice-secret" not in text
    read = keep(text, b"unused")
    assert read.opens("alice-secret")
    assert not read.opens(text)
    assert not read.opens("another")


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-256$",
        "SCRAM-SHA-256$4096",
        "SCRAM-SHA-256$4096:c2FsdA==$AAAA:AAAA",
        "SCRAM-SHA-256$x:c2FsdA==$AAAA:AAAA",
        "SCRAM-SHA-512$" + written(SHA256, kept("x")).partition("$")[2],
        written(SHA256, kept("x", rounds=4096)).replace("$4096:", "$1:"),
        written(SHA256, kept("x", rounds=4096)).replace("$4096:", "$1000001:"),
    ],
)
def test_what_looks_stretched_and_is_not_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="SCRAM-SHA") as caught:
        keep(text, b"salt")
    assert text.partition(":")[2][:8] not in str(caught.value) or not text.partition(":")[2]


def test_a_password_that_only_begins_so_is_a_password() -> None:
    assert keep("SCRAM-SHA-256", b"salt" * 4).opens("SCRAM-SHA-256")
    assert keep("SCRAM-MD5$x", b"salt" * 4).opens("SCRAM-MD5$x")


def test_what_is_kept_shows_nothing() -> None:
    assert "alice-secret" not in repr(FILE)
    assert repr(FILE["alice"].credential.stored_key) not in repr(FILE)

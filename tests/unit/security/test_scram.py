"""SCRAM's server: the example of RFC 7677, everything that may be wrong, and any bytes at all."""

from __future__ import annotations

import base64
from collections import UserDict
from collections.abc import ItemsView

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.delegation_tokens import DelegationTokensImage
from penstock.metadata.scram import ScramCredential, ScramImage
from penstock.security.accounts import Accounts, Vault
from penstock.security.mechanisms import Accepted, Challenge, Outcome, Refused
from penstock.security.own_login import ScramCredentials, Slow
from penstock.security.principal import Principal
from penstock.security.scram import ScramExchange, ScramMechanism
from penstock.security.scram_keys import Mechanism
from penstock.security.tokens import token_hmac
from tests.unit.security.users import NOW, SECRET, SHA256, SHA512, accounts, kept, settled, token

CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = f"n,,n=user,r={CLIENT_NONCE}"
SERVER_FIRST = f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
UNPROVED = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE}"
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = f"{UNPROVED},p={PROOF}"
SIGNATURE = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

USER = {("SCRAM-SHA-256", "user"): kept("pencil", SALT)}


def exchange(known: Accounts | None = None) -> ScramExchange:
    return ScramExchange(SHA256, known or accounts(USER), SERVER_NONCE)


def said(what: ScramExchange, *messages: str | bytes) -> list[Outcome]:
    return [
        settled(what.step(each if isinstance(each, bytes) else each.encode(), NOW))
        for each in messages
    ]


def logged_in(
    kind: Mechanism, known: Accounts, user: str, password: str, by_token: bool = False
) -> Outcome:
    """What our own client and server make of each other."""
    server = ScramMechanism(kind).begin(known, b"n" * 24)
    client = ScramCredentials(kind, user, password, by_token).begin(b"c" * 24)
    challenge, outcome = b"", None
    while (message := client.step(challenge)) is not None:
        if isinstance(message, Slow):
            message = message.then(message.run())
        outcome = settled(server.step(message, NOW))
        if isinstance(outcome, Refused):
            return outcome
        assert isinstance(outcome, Challenge | Accepted)
        challenge = outcome.data
    assert outcome is not None
    return outcome


def test_the_example_of_rfc_7677_goes_as_written() -> None:
    first, last = said(exchange(), FIRST, FINAL)
    assert first == Challenge(SERVER_FIRST.encode())
    assert last == Accepted(Principal("user"), f"v={SIGNATURE}".encode())


@pytest.mark.parametrize(
    "message",
    [
        "",
        "n",
        "n,,",
        "n,,n=user",
        "n,,r=abc,n=user",
        "p=tls-unique,,n=user,r=abc",
        "n,user,n=user,r=abc",
        "n,,m=ext,n=user,r=abc",
        "n,,n=,r=abc",
        "n,,n=a=b,r=abc",
        "n,,n=a=2cb,r=abc",
        "n,,n=user,r=",
        "n,,n=user,r=a b",
        "n,,n=user,r=abc,tokenauth",
        "n,,n=user,r=abc,=x",
        "n,,n=us\0er,r=abc",
        b"n,,n=\xff\xfe,r=abc",
        "n,,n=user,r=" + "x" * 5000,
        "n,,n=user,r=" + "x" * 2000,
    ],
)
def test_a_first_message_that_is_none_is_refused_and_ends_it(message: str | bytes) -> None:
    what = exchange()
    assert isinstance(said(what, message)[0], Refused)
    assert isinstance(said(what, FIRST)[0], Refused)


@pytest.mark.parametrize(
    "message",
    [
        "",
        UNPROVED,
        f"{UNPROVED},p=",
        f"{UNPROVED},p=AAAA",
        f"{UNPROVED},p=no base64!",
        f"{UNPROVED},p={base64.b64encode(bytes(32)).decode()}",
        f"c=biws,r={CLIENT_NONCE},p={PROOF}",
        f"c=biws,r={SERVER_NONCE},p={PROOF}",
        f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE}x,p={PROOF}",
        f"c=eSws,r={CLIENT_NONCE}{SERVER_NONCE},p={PROOF}",
        f"c=,r={CLIENT_NONCE}{SERVER_NONCE},p={PROOF}",
        f"r={CLIENT_NONCE}{SERVER_NONCE},c=biws,p={PROOF}",
        f"{UNPROVED},x=y,p={PROOF}",
        "\udcff".encode("utf-8", "surrogateescape"),
    ],
)
def test_a_last_message_that_proves_nothing_is_refused(message: str | bytes) -> None:
    what = exchange()
    said(what, FIRST)
    assert isinstance(said(what, message)[0], Refused)
    assert isinstance(said(what, FINAL)[0], Refused), "and there is no second try"


def test_nothing_is_taken_after_the_end() -> None:
    what = exchange()
    assert isinstance(said(what, FIRST, FINAL)[1], Accepted)
    assert isinstance(said(what, FINAL)[0], Refused)


def test_a_client_acts_as_itself_only() -> None:
    known = accounts({("SCRAM-SHA-256", name): kept("pencil") for name in ("user", "root")})
    (refused,) = said(exchange(known), f"n,a=root,n=user,r={CLIENT_NONCE}")
    assert isinstance(refused, Refused)
    assert "authorization id" in refused.told
    (challenge,) = said(exchange(), f"n,a=user,n=user,r={CLIENT_NONCE}")
    assert isinstance(challenge, Challenge)


def test_a_stranger_cannot_be_told_from_a_user_with_a_wrong_password() -> None:
    answers = []
    for name in ("user", "nobody"):
        first, last = said(exchange(), f"n,,n={name},r={CLIENT_NONCE}", f"{UNPROVED},p={PROOF}=")
        again, _ = said(exchange(), f"n,,n={name},r={CLIENT_NONCE}", FINAL)
        assert first == again, "the salt of a stranger is the same each time"
        assert isinstance(first, Challenge)
        assert isinstance(last, Refused)
        nonce, salt, rounds = first.data.decode().split(",")
        answers.append((nonce, len(salt), rounds, last.told))
    assert answers[0] == answers[1]


def test_the_reason_is_for_the_operator_alone() -> None:
    wrong = kept("another", SALT)
    known = accounts({("SCRAM-SHA-256", "user"): wrong})
    _, refused = said(exchange(known), FIRST, FINAL)
    assert refused == Refused("user", "wrong password", "")
    _, refused = said(exchange(accounts()), FIRST, FINAL)
    assert refused == Refused("user", "unknown user", "")


class Counted(UserDict[tuple[int, str], ScramCredential]):
    """Knows how often somebody looked through all of it."""

    looks = 0

    def items(self) -> ItemsView[tuple[int, str], ScramCredential]:
        self.looks += 1
        return super().items()


def test_users_are_not_all_looked_at_for_each_stranger() -> None:
    users = Counted({(SHA512.number, f"user-{number}"): kept("x") for number in range(3)})
    vault = Vault(SECRET, "a cluster")
    image = ScramImage(users)
    for number in range(10):
        known = Accounts(vault, image, DelegationTokensImage())
        assert known.of_user(SHA256, f"nobody-{number}").principal is None
    assert users.looks == 1
    later = ScramImage({(SHA256.number, "user"): kept("x", rounds=8192)})
    assert vault.decoy(SHA256, "nobody", later).iterations == 8192


def test_a_decoy_has_no_password_that_opens_it() -> None:
    # All keys of a decoy are zeros: a client that counts on it must not come in.
    for password in ("", "\0", "0" * 64):
        assert isinstance(logged_in(SHA256, accounts(), "nobody", password), Refused)


def test_a_credential_with_too_few_iterations_opens_nothing() -> None:
    weak = kept("pencil", SALT, rounds=1000)
    _, refused = said(exchange(accounts({("SCRAM-SHA-256", "user"): weak})), FIRST, FINAL)
    assert isinstance(refused, Refused)


@pytest.mark.parametrize("kind", [SHA256, SHA512])
@pytest.mark.parametrize("user", ["alice", "a=b,c", "Ærøskøbing", "=2C"])
def test_our_own_client_comes_in(kind: Mechanism, user: str) -> None:
    known = accounts({(kind.name, user): kept("pässword", kind=kind.name)})
    accepted = logged_in(kind, known, user, "pässword")
    assert isinstance(accepted, Accepted)
    assert accepted.principal == Principal(user)
    assert isinstance(logged_in(kind, known, user, "password"), Refused)
    other = SHA512 if kind is SHA256 else SHA256
    assert isinstance(logged_in(other, known, user, "pässword"), Refused)


def secret_of(token_id: str) -> str:
    return base64.b64encode(token_hmac(SECRET, token_id)).decode()


@pytest.mark.parametrize("kind", [SHA256, SHA512])
def test_who_shows_a_delegation_token_is_its_owner_until_it_ends(kind: Mechanism) -> None:
    known = accounts(tokens={"id-1": token("User:alice", NOW + 5000)})
    for _ in range(2):  # the second time what was derived from it is remembered
        accepted = logged_in(kind, known, "id-1", secret_of("id-1"), by_token=True)
        assert isinstance(accepted, Accepted)
        assert accepted.principal == Principal("alice", by_token=True)
        assert accepted.expires == NOW + 5000


def test_a_token_that_is_unknown_or_over_or_not_wanted_opens_nothing() -> None:
    shown = ("id-1", secret_of("id-1"))
    for known in (
        accounts(),
        accounts(tokens={"id-1": token(ends=NOW - 1)}),
        accounts(tokens={"id-1": token(owner="nobody")}),
        accounts(tokens={"id-1": token()}, secret=None),
        accounts(tokens={"id-1": token()}, secret="another key"),
    ):
        assert isinstance(logged_in(SHA256, known, *shown, by_token=True), Refused)
    known = accounts(tokens={"id-1": token()})
    assert isinstance(logged_in(SHA256, known, *shown, by_token=False), Refused)
    assert isinstance(logged_in(SHA256, known, "id-1", "wrong", by_token=True), Refused)


def test_tokens_that_strangers_make_up_are_not_remembered() -> None:
    """Their ids may be long, and they would drive out the secrets of those that there are."""
    before = token_hmac.cache_info().currsize
    for number in range(3):
        shown = (f"made-up-{number}" + "x" * 1000, "secret")
        assert isinstance(logged_in(SHA256, accounts(), *shown, by_token=True), Refused)
    assert token_hmac.cache_info().currsize == before


def test_a_users_password_is_no_tokens_secret() -> None:
    known = accounts(USER, {"user": token("User:root")})
    assert isinstance(logged_in(SHA256, known, "user", "pencil", by_token=True), Refused)


def test_nothing_secret_is_in_what_may_be_logged() -> None:
    what = (kept("pencil"), ScramCredentials(SHA256, "user", "pencil"), *said(exchange(), FIRST))
    assert "pencil" not in repr(what)
    assert isinstance(what[0], ScramCredential)
    assert repr(what[0].stored_key) not in repr(what)


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=60), max_size=3), st.booleans())
def test_any_bytes_are_refused_and_never_raise(messages: list[bytes], begun: bool) -> None:
    what = exchange()
    if begun:
        said(what, FIRST)
    for message in messages:
        outcome = settled(what.step(message, NOW))
        assert isinstance(outcome, Refused | Challenge)


@settings(max_examples=100)
@given(st.data())
def test_changed_messages_never_come_in(data: st.DataObject) -> None:
    final = bytearray(FINAL.encode())
    at = data.draw(st.integers(0, len(final) - 1))
    final[at] = data.draw(st.integers(0, 255).filter(lambda value: value != FINAL.encode()[at]))
    what = exchange()
    said(what, FIRST)
    assert isinstance(said(what, bytes(final))[0], Refused)

"""OAUTHBEARER: which tokens count, what is said of the others, and how keys are asked for."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from penstock.model.ids import Millis
from penstock.platform.workers import InlineWorkers
from penstock.security.mechanisms import Accepted, Challenge, Outcome, Refresh, Refused
from penstock.security.oauth import OAuthExchange, OAuthMechanism, Rules, judge, shown
from penstock.security.oauth_keys import AGAIN_SECONDS_MIN, BYTES_MAX, Keys, read_keys
from penstock.security.principal import Principal
from penstock.security.retrieval import RetrievalFailed, check_url, retrieve
from tests.unit.security.signing import AUDIENCE, ISSUER, Issuer, key_set
from tests.unit.security.users import NOW, accounts, settled

RULES = Rules(ISSUER, (AUDIENCE, "another"))
SIGNER = Issuer()
SECONDS = NOW // 1000


def keys_of(*issuers: Issuer) -> Keys:
    keys = Keys("file:///none", 60_000, lambda *_: key_set(*[each.public for each in issuers]))
    keys.load()
    return keys


def exchange(rules: Rules = RULES) -> OAuthExchange:
    return OAuthMechanism(rules, keys_of(SIGNER)).begin(accounts(), b"")


def outcome_of(token: str, rules: Rules = RULES) -> Outcome:
    return settled(exchange(rules).step(shown(token), NOW))


def unsigned(claims: dict[str, Any], **header: Any) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'typ': 'JWT', **header})}.{part(claims)}."


@pytest.mark.parametrize("algorithm", ["RS256", "PS512", "ES256", "EdDSA"])
def test_a_token_that_counts_lets_in_until_it_ends(algorithm: str) -> None:
    issuer = Issuer(algorithm)
    what = OAuthExchange(RULES, keys_of(issuer, Issuer(key_id="key-2")))
    outcome = settled(what.step(shown(issuer.sign()), NOW))
    assert outcome == Accepted(Principal("alice"), b"", Millis(NOW + 60_000))


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": SECONDS - 31},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": 1e300},
        {"exp": 10**1000},
        {"exp": -1},
        {"nbf": SECONDS + 31},
        {"iat": SECONDS + 31},
        {"iat": "now"},
        {"iss": None},
        {"iss": "https://another.example"},
        {"aud": None},
        {"aud": "somebody else"},
        {"aud": ["somebody", "else"]},
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 256},
        {"sub": "\ud800"},
        {"sub": "alice\0"},
        {"sub": "alice\u200b"},
        {"sub": "alice\n"},
        {"scope": 7},
        {"scope": [7]},
    ],
)
def test_a_token_that_lacks_something_does_not_count(claims: dict[str, Any]) -> None:
    what = exchange()
    assert settled(what.step(shown(SIGNER.sign(claims)), NOW)) == Challenge(
        b'{"status":"invalid_token"}'
    )
    refused = what.step(b"\x01", NOW)
    assert isinstance(refused, Refused)
    assert refused.told == '{"status":"invalid_token"}'
    assert isinstance(what.step(shown(SIGNER.sign()), NOW), Refused), "there is no second try"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": SECONDS - 20},
        {"nbf": SECONDS + 20},
        {"iat": None},
        {"exp": SECONDS + 1.5},
        {"aud": ["penstock", "x"]},
        {"aud": "another"},
        {"scope": "read write"},
        {"scope": ["read"]},
    ],
)
def test_clocks_may_differ_a_little_and_the_rest_is_optional(claims: dict[str, Any]) -> None:
    accepted = outcome_of(SIGNER.sign(claims))
    assert isinstance(accepted, Accepted)
    assert accepted.expires is not None
    assert accepted.expires > NOW


def test_the_claim_with_the_name_can_be_chosen() -> None:
    rules = RULES._replace(name_claim="azp")
    accepted = outcome_of(SIGNER.sign({"azp": "bob"}), rules)
    assert isinstance(accepted, Accepted)
    assert accepted.principal == Principal("bob")
    assert isinstance(outcome_of(SIGNER.sign(), rules), Challenge)


GOOD = {"iss": ISSUER, "aud": AUDIENCE, "sub": "root", "exp": SECONDS + 60}


@pytest.mark.parametrize(
    "token",
    [
        unsigned(GOOD, alg="none"),
        unsigned(GOOD, alg="none", kid="key-1"),
        unsigned(GOOD, alg="None", kid="key-1"),
        unsigned(GOOD, kid="key-1"),
        unsigned(GOOD, alg="ES256", kid="key-1"),
        unsigned(GOOD, alg="ES256", kid="key-1") + "AAAA",
        # What is public of the key as a shared secret.
        jwt.encode(GOOD, SIGNER.public["x"], "HS256", {"kid": "key-1"}),
        Issuer().sign(),
        Issuer(key_id="unknown").sign(),
        Issuer("RS256").sign(),
        SIGNER.sign(headers={"crit": ["exp"]}),
        SIGNER.sign(headers={"kid": None}).replace(".", "", 1),
        "a.b.c",
        "....",
        base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.AAAA",
    ],
)
def test_a_forged_token_does_not_count(token: str) -> None:
    assert outcome_of(token) == Challenge(b'{"status":"invalid_token"}')


def test_a_token_without_a_key_id_means_the_only_key() -> None:
    token = SIGNER.sign(headers={"kid": None})
    assert isinstance(outcome_of(token), Accepted)
    verdict = judge(token, read_keys(key_set(SIGNER.public, Issuer(key_id="2").public)), RULES, NOW)
    assert verdict.unknown_key


def test_a_client_acts_as_its_token_says_only() -> None:
    plain = shown(SIGNER.sign())
    assert isinstance(settled(exchange().step(plain.replace(b"n,,", b"n,a=alice,"), NOW)), Accepted)
    refused = settled(exchange().step(plain.replace(b"n,,", b"n,a=root,"), NOW))
    assert isinstance(refused, Refused)
    assert "authorization id" in refused.told


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer x",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,\x01auth\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer x\x01\x01",
        b"n,root,\x01auth=Bearer x\x01\x01",
        b"n,,x\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * 70_000 + b"\x01\x01",
    ],
)
def test_a_message_of_another_form_is_refused(message: bytes) -> None:
    assert isinstance(settled(exchange().step(message, NOW)), Refused)


def test_extensions_and_the_hosts_name_are_read_over() -> None:
    message = shown(SIGNER.sign()).replace(b"\x01\x01", b"\x01host=h\x01port=1\x01x=y\x01\x01")
    assert isinstance(settled(exchange().step(message, NOW)), Accepted)


@settings(max_examples=100)
@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_are_refused_and_never_raise(message: bytes, framed: bool) -> None:
    data = b"n,,\x01auth=Bearer " + message + b"\x01\x01" if framed else message
    assert isinstance(settled(exchange().step(data, NOW)), Refused | Challenge)


@settings(max_examples=60)
@given(st.data())
def test_a_changed_token_never_counts(data: st.DataObject) -> None:
    token = SIGNER.sign()
    at = data.draw(st.integers(0, len(token) - 2))  # the last character has bits to spare
    letter = data.draw(st.sampled_from("AZaz09-_.").filter(lambda each: each != token[at]))
    assert not isinstance(outcome_of(token[:at] + letter + token[at + 1 :]), Accepted)


# -- keys -----------------------------------------------------------------------------------------


def test_keys_that_could_also_sign_or_are_for_other_uses_are_left_out() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"}
    other = {**Issuer(key_id="enc").public, "use": "enc"}
    symmetric = {**SIGNER.public, "kid": "hs", "alg": "HS256"}
    broken = {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"}
    weak = rsa.generate_private_key(65537, 1024).public_key()
    short = {**RSAAlgorithm.to_jwk(weak, as_dict=True), "kid": "short"}
    found = read_keys(key_set(SIGNER.public, secret, other, symmetric, broken, short))
    assert set(found) == {"key-1"}
    assert "HS256" not in found["key-1"].algorithms
    assert "none" not in found["key-1"].algorithms


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": []}', b"[" * 100_000, key_set(*[{}] * 101)],
)
def test_what_is_no_set_of_keys_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="it"):
        read_keys(data)


class Source:
    """Where keys come from, and how often they were asked for."""

    def __init__(self) -> None:
        self.issuers = [SIGNER]
        self.asked = 0
        self.broken = False

    def __call__(self, url: str, bytes_max: int, seconds_max: float) -> bytes:
        assert (url, bytes_max) == ("https://issuer.example/keys", BYTES_MAX)
        assert seconds_max > 0
        self.asked += 1
        if self.broken:
            raise RetrievalFailed("no route")
        return key_set(*[each.public for each in self.issuers])


class Time:
    """The loop's clock, to be moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)


async def logged_in(keys: Keys, token: str) -> Outcome:
    """What comes of a token, with keys asked for as the exchange wants it."""
    outcome = OAuthExchange(RULES, keys).step(shown(token), NOW)
    while not isinstance(outcome, Accepted | Challenge | Refused):
        if isinstance(outcome, Refresh):
            await keys.refresh(InlineWorkers(), outcome.missing)
            outcome = outcome.then()
        else:
            outcome = outcome.then(outcome.run())
    return outcome


async def test_keys_are_asked_for_when_needed_and_seldom() -> None:
    source = Source()
    keys = Keys("https://issuer.example/keys", 3_600_000, source)
    assert source.asked == 0
    assert isinstance(await logged_in(keys, SIGNER.sign()), Accepted)
    assert isinstance(await logged_in(keys, SIGNER.sign()), Accepted)
    assert source.asked == 1
    for _ in range(20):
        assert isinstance(await logged_in(keys, Issuer(key_id="forged").sign()), Challenge)
    assert source.asked == 1, "a moment ago is soon enough"


async def test_a_new_key_is_found_by_its_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    time, source, newer = Time(monkeypatch), Source(), Issuer(key_id="key-2")
    keys = Keys("https://issuer.example/keys", 3_600_000, source)
    assert isinstance(await logged_in(keys, SIGNER.sign()), Accepted)
    source.issuers = [newer]
    time.now += AGAIN_SECONDS_MIN
    assert isinstance(await logged_in(keys, newer.sign()), Accepted)
    assert isinstance(await logged_in(keys, SIGNER.sign()), Challenge), "the old one is gone"


async def test_old_keys_are_asked_for_again_and_stay_if_that_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    time, source = Time(monkeypatch), Source()
    keys = Keys("https://issuer.example/keys", 3_600_000, source)
    assert isinstance(await logged_in(keys, SIGNER.sign()), Accepted)
    source.broken = True
    time.now += 3600
    assert isinstance(await logged_in(keys, SIGNER.sign()), Accepted)
    assert source.asked == 2
    assert "no route" in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "",
        "keys.json",
        "ftp://x/keys",
        "http://issuer.example/keys",
        "http://10.0.0.1/keys",
        "https:///keys",
        "https://user:pw@issuer.example/keys",
        "https://issuer.example:0/keys",
        "https://issuer.example:port/keys",
        "file://host/keys",
        "file:keys",
    ],
)
def test_keys_come_over_no_open_road(url: str) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        check_url(url)


@pytest.mark.parametrize(
    "url",
    ["https://issuer.example/keys", "http://127.0.0.1:8080/keys", "http://localhost/", "file:///k"],
)
def test_https_files_and_this_machine_will_do(url: str) -> None:
    check_url(url)


def test_a_file_has_a_bound_and_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "keys with blanks.json"
    url = f"file://{path}".replace(" ", "%20")
    with pytest.raises(RetrievalFailed, match="No such file"):
        retrieve(url, 100, 1.0)
    path.write_bytes(b"x" * 101)
    with pytest.raises(RetrievalFailed, match="more than 100 bytes"):
        retrieve(url, 100, 1.0)
    path.write_bytes(b"x" * 100)
    assert retrieve(url, 100, 1.0) == b"x" * 100

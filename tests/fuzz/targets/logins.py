"""SASL, from both sides, and what decides about proofs: tokens, keys, certificates, JAAS, rules.

A login's input is a byte for the mechanism and messages with a separator between them. Whoever is
let in must have shown the right proof, as the reference here computes it: anything else that a
mutation gets accepted is a forgery.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from penstock.metadata.scram import SHA_256, SHA_512, ScramImage
from penstock.model.ids import Millis
from penstock.security.accounts import Accounts, Vault
from penstock.security.jaas import JaasProblem, parse_jaas
from penstock.security.mechanisms import Accepted, Challenge, Mechanism, Outcome, Refused, Work
from penstock.security.oauth import OAuthMechanism, Rules, shown
from penstock.security.oauth_keys import read_keys
from penstock.security.own_login import NotBelieved, ScramCredentials, Slow
from penstock.security.plain import PlainMechanism, keep
from penstock.security.principal_rules import PrincipalRules
from penstock.security.scram import ScramMechanism
from penstock.security.scram_keys import ITERATIONS_MIN, MECHANISMS, credential, salted
from tests.fuzz.target import Target

BETWEEN = b"\xff\xff"
NOW = Millis(1_700_000_000_000)
USER, PASSWORD = "alice", "canary-pencil"
NONCE = b"n" * 24
STEPS_MAX = 4
SALT = b"s" * 32


@functools.cache
def _stretched(number: int) -> bytes:
    return salted(MECHANISMS[number], PASSWORD, SALT, ITERATIONS_MIN)


@functools.cache
def _accounts() -> Accounts:
    users = {
        (number, USER): credential(MECHANISMS[number], SALT, ITERATIONS_MIN, _stretched(number))
        for number in (SHA_256, SHA_512)
    }
    tokens = SimpleNamespace(by_id={})
    image: Any = SimpleNamespace(scram=ScramImage(users), delegation_tokens=tokens)
    return Accounts(Vault("canary-secret", "cluster"), image.scram, image.delegation_tokens)


# -- the server's side ----------------------------------------------------------------------------


def log_in(data: bytes) -> None:
    """Any messages: each gets an outcome, and nobody is let in without the proof."""
    if not data:
        return
    number = data[0] % 4
    messages = data[1:].split(BETWEEN)[:STEPS_MAX]
    exchange = _mechanisms()[number].begin(_accounts(), NONCE)
    answers: list[bytes] = []
    for message in messages:
        outcome = _driven(exchange.step(message, NOW))
        if isinstance(outcome, Refused):
            assert PASSWORD not in outcome.reason + outcome.told
            return
        answers.append(outcome.data)
        if isinstance(outcome, Accepted):
            assert outcome.principal.name == USER
            assert _proved(number, messages, answers), "somebody came in without the proof"
            return


def _driven(outcome: Outcome) -> Challenge | Accepted | Refused:
    for _ in range(6):
        if isinstance(outcome, Challenge | Accepted | Refused):
            return outcome
        outcome = outcome.then(outcome.run()) if isinstance(outcome, Work) else outcome.then()
    raise AssertionError("an exchange that goes on asking for work")


@functools.cache
def _mechanisms() -> list[Mechanism]:
    keys: Any = SimpleNamespace(known=read_keys(_key_set()))
    return [
        PlainMechanism({USER: keep(PASSWORD, SALT)}),
        ScramMechanism(MECHANISMS[SHA_256]),
        ScramMechanism(MECHANISMS[SHA_512]),
        OAuthMechanism(Rules("https://issuer", ("kafka",)), keys),
    ]


def _proved(number: int, messages: list[bytes], answers: list[bytes]) -> bool:
    if number == 0:
        return messages[0].split(b"\0")[1:] == [USER.encode(), PASSWORD.encode()]
    if number == 3:
        signed = messages[0].split(b"Bearer ")[-1].partition(b"\x01")[0].strip().rpartition(b".")[0]
        return signed == _token().encode().rpartition(b".")[0]
    kind = MECHANISMS[(SHA_256, SHA_512)[number - 1]]
    bare = messages[0].split(b",", 2)[2]
    unproved, _, proof = messages[1].rpartition(b",p=")
    signed = b",".join((bare, answers[0], unproved))
    client_key = hmac.digest(_stretched(kind.number), b"Client Key", kind.hash_name)
    stored_key = hashlib.new(kind.hash_name, client_key).digest()
    signature = hmac.digest(stored_key, signed, kind.hash_name)
    return base64.b64decode(proof) == bytes(
        a ^ b for a, b in zip(client_key, signature, strict=True)
    )


# -- honest clients -------------------------------------------------------------------------------


@functools.cache
def _private() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.derive_private_key(0x5EED, ec.SECP256R1())


def _key_set() -> bytes:
    numbers = _private().public_key().public_numbers()
    x, y = (
        base64.urlsafe_b64encode(each.to_bytes(32, "big")).rstrip(b"=").decode()
        for each in (numbers.x, numbers.y)
    )
    key = {"kty": "EC", "crv": "P-256", "kid": "k", "use": "sig", "x": x, "y": y}
    return json.dumps({"keys": [key]}).encode()


@functools.cache
def _token(**claims: Any) -> str:
    import jwt

    claims = {
        "sub": USER,
        "iss": "https://issuer",
        "aud": "kafka",
        "exp": NOW // 1000 + 60,
    } | claims
    return jwt.encode(claims, _private(), algorithm="ES256", headers={"kid": "k"})


def _logins() -> Iterator[bytes]:
    yield f"\0\0{USER}\0{PASSWORD}".encode()
    yield f"\0admin\0{USER}\0{PASSWORD}".encode()
    yield b"\x00" + b"\0" * 5000
    for number in (1, 2):
        kind = MECHANISMS[(SHA_256, SHA_512)[number - 1]]
        for name, password in ((USER, PASSWORD), (USER, "wrong"), ("nobody", PASSWORD)):
            yield bytes((number,)) + BETWEEN.join(_scram(kind, name, password))
    yield b"\x01n,a=admin,n=alice,r=abc"
    yield b"\x01p=tls-unique,,n=alice,r=abc"
    yield b"\x01n,,n=alice,r=abc,tokenauth=true" + BETWEEN + b"c=biws,r=abc,p="
    yield b"\x03" + shown(_token())
    for claims in ({"exp": 1}, {"aud": "other"}, {"iss": "x"}, {"nbf": 1e400}, {"exp": 10**400}):
        yield b"\x03" + shown(_token(**claims))
    head, body, _ = _token().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    yield b"\x03" + shown(f"{none}.{body}.")
    yield b"\x03" + shown(f"{head}.{body}.") + BETWEEN + b"\x01"


def _scram(kind: Any, name: str, password: str) -> list[bytes]:
    """What an honest client says to the server of this target."""
    exchange = ScramMechanism(kind).begin(_accounts(), NONCE)
    client = ScramCredentials(kind, name, password).begin(b"c" * 18)
    first = client.step(b"")
    assert isinstance(first, bytes)
    challenge = exchange.step(first, NOW)
    assert isinstance(challenge, Challenge)
    slow = client.step(challenge.data)
    assert isinstance(slow, Slow)
    return [first, slow.then(slow.run())]


# -- the client's side ----------------------------------------------------------------------------


def answer(data: bytes) -> None:
    """What a server may say to this node when it logs in to others."""
    client = ScramCredentials(MECHANISMS[SHA_256], USER, PASSWORD).begin(b"c" * 18)
    client.step(b"")
    for message in data.split(BETWEEN)[:STEPS_MAX]:
        try:
            said = client.step(message)
        except NotBelieved as refusal:
            assert PASSWORD not in str(refusal)
            return
        if isinstance(said, Slow):
            said = said.then(said.run())
            assert said is not None and PASSWORD.encode() not in said
        elif said is None:
            raise AssertionError("believed a server that does not know the password")


def _answers() -> Iterator[bytes]:
    nonce = base64.b64encode(b"c" * 18)
    salt = base64.b64encode(SALT)
    yield b"r=" + nonce + b"x,s=" + salt + b",i=4096" + BETWEEN + b"v=" + bytes(44)
    yield b"r=" + nonce + b",s=" + salt + b",i=4096"
    yield b"r=" + nonce + b"x,s=" + salt + b",i=999999999"
    yield b"e=other-error"


# -- what decides ---------------------------------------------------------------------------------


def jaas(data: bytes) -> None:
    """Read or refused, and a refusal repeats nothing."""
    text = data.decode(errors="replace")
    try:
        modules = parse_jaas(text)
    except JaasProblem as refusal:
        assert "canary" not in str(refusal)
        return
    assert modules
    assert "canary" not in repr(modules) or "canary" in "".join(each.name for each in modules)


_MODULE = b"org.apache.kafka.common.security.plain.PlainLoginModule"


def _jaas() -> Iterator[bytes]:
    yield _MODULE + b' required username="a" password="canary" user_b=\'canary\\n\';'
    yield _MODULE + b" required password=canary;" + _MODULE + b" optional; // canary\n /* canary */"
    yield b"canary required;"
    yield _MODULE + b' required password="canary'
    yield b"/*" * 2000


def rules(data: bytes) -> None:
    """Rules for names of certificates, and a name, with a zero between them."""
    text, _, name = data.decode(errors="replace").partition("\0")
    try:
        made = PrincipalRules(text)
    except ValueError:
        return
    found = made.name_of(name)
    assert found is None or isinstance(found, str)


def _rules() -> Iterator[bytes]:
    name = b"\0CN=alice,OU=people,O=penstock"
    yield b"RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L, DEFAULT" + name
    yield b"DEFAULT" + name
    yield b"RULE:(a+)+$/$1/" + b"\0" + b"a" * 300 + b"!"
    yield b"RULE:((((((((((.){30}){30}){30}/$1/" + name
    yield b"RULE:.*/$9\\/$/U" + name


def key_set(data: bytes) -> None:
    try:
        found = read_keys(data)
    except ValueError:
        return
    for key in found.values():
        assert not any(each.startswith("HS") or each == "none" for each in key.algorithms)


def _key_sets() -> Iterator[bytes]:
    yield _key_set()
    yield b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}'
    yield b'{"keys": ' + b"[" * 2000
    yield b'{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "none"}]}'


TARGETS = [
    Target("logins", log_in, _logins, memory_base=8 << 20),
    Target("login_answers", answer, _answers, memory_base=4 << 20),
    Target("jaas", jaas, _jaas),
    Target("principal_rules", rules, _rules, memory_base=4 << 20),
    Target("key_sets", key_set, _key_sets, memory_base=4 << 20),
]

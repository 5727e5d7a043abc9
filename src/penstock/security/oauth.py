"""OAUTHBEARER (RFC 7628): the client shows a token that somebody whom this node trusts has signed.

A token counts only with a signature of a known key, the expected issuer and audience, and a time at
which it ends; there is no way to take one without. Keys are asymmetric: who can check a token
cannot make one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.model.ids import Millis
from penstock.security.mechanisms import (
    OAUTHBEARER,
    Accepted,
    Challenge,
    Outcome,
    Refresh,
    Refused,
    Work,
)
from penstock.security.principal import Principal
from penstock.security.scram_messages import BadMessage, read_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.security.accounts import Accounts
    from penstock.security.oauth_keys import Keys, SigningKey

MESSAGE_BYTES_MAX = 64 * 1024
NAME_LENGTH_MAX = 255

_SEPARATOR = "\x01"
_INVALID = b'{"status":"invalid_token"}'
"""What the client is told of a token that does not count, as RFC 7628 wants it."""


class Rules(NamedTuple):
    """What a listener expects of tokens."""

    issuer: str
    audience: tuple[str, ...]
    skew_ms: int = 30_000
    """By how much the clocks of nodes and issuer may differ."""
    name_claim: str = "sub"
    scope_claim: str = "scope"


class Verdict(NamedTuple):
    """What is to be thought of a token: a name and an end, or a reason against it."""

    name: str = ""
    ends: Millis = Millis(0)
    reason: str = ""
    unknown_key: bool = False
    """Whether only the key is missing: it may be newer than what is known."""


# -- messages -------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """What a client shows."""

    token: str
    authorization: str
    """Who it wants to act as; empty if as the token says."""

    def __repr__(self) -> str:
        return "Shown()"


def read_shown(message: bytes) -> Shown:
    """The client's only message; BadMessage says what is wrong without repeating it."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise BadMessage("the message is too long")
    try:
        header, *pairs = message.decode("ascii").split(_SEPARATOR)
    except UnicodeDecodeError:
        raise BadMessage("the message is not ASCII") from None
    flag, _, rest = header.partition(",")
    authorization, comma, nothing = rest.partition(",")
    if flag not in ("n", "y") or not comma or nothing:
        raise BadMessage("the message begins without a header, or asks for channel binding")
    if authorization and not authorization.startswith("a="):
        raise BadMessage("the header has no authorization id where one should be")
    if pairs[-2:] != ["", ""]:
        raise BadMessage("the message does not end as it should")
    values: dict[str, str] = {}
    for pair in pairs[:-2]:
        key, equals, value = pair.partition("=")
        if not equals or not key.isalpha() or key in values:
            raise BadMessage("a pair is not of the form name=value, or comes twice")
        values[key] = value
    scheme, _, token = values.get("auth", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise BadMessage("there is no bearer token")
    as_whom = read_name(authorization[2:]) if authorization else ""
    return Shown(token.strip(), as_whom)


def shown(token: str) -> bytes:
    """The message of a client that has a token."""
    return f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{_SEPARATOR}".encode()


# -- tokens ---------------------------------------------------------------------------------------


def judge(token: str, keys: Mapping[str, SigningKey], rules: Rules, now: Millis) -> Verdict:
    """Whether a token counts. Arithmetic with large numbers, for a worker."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
        if "crit" in header:
            return Verdict(reason="the token asks for extensions that are not known")
        key = _key_for(header, keys)
        if key is None:
            return Verdict(reason="signed with an unknown key", unknown_key=True)
        claims = jwt.decode(
            token,
            key.public,
            algorithms=key.algorithms,
            audience=rules.audience,
            issuer=rules.issuer,
            # Times are compared below, with the clock that all else goes by.
            options={
                "require": ["exp", "iss", "aud", rules.name_claim],
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except jwt.PyJWTError as problem:
        return Verdict(reason=f"the token does not count ({type(problem).__name__})")
    except (ValueError, TypeError, RecursionError):
        return Verdict(reason="the token cannot be read")
    return _judge_claims(claims, rules, now)


def _key_for(header: dict[str, Any], keys: Mapping[str, SigningKey]) -> SigningKey | None:
    """By its id; a token that names none can only mean the one key that there is."""
    key_id = header.get("kid")
    if key_id is None:
        return next(iter(keys.values())) if len(keys) == 1 else None
    return keys.get(key_id) if isinstance(key_id, str) else None


def _judge_claims(claims: dict[str, Any], rules: Rules, now: Millis) -> Verdict:
    name = claims.get(rules.name_claim)
    # What cannot be seen would pass for somebody else's name, and some of it cannot be written.
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        return Verdict(reason=f"the claim {rules.name_claim} is no name")
    if not _is_scope(claims.get(rules.scope_claim, "")):
        return Verdict(name, reason=f"the claim {rules.scope_claim} is no scope")
    times = {key: _millis(claims[key]) for key in ("exp", "nbf", "iat") if key in claims}
    if None in times.values():
        return Verdict(name, reason="a time in the token is none")
    ends = times["exp"]
    assert ends is not None
    if ends + rules.skew_ms <= now:
        return Verdict(name, reason="the token has expired")
    if any((times.get(key) or 0) > now + rules.skew_ms for key in ("nbf", "iat")):
        return Verdict(name, reason="the token is of the future")
    return Verdict(name, Millis(ends if ends > now else ends + rules.skew_ms))


def _millis(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Compared first, and this way round: numbers may have thousands of digits, or be none.
    return int(value * 1000) if abs(value) < 1e12 else None


def _is_scope(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
    )


# -- the exchange ---------------------------------------------------------------------------------


class OAuthMechanism:
    """OAUTHBEARER with the keys of one issuer."""

    def __init__(self, rules: Rules, keys: Keys) -> None:
        self._rules = rules
        self._keys = keys

    @property
    def name(self) -> str:
        return OAUTHBEARER

    def begin(self, accounts: Accounts, nonce: bytes) -> OAuthExchange:  # noqa: ARG002
        return OAuthExchange(self._rules, self._keys)


class OAuthExchange:
    """One message with the token; after a token that does not count, one that ends it."""

    def __init__(self, rules: Rules, keys: Keys) -> None:
        self._rules = rules
        self._keys = keys
        self._refused: Refused | None = None
        self._asked_for_keys = False

    def step(self, message: bytes, now: Millis) -> Outcome:
        if self._refused is not None:
            return self._refused
        try:
            what = read_shown(message)
        except BadMessage as problem:
            return Refused("", str(problem))
        return Refresh(lambda: self._judge(what, now), missing=False)

    def _judge(self, what: Shown, now: Millis) -> Outcome:
        keys = self._keys.known
        return Work(
            lambda: judge(what.token, keys, self._rules, now),
            lambda verdict: self._judged(what, verdict, now),
        )

    def _judged(self, what: Shown, verdict: Verdict, now: Millis) -> Outcome:
        if verdict.unknown_key and not self._asked_for_keys:
            self._asked_for_keys = True
            return Refresh(lambda: self._judge(what, now), missing=True)
        if verdict.reason:
            self._refused = Refused(verdict.name, verdict.reason, _INVALID.decode())
            return Challenge(_INVALID)
        if what.authorization not in ("", verdict.name):
            return Refused(
                verdict.name,
                "asks to act as somebody else",
                "the authorization id differs from the token's name",
            )
        return Accepted(Principal(verdict.name), expires=verdict.ends)

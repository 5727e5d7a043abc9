"""PLAIN (RFC 4616): the client shows its password, which is why it belongs into TLS.

Users stand in the listener's JAAS configuration, or are those of SCRAM in the metadata. Of either
only what SCRAM keeps of a password stays in memory; the check is as slow as making it.

A password in the configuration may be written as SCRAM-SHA-256$ITERATIONS:SALT$STORED:SERVER (or
with SHA-512; salt and keys in base64) instead of in clear.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.scram import ScramCredential
from penstock.security.accounts import Account
from penstock.security.mechanisms import PLAIN, Accepted, Outcome, Refused, Work
from penstock.security.principal import Principal
from penstock.security.scram_keys import BY_NAME, ITERATIONS_MIN, SALT_BYTES_MAX, credential, salted
from penstock.security.scram_messages import decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.ids import Millis
    from penstock.security.accounts import Accounts
    from penstock.security.scram_keys import Mechanism as ScramKind

MESSAGE_BYTES_MAX = 4096
FILE_ITERATIONS_MAX = 1_000_000
"""Of a password that is written stretched: the operator's own choice, unlike those of the
metadata, which whoever may set passwords could make as slow as they like."""

_WRONG = "wrong user name or password"


class Kept(NamedTuple):
    """What stays in memory of a password."""

    kind: ScramKind
    credential: ScramCredential

    def opens(self, password: str) -> bool:
        """Whether this is the password. Milliseconds of work, for a worker."""
        kind, kept = self
        stretched = salted(kind, password, kept.salt, kept.iterations)
        made = credential(kind, kept.salt, kept.iterations, stretched)
        return hmac.compare_digest(made.stored_key, kept.stored_key)


# -- passwords of the configuration ---------------------------------------------------------------


def keep(password: str, salt: bytes) -> Kept:
    """A password of the configuration, in clear or as `written` wrote it. ValueError if it looks
    like the latter and is not."""
    name, dollar, rest = password.partition("$")
    kind = BY_NAME.get(name)
    if kind is not None and dollar:
        return Kept(kind, _read(kind, rest))
    kind = BY_NAME["SCRAM-SHA-256"]
    stretched = salted(kind, password, salt, ITERATIONS_MIN)
    return Kept(kind, credential(kind, salt, ITERATIONS_MIN, stretched))


def written(kind: ScramKind, kept: ScramCredential) -> str:
    """The form of a password that a configuration may hold instead of the password."""
    keys = f"{encoded(kept.stored_key)}:{encoded(kept.server_key)}"
    return f"{kind.name}${kept.iterations}:{encoded(kept.salt)}${keys}"


def _read(kind: ScramKind, text: str) -> ScramCredential:
    stretching, _, keys = text.partition("$")
    iterations, _, salt = stretching.partition(":")
    stored, _, server = keys.partition(":")
    try:
        found = ScramCredential(decoded(salt), decoded(stored), decoded(server), int(iterations))
    except ValueError:
        raise ValueError(f"a password begins like {kind.name} and cannot be read as it") from None
    sizes = {len(found.stored_key), len(found.server_key)}
    if sizes != {kind.size} or not 0 < len(found.salt) <= SALT_BYTES_MAX:
        raise ValueError(f"a password written as {kind.name} has keys or a salt of a wrong size")
    if not ITERATIONS_MIN <= found.iterations <= FILE_ITERATIONS_MAX:
        raise ValueError(
            f"a password written as {kind.name} has {found.iterations} iterations, not "
            f"{ITERATIONS_MIN} to {FILE_ITERATIONS_MAX}"
        )
    return found


# -- the exchange ---------------------------------------------------------------------------------


class PlainMechanism:
    """PLAIN with the users of one listener's configuration."""

    def __init__(self, users: Mapping[str, Kept]) -> None:
        self._users = users

    @property
    def name(self) -> str:
        return PLAIN

    def begin(self, accounts: Accounts, nonce: bytes) -> PlainExchange:  # noqa: ARG002
        return PlainExchange(self._users, accounts)


class PlainExchange:
    """One message."""

    def __init__(self, users: Mapping[str, Kept], accounts: Accounts) -> None:
        self._users = users
        self._accounts = accounts

    def step(self, message: bytes, now: Millis) -> Outcome:  # noqa: ARG002
        if len(message) > MESSAGE_BYTES_MAX:
            return Refused("", "the message is too long")
        try:
            fields = message.decode().split("\0")
        except UnicodeDecodeError:
            return Refused("", "the message is not UTF-8")
        if len(fields) != 3:
            return Refused("", "the message has not three parts")
        authorization, user, password = fields
        if not user or not password:
            return Refused(user, "user name or password is missing", _WRONG)
        if authorization not in ("", user):
            return Refused(
                user,
                "asks to act as somebody else",
                "the authorization id differs from the user name",
            )
        return self._check(user, password)

    def _check(self, user: str, password: str) -> Work:
        kept = self._users.get(user)
        if kept is not None:
            account = Account(kept.credential, Principal(user))
        else:
            kind, account = self._accounts.for_password(user)
            kept = Kept(kind, account.credential)

        def checked(right: bool) -> Outcome:
            if account.principal is None:
                return Refused(user, account.reason, _WRONG)
            return Accepted(account.principal) if right else Refused(user, "wrong password", _WRONG)

        return Work(lambda: kept.opens(password), checked)

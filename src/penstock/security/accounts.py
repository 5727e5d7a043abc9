"""What is known of those who may log in: credentials of the metadata, and decoys for the rest.

A user who does not exist has a credential too, which nothing opens: its salt is derived from the
name by a key of the cluster, so that it is the same each time and on each node, and it is as long
and as slow as those of the others. So the answers to both look the same to a stranger.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.scram import SHA_256, SHA_512, ScramCredential
from penstock.model.ids import Millis
from penstock.security.mechanisms import Outcome, Work
from penstock.security.principal import Principal, principal_of
from penstock.security.scram_keys import ITERATIONS_MIN, MECHANISMS, SALT_BYTES, credential, salted
from penstock.security.tokens import expired, token_hmac

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.metadata.delegation_tokens import DelegationToken, DelegationTokensImage
    from penstock.metadata.scram import ScramImage
    from penstock.security.scram_keys import Mechanism as ScramKind

TOKENS_REMEMBERED_MAX = 1_000
"""Credentials of delegation tokens that need not be stretched again."""


class Account(NamedTuple):
    """Somebody who may log in, or a decoy."""

    credential: ScramCredential
    principal: Principal | None
    """None for a decoy: whatever is shown, nobody comes in."""
    reason: str = ""
    """Why it is a decoy, for the operator's eyes."""
    expires: Millis | None = None


class Vault:
    """What a node's logins share for as long as it runs: secrets, and what was derived of them."""

    def __init__(self, token_secret: str | None, cluster_id: str) -> None:
        """`token_secret` is delegation.token.secret.key, None where no tokens are taken.

        Decoys have to be the same on all nodes: their key is made of what the nodes share and those
        without a login do not know.
        """
        self.token_secret = token_secret
        shared = (token_secret or "").encode()
        self._decoy_key = hmac.digest(shared, f"decoys of {cluster_id}".encode(), "sha512")
        self._of_tokens: dict[tuple[int, str], ScramCredential] = {}
        self._twins: dict[int, tuple[ScramImage, ScramCredential | None]] = {}

    def __repr__(self) -> str:
        return "Vault()"

    def decoy(self, kind: ScramKind, user: str, like: ScramImage) -> ScramCredential:
        """A credential for somebody who has none, not to be told from one of the others'."""
        twin = self._twin(kind, like)
        size, iterations = SALT_BYTES, ITERATIONS_MIN
        if twin is not None:
            size, iterations = len(twin.salt), twin.iterations
        what = f"{kind.name}\0{user}".encode()
        salt = hashlib.shake_256(hmac.digest(self._decoy_key, what, "sha512")).digest(size)
        return ScramCredential(salt, bytes(kind.size), bytes(kind.size), iterations)

    def _twin(self, kind: ScramKind, like: ScramImage) -> ScramCredential | None:
        """Somebody's credential, looked for once: strangers ask for it as often as they like."""
        known = self._twins.get(kind.number)
        if known is None or known[0] is not like:
            found = (it for (number, _), it in like.users.items() if number == kind.number)
            known = self._twins[kind.number] = (like, next(found, None))
        return known[1]

    def of_token(self, kind: ScramKind, token_id: str) -> ScramCredential | None:
        """What was made of a token's secret before."""
        return self._of_tokens.get((kind.number, token_id))

    def make_of_token(self, kind: ScramKind, token_id: str) -> ScramCredential:
        """The credential that opens to a token's secret: milliseconds of work, for a worker."""
        # Not by what is remembered: the id may be anything that a stranger makes up.
        secret = token_hmac.__wrapped__(self.token_secret or "", token_id)
        salt = hmac.digest(self._decoy_key, token_id.encode(), "sha256")
        password = base64.b64encode(secret).decode()
        stretched = salted(kind, password, salt, ITERATIONS_MIN)
        return credential(kind, salt, ITERATIONS_MIN, stretched)

    def remember(self, kind: ScramKind, token_id: str, made: ScramCredential) -> None:
        if len(self._of_tokens) >= TOKENS_REMEMBERED_MAX:
            self._of_tokens.clear()
        self._of_tokens[kind.number, token_id] = made


class Accounts:
    """What the metadata says of users and tokens."""

    __slots__ = ("_tokens", "_users", "_vault")

    def __init__(self, vault: Vault, users: ScramImage, tokens: DelegationTokensImage) -> None:
        self._vault = vault
        self._users = users
        self._tokens = tokens

    def of_user(self, kind: ScramKind, user: str) -> Account:
        """The account of a user for one mechanism; a decoy if there is none."""
        users = self._users
        found = users.users.get((kind.number, user))
        if found is None:
            return Account(self._vault.decoy(kind, user, users), None, "unknown user")
        if found.iterations < ITERATIONS_MIN:
            return Account(found, None, "the credential has too few iterations")
        return Account(found, Principal(user))

    def for_password(self, user: str) -> tuple[ScramKind, Account]:
        """The account that a password in clear is checked against, whatever its mechanism."""
        users = self._users.users
        number = SHA_256 if (SHA_256, user) in users and (SHA_512, user) not in users else SHA_512
        kind = MECHANISMS[number]
        return kind, self.of_user(kind, user)

    def of_token(
        self, kind: ScramKind, token_id: str, now: Millis, then: Callable[[Account], Outcome]
    ) -> Outcome:
        """Go on with the account of a delegation token, if need be after the work of making it."""
        vault = self._vault
        token = self._tokens.by_id.get(token_id)
        reason = _why_not(token, vault, now)
        known = vault.of_token(kind, token_id)
        if known is not None:
            return then(_token_account(known, token, reason))

        def made(fresh: ScramCredential) -> Outcome:
            if not reason:
                vault.remember(kind, token_id, fresh)
            return then(_token_account(fresh, token, reason))

        # The same work for a token that does not exist: nobody learns which ones do.
        return Work(lambda: vault.make_of_token(kind, token_id), made)


def _why_not(token: DelegationToken | None, vault: Vault, now: Millis) -> str:
    if not vault.token_secret:
        return "delegation tokens are not taken: delegation.token.secret.key is not set"
    if token is None:
        return "unknown delegation token"
    return "the delegation token has expired" if expired(token, now) else ""


def _token_account(made: ScramCredential, token: DelegationToken | None, reason: str) -> Account:
    if reason or token is None:
        return Account(made, None, reason)
    try:
        owner = principal_of(token.owner)
    except ValueError:
        return Account(made, None, "the delegation token's owner is no principal")
    ends = Millis(min(token.expires, token.renewable_until))
    return Account(made, Principal(owner.name, owner.kind, by_token=True), expires=ends)

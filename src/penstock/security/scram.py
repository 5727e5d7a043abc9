"""SCRAM (RFC 5802 and 7677), the server's side: the client proves that it knows a password that
this node never had, and the node proves that it knows what was derived from it.

Who is unknown gets the same exchange with a salt of their own, the same each time, and fails at its
end: nobody learns by asking which users there are.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from penstock.security.mechanisms import Accepted, Challenge, Outcome, Refused
from penstock.security.scram_messages import (
    BadMessage,
    ClientFirst,
    encoded,
    read_client_final,
    read_client_first,
    server_first,
)

if TYPE_CHECKING:
    from penstock.model.ids import Millis
    from penstock.security.accounts import Account, Accounts
    from penstock.security.scram_keys import Mechanism as ScramKind

_AS_SOMEBODY_ELSE = "the authorization id differs from the user name"


class ScramMechanism:
    """SCRAM with one hash."""

    def __init__(self, kind: ScramKind) -> None:
        self._kind = kind

    @property
    def name(self) -> str:
        return self._kind.name

    def begin(self, accounts: Accounts, nonce: bytes) -> ScramExchange:
        return ScramExchange(self._kind, accounts, encoded(nonce))


class ScramExchange:
    """One client's proof: its first message, ours, its last."""

    def __init__(self, kind: ScramKind, accounts: Accounts, nonce: str) -> None:
        self._kind = kind
        self._accounts = accounts
        self._nonce = nonce
        self._first: ClientFirst | None = None
        self._account: Account | None = None
        self._said = ""
        self._over = False

    def step(self, message: bytes, now: Millis) -> Outcome:
        user = "" if self._first is None else self._first.user
        if self._over:
            return Refused(user, "a message after the end of the exchange")
        try:
            return self._begin(message, now) if self._first is None else self._end(message)
        except BadMessage as problem:
            return self._refuse(str(problem))

    def _begin(self, message: bytes, now: Millis) -> Outcome:
        first = self._first = read_client_first(message)
        if first.authorization and first.authorization != first.user:
            return self._refuse("asks to act as somebody else", _AS_SOMEBODY_ELSE)
        self._nonce = first.nonce + self._nonce
        if not first.by_token:
            return self._challenge(self._accounts.of_user(self._kind, first.user))
        return self._accounts.of_token(self._kind, first.user, now, self._challenge)

    def _challenge(self, account: Account) -> Outcome:
        self._account = account
        self._said = server_first(self._nonce, account.credential)
        return Challenge(self._said.encode())

    def _end(self, message: bytes) -> Outcome:
        first, account, kind = self._first, self._account, self._kind
        if first is None or account is None:
            return self._refuse("a message before it was asked for")
        final = read_client_final(message)
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            return self._refuse("the nonce is not the one of this exchange")
        if not hmac.compare_digest(final.binding, first.binding.encode()):
            return self._refuse("the header is not the one of the first message")
        if len(final.proof) != kind.size:
            return self._refuse("the proof has not the length that it should have")
        signed = f"{first.bare},{self._said},{final.unproved}".encode()
        credential = account.credential
        signature = hmac.digest(credential.stored_key, signed, kind.hash_name)
        client_key = bytes(a ^ b for a, b in zip(final.proof, signature, strict=True))
        stored_key = hashlib.new(kind.hash_name, client_key).digest()
        right = hmac.compare_digest(stored_key, credential.stored_key)
        if account.principal is None:
            return self._refuse(account.reason)
        if not right:
            return self._refuse("wrong password")
        self._over = True
        verifier = encoded(hmac.digest(credential.server_key, signed, kind.hash_name))
        return Accepted(account.principal, f"v={verifier}".encode(), account.expires)

    def _refuse(self, reason: str, told: str = "") -> Refused:
        self._over = True
        return Refused("" if self._first is None else self._first.user, reason, told)

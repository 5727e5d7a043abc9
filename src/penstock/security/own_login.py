"""What a client shows to log in: this node at other nodes, and the command line at any.

These are machines too: challenges come in, messages come out, and what takes long is handed out to
be run elsewhere. The server has to prove itself as well, where the mechanism has it so.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.security.mechanisms import OAUTHBEARER, PLAIN
from penstock.security.oauth import shown
from penstock.security.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, credential, salted
from penstock.security.scram_messages import (
    TOKEN_EXTENSION,
    BadMessage,
    ServerFirst,
    encoded,
    escaped,
    read_server_final,
    read_server_first,
)

if TYPE_CHECKING:
    from penstock.security.scram_keys import Mechanism as ScramKind


class NotBelieved(PermissionError):
    """One of the two sides could not prove who it is; says why, without secrets."""


class Slow(NamedTuple):
    """Something that takes long: `run` it elsewhere, and give `then` what came of it."""

    run: Callable[[], bytes]
    then: Callable[[bytes], bytes]

    def __repr__(self) -> str:
        return "Slow()"


class ClientExchange(Protocol):
    """One login, step by step."""

    def step(self, challenge: bytes) -> bytes | Slow | None:
        """What to send next; None if there is nothing more to say. The first challenge is empty.

        Raises NotBelieved if the server does not prove itself.
        """


class Credentials(Protocol):
    """What one client shows, to as many servers as there are."""

    @property
    def mechanism(self) -> str: ...

    def begin(self, nonce: bytes) -> ClientExchange:
        """A login; `nonce` is for this one alone."""


class PlainCredentials:
    """A name and a password, shown in clear: only for TLS."""

    mechanism = PLAIN

    def __init__(self, user: str, password: str) -> None:
        self._message = f"\0{user}\0{password}".encode()

    def __repr__(self) -> str:
        return "PlainCredentials()"

    def begin(self, nonce: bytes) -> ClientExchange:  # noqa: ARG002
        return _OneMessage(self._message)


class BearerCredentials:
    """A token, from wherever `fetch` has it: it may block."""

    mechanism = OAUTHBEARER

    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch

    def __repr__(self) -> str:
        return "BearerCredentials()"

    def begin(self, nonce: bytes) -> ClientExchange:  # noqa: ARG002
        return _OneMessage(Slow(lambda: shown(self._fetch()), lambda message: message))


class _OneMessage:
    """All is said at once; what the server says to it can only be that it was wrong."""

    def __init__(self, message: bytes | Slow) -> None:
        self._message: bytes | Slow | None = message

    def step(self, challenge: bytes) -> bytes | Slow | None:
        if challenge:
            return b"\x01"  # RFC 7628: the server ends it when it hears this
        message, self._message = self._message, None
        return message


class ScramCredentials:
    """A name and a password that never leaves this process."""

    def __init__(self, kind: ScramKind, user: str, password: str, by_token: bool = False) -> None:
        """With `by_token` the name is a delegation token's id and the password its secret."""
        self.kind = kind
        self.user = user
        self.by_token = by_token
        self._password = password
        self._stretched: tuple[bytes, int, bytes] | None = None

    def __repr__(self) -> str:
        return f"ScramCredentials({self.kind.name})"

    @property
    def mechanism(self) -> str:
        return self.kind.name

    def begin(self, nonce: bytes) -> ScramClient:
        return ScramClient(self, encoded(nonce))

    def stretched(self, salt: bytes, iterations: int) -> bytes:
        """The password as the proof needs it. Slow, but for the salt that was asked for last:
        servers give the same one each time."""
        known = self._stretched
        if known is not None and known[:2] == (salt, iterations):
            return known[2]
        made = salted(self.kind, self._password, salt, iterations)
        self._stretched = (salt, iterations, made)
        return made


class ScramClient:
    """SCRAM (RFC 5802), the client's side."""

    def __init__(self, credentials: ScramCredentials, nonce: str) -> None:
        extension = f",{TOKEN_EXTENSION}=true" if credentials.by_token else ""
        self._credentials = credentials
        self._nonce = nonce
        self._bare = f"n={escaped(credentials.user)},r={nonce}{extension}"
        self._began = False
        self._proof_sent = False
        self._expected = b""

    def step(self, challenge: bytes) -> bytes | Slow | None:
        try:
            if not self._began:
                self._began = True
                return f"n,,{self._bare}".encode()
            if not self._proof_sent:
                return self._answer(challenge)
            self._end(challenge)
            return None
        except BadMessage as problem:
            raise NotBelieved(f"the server does not speak SCRAM: {problem}") from None

    def _answer(self, challenge: bytes) -> Slow:
        first = read_server_first(challenge)
        if not first.nonce.startswith(self._nonce) or len(first.nonce) <= len(self._nonce):
            raise NotBelieved("the server answers with a nonce that is not made of ours")
        if not ITERATIONS_MIN <= first.iterations <= ITERATIONS_MAX:
            raise NotBelieved(
                f"the server asks for {first.iterations} iterations, not for "
                f"{ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        self._proof_sent = True
        return Slow(
            lambda: self._credentials.stretched(first.salt, first.iterations),
            lambda stretched: self._prove(first, stretched),
        )

    def _prove(self, first: ServerFirst, stretched: bytes) -> bytes:
        kind = self._credentials.kind
        kept = credential(kind, first.salt, first.iterations, stretched)
        unproved = f"c=biws,r={first.nonce}"  # the header "n,,", repeated
        signed = f"{self._bare},{first.text},{unproved}".encode()
        signature = hmac.digest(kept.stored_key, signed, kind.hash_name)
        client_key = hmac.digest(stretched, b"Client Key", kind.hash_name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._expected = hmac.digest(kept.server_key, signed, kind.hash_name)
        return f"{unproved},p={encoded(proof)}".encode()

    def _end(self, challenge: bytes) -> None:
        if not self._expected or not hmac.compare_digest(
            read_server_final(challenge), self._expected
        ):
            raise NotBelieved("the server does not know the password either")
        self._expected = b""

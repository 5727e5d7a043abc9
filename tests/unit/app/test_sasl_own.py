"""This node as a client: servers that cannot prove themselves or ask for too much."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.app.sasl_own import STEPS_MAX, OwnLogin
from penstock.model.errors import ErrorCode
from penstock.platform.chance import SystemChance
from penstock.platform.workers import InlineWorkers
from penstock.protocol.generated.sasl_handshake import SaslHandshakeRequest
from penstock.security.own_login import (
    BearerCredentials,
    NotBelieved,
    PlainCredentials,
    ScramCredentials,
)
from penstock.security.scram_keys import BY_NAME

SCRAM = ScramCredentials(BY_NAME["SCRAM-SHA-256"], "a", "b")


def own(credentials: Any) -> OwnLogin:
    return OwnLogin(credentials, InlineWorkers(), SystemChance())


async def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    class Impostor:
        """Answers as a server would that has seen a login, and not the password."""

        async def ask(self, request: Any, version: int) -> Any:
            if isinstance(request, SaslHandshakeRequest):
                return _Answer(mechanisms=["SCRAM-SHA-256"])
            text = request.auth_bytes.decode()
            if text.startswith("n,,"):
                nonce = text.rpartition("r=")[2]
                return _Answer(auth_bytes=f"r={nonce}xyz,s=c2FsdA==,i=4096".encode())
            return _Answer(auth_bytes=b"v=AAAA")

    with pytest.raises(NotBelieved, match="does not know the password"):
        await own(SCRAM).log_in(Impostor().ask)
    with pytest.raises(NotBelieved, match="does not take SCRAM-SHA-256"):
        await own(SCRAM).log_in(_refuses)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff",
        b"r=other,s=c2FsdA==,i=4096",
        b"{n},s=c2FsdA==,i=4096",
        b"{n}x,s=c2FsdA==,i=1",
        b"{n}x,s=c2FsdA==,i=16385",
        b"{n}x,s=c2FsdA==,i=100000000",
        b"{n}x,s=!,i=4096",
        b"{n}x,i=4096,s=c2FsdA==",
    ],
)
async def test_a_servers_challenge_that_is_wrong_or_too_dear_ends_the_login(
    challenge: bytes,
) -> None:
    client = SCRAM.begin(b"n" * 24)
    first = client.step(b"")
    assert isinstance(first, bytes)
    nonce = first.rpartition(b",")[2]
    with pytest.raises(NotBelieved):
        client.step(challenge.replace(b"{n}", nonce))


class _Answer:
    def __init__(self, error_code: int = 0, **fields: Any) -> None:
        self.error_code = error_code
        self.error_message = ""
        self.session_lifetime_ms = 0
        vars(self).update(fields)


async def _refuses(request: Any, version: int) -> Any:
    return _Answer(ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["PLAIN"])


async def _asks_on(request: Any, version: int) -> Any:
    return _Answer(mechanisms=[], auth_bytes=b"and?", session_lifetime_ms=0)


async def test_a_server_that_asks_on_and_on_is_left() -> None:
    with pytest.raises(NotBelieved, match="on and on"):
        await own(PlainCredentials("a", "b")).log_in(_asks_on)
    assert STEPS_MAX < 100


async def test_a_login_tells_when_to_do_it_again() -> None:
    async def believes(request: Any, version: int) -> Any:
        return _Answer(mechanisms=[], auth_bytes=b"", session_lifetime_ms=100_000)

    async def for_ever(request: Any, version: int) -> Any:
        return _Answer(mechanisms=[], auth_bytes=b"")

    assert await own(PlainCredentials("a", "b")).log_in(believes) == 85.0
    assert await own(BearerCredentials(lambda: "token")).log_in(believes) == 85.0
    assert await own(PlainCredentials("a", "b")).log_in(for_ever) is None
    with pytest.raises(NotBelieved, match="no credentials"):
        await own(None).log_in(for_ever)


def test_credentials_do_not_show_what_they_are() -> None:
    shown = repr([PlainCredentials("a", "hunter2"), ScramCredentials(SCRAM.kind, "a", "hunter2")])
    assert "hunter2" not in shown

"""Logins over a real socket: what passes before them, what fails, for how long they hold."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.app.sasl_own import OwnLogin
from penstock.model.errors import ErrorCode
from penstock.net.connection import CloseConnection
from penstock.platform.chance import SystemChance
from penstock.platform.workers import InlineWorkers
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from penstock.protocol.generated.api_versions import ApiVersionsRequest
from penstock.protocol.generated.metadata import MetadataRequest
from penstock.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.generated.sasl_handshake import SaslHandshakeRequest
from penstock.security.own_login import NotBelieved, PlainCredentials, ScramCredentials
from penstock.security.scram_keys import BY_NAME, salted
from penstock.server import login
from penstock.server.login import Toll
from tests.unit.security.signing import AUDIENCE, ISSUER, Issuer
from tests.unit.server.asking import Asker, asking, batch, port_of, running_node

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_admin="admin-secret" user_alice="alice-secret";'
)
SASL = {
    "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "advertised.listeners": "CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "CLIENTS",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "30",
}
ALICE = b"\0alice\0alice-secret"
CLOSED = (asyncio.IncompleteReadError, ConnectionError)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, SASL) as made:
        yield made


@pytest.fixture
async def asker(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as made:
        yield made


async def handshake(asker: Asker, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return await asker.ask(SaslHandshakeRequest(mechanism=mechanism), version)


async def show(asker: Asker, message: bytes, version: int = 2) -> Any:
    return await asker.ask(SaslAuthenticateRequest(auth_bytes=message), version)


async def is_closed(asker: Asker) -> bool:
    async with asyncio.timeout(5):
        try:
            return await asker._reader.read(1) == b""
        except ConnectionResetError:
            return True


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    lines = [each.getMessage() for each in caplog.records if each.name == "penstock.audit"]
    return [json.loads(line) for line in lines]


# -- before anybody is known ----------------------------------------------------------------------


async def test_versions_are_told_and_then_a_login_lets_in(asker: Asker) -> None:
    told = await asker.ask(ApiVersionsRequest(), 0)
    keys = {each.api_key for each in told.api_keys}
    assert {int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)} <= keys
    chosen = await handshake(asker)
    assert chosen.error_code == ErrorCode.NONE
    assert sorted(chosen.mechanisms) == sorted(MECHANISMS)
    answer = await show(asker, ALICE)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    await asker.create("t")
    assert (await asker.produce("t", batch())).error_code == ErrorCode.NONE


async def test_anything_else_closes_the_connection(node: Node) -> None:
    for listener in node._listeners:
        async with asking(listener.port) as asker:
            asker.send(MetadataRequest(topics=None), 12)
            assert await is_closed(asker)


async def test_nothing_passes_between_handshake_and_proof(asker: Asker) -> None:
    await handshake(asker)
    asker.send(MetadataRequest(topics=None), 12)
    assert await is_closed(asker)


async def test_a_plain_produce_does_not_slip_through(node: Node) -> None:
    async with asking(port_of(node)) as inside:
        await handshake(inside)
        await show(inside, ALICE)
        await inside.create("t")
        async with asking(port_of(node)) as outside:
            with pytest.raises(CLOSED):
                await outside.produce("t", batch())
        answer = await inside.produce("t", batch())
        assert answer.base_offset == 0


async def test_an_unknown_mechanism_is_told_which_there_are(asker: Asker) -> None:
    chosen = await handshake(asker, "GSSAPI")
    assert chosen.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sorted(chosen.mechanisms) == sorted(MECHANISMS)
    assert await is_closed(asker)


async def test_steps_in_the_wrong_order_are_refused(node: Node) -> None:
    async with asking(port_of(node)) as asker:
        assert (await show(asker, ALICE)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_closed(asker)
    async with asking(port_of(node)) as asker:
        await handshake(asker)
        assert (await handshake(asker)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_closed(asker)


async def test_an_open_listener_asks_for_no_login(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        assert (await handshake(asker)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await show(asker, ALICE)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        await asker.create("t")


# -- failing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_failure_is_told_late_then_the_connection_closes(
    asker: Asker, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await handshake(asker)
    began = asyncio.get_running_loop().time()
    answer = await show(asker, b"\0alice\0hunter2", version)
    assert asyncio.get_running_loop().time() - began >= 0.03
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "wrong user name or password" in answer.error_message
    assert await is_closed(asker)
    (event,) = audited(caplog)
    assert event["event"] == "login failed"
    assert (event["principal"], event["mechanism"]) == ("alice", "PLAIN")
    assert (event["listener"], event["host"]) == ("CLIENTS", "127.0.0.1")
    assert "hunter2" not in caplog.text


async def test_many_failures_wait_together_and_further_ones_are_closed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "DELAYED_MAX", 2)

    async def fail() -> int | None:
        async with asking(port_of(node)) as asker:
            await handshake(asker)
            try:
                answer = await show(asker, b"\0alice\0wrong")
            except CLOSED:
                return None
            return int(answer.error_code)

    answers = await asyncio.gather(*[fail() for _ in range(6)])
    assert answers.count(ErrorCode.SASL_AUTHENTICATION_FAILED) >= 2
    assert None in answers


async def test_only_so_many_logins_work_and_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "WAITING_MAX", 3)
    toll, workers = Toll(0), _Busy()
    count = login.WORKING_MAX + 3
    begun = [asyncio.ensure_future(toll.work(workers, lambda: "done")) for _ in range(count)]
    await asyncio.sleep(0)
    assert workers.begun == login.WORKING_MAX
    with pytest.raises(CloseConnection):
        await toll.work(workers, lambda: "done")
    workers.release()
    await asyncio.sleep(0.01)
    workers.release()
    assert await asyncio.gather(*begun) == ["done"] * count
    assert await toll.work(InlineWorkers(), lambda: "again") == "again"


async def test_who_hangs_up_keeps_the_turn_until_the_work_is_done() -> None:
    toll, workers = Toll(0), _Busy()
    for _ in range(3 * login.WORKING_MAX):
        leaving = asyncio.ensure_future(toll.work(workers, lambda: "done"))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
    assert workers.begun == login.WORKING_MAX
    workers.release()
    await asyncio.sleep(0)
    assert await toll.work(InlineWorkers(), lambda: "again") == "again"


class _Busy:
    """Workers that are busy until they are released."""

    def __init__(self) -> None:
        self.begun = 0
        self._waiting: list[tuple[asyncio.Future[Any], Any]] = []

    def submit(self, work: Any) -> asyncio.Future[Any]:
        self.begun += 1
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((done, work))
        return done

    def release(self) -> None:
        released, self._waiting = self._waiting, []
        for done, work in released:
            done.set_result(work())

    def close(self) -> None:
        pass


# -- bare tokens of old clients -------------------------------------------------------------------


def send_bare(asker: Asker, token: bytes) -> None:
    asker._writer.write(struct.pack(">i", len(token)) + token)


async def bare(asker: Asker, token: bytes) -> bytes:
    send_bare(asker, token)
    async with asyncio.timeout(5):
        (size,) = struct.unpack(">i", await asker._reader.readexactly(4))
        return await asker._reader.readexactly(size)


async def test_bare_tokens_follow_a_handshake_in_version_0(asker: Asker) -> None:
    await handshake(asker, version=0)
    assert await bare(asker, ALICE) == b""
    await asker.create("t")


@pytest.mark.parametrize("token", [b"", b"\0", b"\0\0", b"\0alice\0wrong", b"\0" * 60])
async def test_a_bare_token_that_is_wrong_closes(asker: Asker, token: bytes) -> None:
    await handshake(asker, version=0)
    send_bare(asker, token)
    assert await is_closed(asker)


async def test_two_bare_tokens_at_once_are_no_login(asker: Asker) -> None:
    await handshake(asker, version=0)
    send_bare(asker, b"\0\0" + b"x" * 20)
    send_bare(asker, b"\0\0" + b"x" * 20)
    assert await is_closed(asker)


# -- proving it again -----------------------------------------------------------------------------


def end_sessions(node: Node) -> None:
    """As if the time had passed for which their proofs hold."""
    for listener in node._listeners:
        for connection in listener.connections:
            connection.gate.expires_at = 0.0


async def test_a_proof_holds_for_as_long_as_configured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    prefixed = {"listener.name.clients.scram-sha-256.connections.max.reauth.ms": "90000"}
    settings = {**SASL, **prefixed, "connections.max.reauth.ms": "60000"}
    async with running_node(tmp_path, settings) as node, asking(port_of(node)) as asker:
        loop = asyncio.get_running_loop()
        await handshake(asker)
        assert (await show(asker, ALICE)).session_lifetime_ms == 60_000
        (connection,) = node._listeners.for_clients[0].connections
        assert 50 < connection.gate.expires_at - loop.time() <= 60
        await asker.ask(MetadataRequest(topics=None), 12)
        end_sessions(node)
        asker.send(MetadataRequest(topics=None), 12)
        assert await is_closed(asker)
    assert "after its session ended" in caplog.text


async def test_a_proof_is_renewed_before_or_after_its_end(
    node: Node, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "AGAIN_SECONDS_MIN", 0.0)
    await handshake(asker)
    for version in (1, 2):
        assert (await show(asker, ALICE, version)).error_code == ErrorCode.NONE
        await asker.ask(MetadataRequest(topics=None), 12)
        end_sessions(node)
        await handshake(asker)
    assert (await show(asker, ALICE)).error_code == ErrorCode.NONE
    await handshake(asker)
    await asker.ask(MetadataRequest(topics=None), 12)  # the last proof still holds
    assert (await show(asker, ALICE)).error_code == ErrorCode.NONE


async def test_a_session_that_ended_lets_no_plain_produce_through(node: Node, asker: Asker) -> None:
    await handshake(asker)
    await show(asker, ALICE)
    await asker.create("t")
    assert (await asker.produce("t", batch())).error_code == ErrorCode.NONE
    end_sessions(node)
    with pytest.raises(CLOSED):
        await asker.produce("t", batch())


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [("PLAIN", b"\0admin\0admin-secret"), ("SCRAM-SHA-256", b"n,,n=alice,r=abc")],
)
async def test_neither_user_nor_mechanism_may_change(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, mechanism: str, message: bytes
) -> None:
    monkeypatch.setattr(login, "AGAIN_SECONDS_MIN", 0.0)
    await handshake(asker)
    await show(asker, ALICE)
    assert (await handshake(asker, mechanism)).error_code == ErrorCode.NONE
    answer = await show(asker, message)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "re-authentication" in answer.error_message
    assert await is_closed(asker)


async def test_a_proof_that_was_begun_long_ago_counts_no_more(
    node: Node, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes by the users of when it began: whoever was removed since could keep one in hand."""
    monkeypatch.setattr(login, "AGAIN_SECONDS_MIN", 0.0)
    monkeypatch.setattr(login, "PROOF_SECONDS_MAX", 0.2)
    await handshake(asker)
    assert (await show(asker, ALICE)).error_code == ErrorCode.NONE
    await handshake(asker)
    await asyncio.sleep(0.3)
    end_sessions(node)
    answer = await show(asker, ALICE)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert await is_closed(asker)


async def test_proofs_again_and_again_are_refused_and_the_session_stays(asker: Asker) -> None:
    await handshake(asker)
    await show(asker, ALICE)
    assert (await handshake(asker)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await show(asker, ALICE)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    await asker.ask(MetadataRequest(topics=None), 12)


# -- other mechanisms, with our own client --------------------------------------------------------


async def add_user(asker: Asker, name: str, password: str, mechanism: str) -> None:
    kind, salt = BY_NAME[mechanism], b"s" * 24
    upsertion = ScramCredentialUpsertion(
        name=name,
        mechanism=kind.number,
        iterations=4096,
        salt=salt,
        salted_password=salted(kind, password, salt, 4096),
    )
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    (result,) = (await asker.ask(request, 0)).results
    assert result.error_code == ErrorCode.NONE, result.error_message


def own(credentials: Any) -> OwnLogin:
    return OwnLogin(credentials, InlineWorkers(), SystemChance())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_user_of_the_metadata_logs_in(
    node: Node, asker: Asker, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    await own(PlainCredentials("admin", "admin-secret")).log_in(asker.ask)
    await add_user(asker, "bob", "bob-secret", mechanism)
    kind = BY_NAME[mechanism]
    for listener in node._listeners:
        async with asking(listener.port) as client:
            await own(ScramCredentials(kind, "bob", "bob-secret")).log_in(client.ask)
            await client.ask(ApiVersionsRequest(), 0)
        async with asking(listener.port) as client:
            await own(PlainCredentials("bob", "bob-secret")).log_in(client.ask)
        for user, password in (("bob", "wrong"), ("nobody", "bob-secret")):
            async with asking(listener.port) as client:
                with pytest.raises(NotBelieved, match="wrong credentials"):
                    await own(ScramCredentials(kind, user, password)).log_in(client.ask)
    assert "bob-secret" not in caplog.text


async def test_tokens_of_an_issuer_let_in_for_as_long_as_they_last(tmp_path: Path) -> None:
    issuer = Issuer()
    keys = tmp_path / "keys.json"
    keys.write_bytes(issuer.key_set)
    settings = {
        **SASL,
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    async with running_node(tmp_path / "data", settings) as node:
        now = node.broker.clock.now() // 1000
        async with asking(port_of(node)) as asker:
            token = issuer.sign({"iat": now, "exp": now + 100})
            await handshake(asker, "OAUTHBEARER")
            answer = await show(asker, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
            assert answer.error_code == ErrorCode.NONE
            assert 98_000 < answer.session_lifetime_ms <= 100_000
            await asker.ask(MetadataRequest(topics=None), 12)
        async with asking(port_of(node)) as asker:
            token = Issuer().sign({"iat": now, "exp": now + 100})
            await handshake(asker, "OAUTHBEARER")
            answer = await show(asker, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
            assert answer.error_code == ErrorCode.NONE
            assert answer.auth_bytes == b'{"status":"invalid_token"}'
            assert answer.session_lifetime_ms == 0
            answer = await show(asker, b"\x01")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await is_closed(asker)

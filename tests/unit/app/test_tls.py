"""A node's keys: read at the start, taken up when they change, kept when the new are broken."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.app import tls
from penstock.app.problems import CannotStart
from penstock.app.tls import NodeTls
from penstock.model.config.node import NodeConfig
from penstock.model.ids import Millis
from penstock.platform.clock import SystemClock
from penstock.platform.workers import InlineWorkers
from penstock.security.authority import Authority, Issued, write_private

AUTHORITY = Authority.make()
HOSTS = ["localhost", "127.0.0.1"]
NODE = AUTHORITY.issue("node-1", HOSTS)
ANY_NAME = {"ssl.allow.dn.changes": "true"}


def config(tmp_path: Path, settings: dict[str, str] | None = None) -> NodeConfig:
    """Of a node with one encrypted listener; a dash takes a setting out."""
    (tmp_path / "trust.pem").write_text(AUTHORITY.certificate_pem)
    if not (tmp_path / "node.pem").exists():
        (tmp_path / "node.pem").write_text(NODE.pem())
    entries = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "SSL://localhost:0,CONTROLLER://localhost:0",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "log.dirs": str(tmp_path),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "trust.pem"),
    }
    entries |= settings or {}
    return NodeConfig.of({name: text for name, text in entries.items() if text != "-"})


def name_shown(context: ssl.SSLContext) -> str:
    """The common name that a server with this context shows."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    anybody = ssl.create_default_context(cadata=AUTHORITY.certificate_pem)
    client = anybody.wrap_bio(to_client, to_server, server_hostname="localhost")
    for end in (client, server, client):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    certificate = client.getpeercert()
    assert certificate is not None
    subject = dict(pair[0] for pair in certificate["subject"])  # type: ignore[misc]
    return str(subject["commonName"])


@asynccontextmanager
async def watched(found: NodeTls, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(tls, "CHECK_SECONDS", 0.01)
    found.start(InlineWorkers(), SystemClock())
    try:
        yield
    finally:
        await found.stop()


async def eventually_shown(found: NodeTls, name: str) -> None:
    async with asyncio.timeout(5):
        while name_shown(found.of_listener("SSL").context()) != name:
            await asyncio.sleep(0.01)


def replace_keys(tmp_path: Path, issued: Issued) -> None:
    write_private(str(tmp_path / "node.pem"), issued.pem())


# -- at the start ---------------------------------------------------------------------------------


async def test_keys_are_read_for_listeners_and_for_entering_others(tmp_path: Path) -> None:
    found = NodeTls(config(tmp_path))
    assert name_shown(found.of_listener("SSL").context()) == "node-1"
    entering = found.to_enter("SSL")
    assert entering is not None and entering.check_hostname
    assert found.to_enter("CONTROLLER") is None


async def test_a_listeners_own_settings_win(tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(AUTHORITY.issue("other", HOSTS).pem())
    own = {"listener.name.ssl.ssl.keystore.location": str(other)}
    found = NodeTls(config(tmp_path, own))
    assert name_shown(found.of_listener("SSL").context()) == "other"


async def test_a_listener_may_have_any_name(tmp_path: Path) -> None:
    settings = {
        "listeners": "INSIDE://localhost:0,OUTSIDE://localhost:0,CONTROLLER://localhost:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    found = NodeTls(config(tmp_path, settings))
    assert name_shown(found.of_listener("OUTSIDE").context()) == "node-1"
    assert found.to_enter("INSIDE") is None


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ssl.keystore.location": "/not/there"}, "listener SSL: /not/there cannot be read"),
        ({"ssl.keystore.location": "-"}, "listener SSL: there is no key"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, r"listener SSL: .*TLSv1\.1 can no longer be"),
        ({"ssl.client.auth": "required", "ssl.truststore.location": "-"}, "without a truststore"),
    ],
)
async def test_a_node_does_not_start_with_what_cannot_be_used(
    tmp_path: Path, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(CannotStart, match=reason):
        NodeTls(config(tmp_path, settings))


async def test_nodes_that_would_not_believe_each_other_do_not_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "node.pem").write_text(Authority.make("another").issue("node-1", HOSTS).pem())
    settings = {"ssl.client.auth": "required"}
    others = {"controller.quorum.voters": "1@localhost:9093,2@other:9093,3@third:9093"}
    with pytest.raises(CannotStart, match="would not let each other in: the certificate is not"):
        NodeTls(config(tmp_path, settings | others))
    NodeTls(config(tmp_path, settings))  # alone: there are no others yet
    assert "would not let each other in" in caplog.text


async def test_behind_sasl_only_the_listeners_own_prefix_asks_for_certificates(
    tmp_path: Path,
) -> None:
    general = {
        "listeners": "SASL_SSL://localhost:0,CONTROLLER://localhost:0",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "ssl.client.auth": "required",
    }
    found = NodeTls(config(tmp_path, general))
    assert found.of_listener("SASL_SSL").context().verify_mode == ssl.CERT_NONE
    own = {**general, "listener.name.sasl_ssl.ssl.client.auth": "required"}
    found = NodeTls(config(tmp_path, own))
    assert found.of_listener("SASL_SSL").context().verify_mode == ssl.CERT_REQUIRED


async def test_a_certificate_that_ends_soon_is_worth_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "node.pem").write_text(AUTHORITY.issue("node-1", HOSTS, days=3.5).pem())
    async with watched(NodeTls(config(tmp_path)), monkeypatch):
        assert "listener SSL: the certificate expires in 3 days" in caplog.text


class LateClock(SystemClock):
    def now(self) -> Millis:
        return Millis(super().now() + 4 * 365 * 86_400_000)


async def test_a_certificate_that_has_expired_is_worth_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = NodeTls(config(tmp_path))
    found.start(InlineWorkers(), LateClock())
    await found.stop()
    assert "listener SSL: the certificate has expired" in caplog.text


# -- changes --------------------------------------------------------------------------------------


async def test_new_files_are_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = NodeTls(config(tmp_path, ANY_NAME))
    before = found.to_enter("SSL")
    async with watched(found, monkeypatch):
        replace_keys(tmp_path, AUTHORITY.issue("renewed", HOSTS))
        await eventually_shown(found, "renewed")
    assert found.to_enter("SSL") is not before


@pytest.mark.parametrize("broken", ["", "nonsense", NODE.chain_pem, None])
async def test_broken_files_are_told_once_and_the_old_keys_stay(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: str | None,
) -> None:
    found = NodeTls(config(tmp_path, ANY_NAME))
    async with watched(found, monkeypatch):
        if broken is None:
            (tmp_path / "node.pem").unlink()
        else:
            (tmp_path / "node.pem").write_text(broken)
        async with asyncio.timeout(5):
            while "the new keys cannot be used, the old ones stay" not in caplog.text:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert name_shown(found.of_listener("SSL").context()) == "node-1"
        assert caplog.text.count("listener SSL: the new keys cannot be used") == 2  # both ways
        replace_keys(tmp_path, AUTHORITY.issue("mended", HOSTS))
        await eventually_shown(found, "mended")


@pytest.mark.parametrize("call", ["open", "memfd_create"])
async def test_keys_are_taken_up_after_the_system_was_out_of_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """In a storm of connections there may be none left at the moment of a change."""
    works, failed = getattr(os, call), asyncio.Event()

    def fails_once(name: str, flags: int) -> int:
        if not failed.is_set():
            failed.set()
            raise OSError(errno.EMFILE, "Too many open files")
        number: int = works(name, flags)
        return number

    found = NodeTls(config(tmp_path, ANY_NAME))
    async with watched(found, monkeypatch):
        replace_keys(tmp_path, AUTHORITY.issue("node-2", HOSTS))
        monkeypatch.setattr(os, call, fails_once)
        await eventually_shown(found, "node-2")
    assert failed.is_set()


@pytest.mark.parametrize(
    ("issued", "reason"),
    [
        (AUTHORITY.issue("node-2", HOSTS), "ssl.allow.dn.changes"),
        (AUTHORITY.issue("node-1", ["localhost"]), "no longer names 127.0.0.1"),
    ],
)
async def test_keys_of_another_node_are_taken_for_a_mistake(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    issued: Issued,
    reason: str,
) -> None:
    found = NodeTls(config(tmp_path))
    old = found.of_listener("SSL").context()
    async with watched(found, monkeypatch):
        replace_keys(tmp_path, issued)
        async with asyncio.timeout(5):
            while "the old ones stay" not in caplog.text:
                await asyncio.sleep(0.01)
    assert reason in caplog.text
    assert found.of_listener("SSL").context() is old


async def test_a_certificate_with_more_names_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = NodeTls(config(tmp_path))
    old = found.of_listener("SSL").context()
    async with watched(found, monkeypatch):
        replace_keys(tmp_path, AUTHORITY.issue("node-1", [*HOSTS, "node-1.example.com"]))
        async with asyncio.timeout(5):
            while found.of_listener("SSL").context() is old:
                await asyncio.sleep(0.01)


async def test_settings_that_are_altered_are_taken_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.pem"
    other.write_text(AUTHORITY.issue("other", HOSTS).pem())
    file = config(tmp_path, ANY_NAME)
    found = NodeTls(file)
    async with watched(found, monkeypatch):
        monkeypatch.setattr(tls, "CHECK_SECONDS", 600)
        await asyncio.sleep(0.05)
        altered = {"listener.name.ssl.ssl.keystore.location": str(other)}
        found.on_config(file.overlaid(altered))
        await eventually_shown(found, "other")
        found.on_config(file)
        await eventually_shown(found, "node-1")


async def test_settings_are_judged_before_they_count(tmp_path: Path) -> None:
    file = config(tmp_path)
    found = NodeTls(file)
    assert found.judge(file) is None
    location = "listener.name.ssl.ssl.keystore.location"
    problem = found.judge(file.overlaid({location: "/not/there"}))
    assert problem is not None and "/not/there cannot be read" in problem
    (tmp_path / "b.pem").write_text(AUTHORITY.issue("node-2", HOSTS).pem())
    problem = found.judge(file.overlaid({location: str(tmp_path / "b.pem")}))
    assert problem is not None and "ssl.allow.dn.changes" in problem
    (tmp_path / "c.pem").write_text(AUTHORITY.issue("node-1", HOSTS).pem())
    assert found.judge(file.overlaid({location: str(tmp_path / "c.pem")})) is None


def test_a_private_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text("older, and open to all")
    write_private(str(path), "new")
    assert path.read_text() == "new"
    assert os.stat(path).st_mode & 0o777 == 0o600

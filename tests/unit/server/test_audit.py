"""What is written down for those who watch: once, bounded, readable by programs."""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.protocol.api_keys import ApiKey
from penstock.security.principal import Principal
from penstock.server import audit
from penstock.server.call import Call, Sender

ALICE = Principal("alice")


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="penstock.audit")


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    found = [each for each in caplog.records if each.name == "penstock.audit"]
    assert all("\n" not in each.getMessage() for each in found)
    return [json.loads(each.getMessage()) for each in found]


def call_of(
    who: Principal = ALICE,
    *,
    key: ApiKey = ApiKey.FETCH,
    sender: Sender | None = None,
    gate: Any = 1,
) -> Call:
    if gate is not None:
        gate = SimpleNamespace(principal=who)
    connection: Any = SimpleNamespace(gate=gate, peer=("10.0.0.1", 4711), listener_name="CLIENTS")
    return Call(connection, int(key), 12, 1, "reader-7", sender)


def deny(name: str = "orders", who: Principal = ALICE) -> None:
    audit.denied(call_of(who), Operation.READ, ResourceType.TOPIC, name)


async def test_a_refusal_says_who_from_where_and_what(caplog: pytest.LogCaptureFixture) -> None:
    deny()
    assert lines(caplog) == [
        {
            "event": "denied",
            "principal": "User:alice",
            "host": "10.0.0.1",
            "listener": "CLIENTS",
            "api": "FETCH",
            "client": "reader-7",
            "operation": "READ",
            "resource": "TOPIC:orders",
        }
    ]


async def test_the_same_refusal_is_written_once_and_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "WINDOW_SECONDS", 0.02)
    for _ in range(5):
        deny()
    deny("others")
    assert len(lines(caplog)) == 2
    async with asyncio.timeout(5):
        while len(lines(caplog)) < 3:
            await asyncio.sleep(0.01)
    again = lines(caplog)[2]
    assert (again["resource"], again["again"]) == ("TOPIC:orders", 4)
    deny()  # in the next window it is news again
    assert len(lines(caplog)) == 4


async def test_lines_are_bounded_whatever_clients_think_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "WINDOW_SECONDS", 0.05)
    for number in range(audit.LINES_MAX + 30):
        deny(f"topic-{number}")
    assert len(lines(caplog)) == audit.LINES_MAX
    audit.login_failed("10.0.0.2", "CLIENTS", "PLAIN", "bob", "wrong")
    assert len(lines(caplog)) == audit.LINES_MAX + 1, "one kind of event must not drown another"
    async with asyncio.timeout(5):
        while lines(caplog)[-1] != {"event": "denied", "unwritten": 30}:
            await asyncio.sleep(0.01)


async def test_no_line_is_made_of_what_is_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Call] = []
    who = audit._who

    def counted(call: Call) -> dict[str, Any]:
        made.append(call)
        return who(call)

    monkeypatch.setattr(audit, "_who", counted)
    for number in range(3 * audit.LINES_MAX):
        deny(f"topic-{number}")
        deny("orders")
    assert len(made) == audit.LINES_MAX


async def test_nobody_forges_a_line_or_fills_one(caplog: pytest.LogCaptureFixture) -> None:
    deny('x"}\n{"event": "logged in"')
    deny("long" * 10_000, Principal("\x1b[31m" + "a" * 10_000))
    first, second = lines(caplog)
    assert first["resource"] == 'TOPIC:x"}\n{"event": "logged in"'
    assert len(second["resource"]) < 300
    assert len(second["principal"]) < 300
    assert "\x1b" not in caplog.records[-1].getMessage()


async def test_logins_are_written_down(caplog: pytest.LogCaptureFixture) -> None:
    audit.login_failed("10.0.0.2", "CLIENTS", "PLAIN", "bob", "wrong")
    audit.login_failed("10.0.0.2", "CLIENTS", "PLAIN", "bob", "wrong")
    audit.logged_in("10.0.0.2", "CLIENTS", "PLAIN", Principal("bob"))
    where = {"host": "10.0.0.2", "listener": "CLIENTS", "mechanism": "PLAIN"}
    assert lines(caplog) == [
        {"event": "login failed", **where, "principal": "bob", "reason": "wrong"},
        {"event": "logged in", **where, "principal": "User:bob"},
    ]


async def test_every_change_is_written_down(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        audit.changed(call_of(key=ApiKey.CREATE_TOPICS), "create topics", {"topics": ["a"]})
    assert [each["details"] for each in lines(caplog)] == [{"topics": ["a"]}] * 3
    assert lines(caplog)[0]["change"] == "create topics"


async def test_details_are_cut_to_what_one_wants_to_read(caplog: pytest.LogCaptureFixture) -> None:
    details = {"names": ["n" * 1000] * 5000, "more": {str(n): n for n in range(5000)}, "none": None}
    audit.changed(call_of(), "something", details)
    (line,) = lines(caplog)
    assert line["details"]["names"][-1] == "and 4900 more"
    assert len(line["details"]["names"]) == audit.ITEMS_MAX + 1
    assert line["details"]["more"]["..."] == "and 4900 more"
    assert len(line["details"]["more"]) == audit.ITEMS_MAX + 1
    assert len(caplog.records[-1].getMessage()) < 40_000


async def test_what_was_passed_on_names_the_client_and_the_broker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sender = Sender(Principal("carol"), "192.168.0.9")
    audit.changed(call_of(Principal("broker-1"), sender=sender), "something")
    (line,) = lines(caplog)
    assert (line["principal"], line["host"]) == ("User:carol", "192.168.0.9")
    assert line["passed_on_by"] == "10.0.0.1"


async def test_changes_by_nobody_in_particular_are_not_written_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    audit.changed(call_of(gate=None), "something")
    assert not lines(caplog)

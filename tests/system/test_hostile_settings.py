"""Settings that arrive over the wire: what an administrator may alter neither runs code, nor reads
files, nor decides who is believed, nor takes a node down.

More of what was published elsewhere is in tests/system/test_vulnerabilities.py.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from penstock.app.node import Node
from penstock.model.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from penstock.model.config.keys import THROTTLE_KEYS
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import describe_configs as describing
from penstock.protocol.generated import incremental_alter_configs as altering
from tests.unit.security.entering import entered, secured, secured_node
from tests.unit.server.asking import Asker, batch

MALLORY = ("mallory", "mallory-secret")
TOPIC, BROKER, GROUP = 2, 4, 32


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A node that asks for logins and rights, of which mallory has none."""
    async with secured_node(tmp_path, secured("SASL_PLAINTEXT", dict((MALLORY,)))) as running:
        async with entered(running) as admin:
            await admin.create("t")
        yield running


def _altering(
    kind: int, name: str, key: str, value: str
) -> altering.IncrementalAlterConfigsRequest:
    config = altering.AlterableConfig(name=key, config_operation=0, value=value)
    resource = altering.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[config]
    )
    return altering.IncrementalAlterConfigsRequest(resources=[resource])


async def _alter(admin: Asker, kind: int, name: str, key: str, value: str) -> int:
    answer = await admin.ask(_altering(kind, name, key, value), 1)
    error: int = answer.responses[0].error_code
    return error


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that can be imported, and must not be."""
    name = "penstock_trap"
    (tmp_path / f"{name}.py").write_text("class Trap: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    assert name not in sys.modules, "a name that arrived over the wire was imported"


async def test_no_setting_that_arrives_over_the_wire_loads_code(node: Node, trap: str) -> None:
    """CVE-2023-25194, CVE-2025-27818 and CVE-2025-27819: login modules and classes by name."""
    names = [key for key in BROKER_KEYS if "class" in key or "reporters" in key or "policy" in key]
    assert len(names) > 10
    jndi = "com.sun.security.auth.module.JndiLoginModule required user.provider.url=ldap://x;"
    prefix = "listener.name.sasl_plaintext."
    async with entered(node) as admin:
        for key in names:
            for each in (key, prefix + key):
                await _alter(admin, BROKER, "1", each, f"{trap}.Trap")
                await _alter(admin, BROKER, "", each, f"{trap}:Trap")
        for key in ("sasl.jaas.config", f"{prefix}plain.sasl.jaas.config"):
            await _alter(admin, BROKER, "1", key, jndi)
            await _alter(admin, BROKER, "1", key, f"{trap}.Trap required;")
    # And what was there before still decides who comes in.
    async with entered(node) as admin:
        assert (await admin.produce("t", batch())).error_code == ErrorCode.NONE


EXPANDED_ELSEWHERE = ("${env:HOME}", "${file:/etc/passwd:root}", "${directory:/etc:passwd}")


async def test_a_value_that_arrives_over_the_wire_is_not_expanded(node: Node) -> None:
    """CVE-2024-31141: providers of values read files and the environment for who may set them."""
    async with entered(node) as admin:
        for kind, name, key in (
            (TOPIC, "t", "compression.type"),
            (TOPIC, "t", "follower.replication.throttled.replicas"),
            (BROKER, "1", "log.cleaner.threads"),
        ):
            for value in EXPANDED_ELSEWHERE:
                assert await _alter(admin, kind, name, key, value) != ErrorCode.NONE
        request = describing.DescribeConfigsRequest(
            resources=[
                describing.DescribeConfigsResource(
                    resource_type=TOPIC, resource_name="t", configuration_keys=None
                )
            ]
        )
        answer = await admin.ask(request, 4)
    assert "/root" not in repr(answer) and "nologin" not in repr(answer)


DECIDES = (
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.expected.issuer",
    "authorizer.class.name",
    "delegation.token.secret.key",
    "listener.security.protocol.map",
)


async def test_what_decides_who_is_believed_is_not_altered_over_the_wire(node: Node) -> None:
    """CVE-2025-27817: an address that a client may set made the server read and ask for it."""
    async with entered(node) as admin:
        for name in ("1", ""):
            for key in DECIDES:
                error = await _alter(admin, BROKER, name, key, "file:///etc/passwd")
                assert error in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG), key
            # Kafka takes these two for settings of somebody else's, and so they change nothing.
            await _alter(admin, BROKER, name, "super.users", "User:mallory")
            await _alter(admin, BROKER, name, "allow.everyone.if.no.acl.found", "true")
        await admin.create("other")
    async with entered(node, *MALLORY) as mallory:
        for topic in ("t", "other"):
            refused = await mallory.produce(topic, batch())
            assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


NASTY = ("", "-1", "0", "2147483647", "9" * 400, "x:y,:,z:-1", "h:99999999999999999999", "\0\n")


async def test_no_setting_that_an_administrator_alters_takes_the_node_down(tmp_path: Path) -> None:
    """What is taken can be lived with, at once and when the node starts again."""
    dynamic = [name for name, each in BROKER_KEYS.items() if each.mode != "read-only"]
    of_listener = [f"listener.name.sasl_plaintext.{name}" for name in dynamic]
    settings = secured("SASL_PLAINTEXT")
    async with secured_node(tmp_path, settings) as node, entered(node) as admin:
        await admin.create("t")
        for kind, name, keys in (
            (BROKER, "1", [*dynamic, *of_listener, *THROTTLE_KEYS]),
            (BROKER, "", dynamic),
            (TOPIC, "t", [*TOPIC_KEYS]),
            (GROUP, "g", [*GROUP_KEYS]),
        ):
            await _alter_each(admin, kind, name, [(key, it) for key in keys for it in NASTY])
        assert node.sound
    async with secured_node(tmp_path, settings) as node, entered(node) as admin:
        await admin.create("u")
        assert node.sound


async def _alter_each(admin: Asker, kind: int, name: str, pairs: list[tuple[str, str]]) -> None:
    """Each in a request of its own: one that is refused would have the others refused."""
    for at in range(0, len(pairs), 200):
        some = pairs[at : at + 200]
        for key, value in some:
            admin.send(_altering(kind, name, key, value), 1)
        for _ in some:
            await admin.receive(int(ApiKey.INCREMENTAL_ALTER_CONFIGS), 1)

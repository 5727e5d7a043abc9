"""Bounds on connections, from configuration and from what is altered while a node runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.admission import bounds_of, listener_bounds
from penstock.app.problems import CannotStart
from penstock.app.settings import settings_for_up
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.net.admission import INT_MAX
from penstock.platform.open_files import connections_share, logs_share, raise_limit
from penstock.protocol.generated import alter_client_quotas as quotas
from penstock.protocol.generated import incremental_alter_configs as configs
from penstock.protocol.generated.metadata import MetadataRequest
from tests.unit.server.asking import asking, port_of, running_node

BROKER = 4


def config_of(overrides: dict[str, str]) -> NodeConfig:
    return NodeConfig.of(settings_for_up("unused", "127.0.0.1", 0, overrides))


def test_where_nothing_is_set_there_is_a_bound_all_the_same() -> None:
    bounds = bounds_of(config_of({}))
    assert bounds.connections_max == connections_share(raise_limit())
    assert bounds.connections_per_address_max < bounds.connections_max
    assert bounds.per_second_max == INT_MAX


@pytest.mark.parametrize("limit", [1024, 4096, 20_000, 1 << 20])
def test_logs_and_connections_share_the_descriptors(limit: int) -> None:
    assert 64 <= connections_share(limit) <= 100_000
    assert connections_share(limit) + logs_share(limit) < limit


def test_what_is_set_counts_for_the_node_or_for_a_listener() -> None:
    config = config_of(
        {
            "max.connections": "50",
            "max.connections.per.ip": "20",
            "max.connections.per.ip.overrides": "127.0.0.1:7, [::1]:8",
            "listener.name.plaintext.max.connections": "30",
            "listener.name.plaintext.max.connection.creation.rate": "5",
        }
    )
    bounds = bounds_of(config)
    assert (bounds.connections_max, bounds.connections_per_address_max) == (50, 20)
    assert bounds.overrides == {"127.0.0.1": 7, "::1": 8}
    assert listener_bounds(config, "PLAINTEXT") == (30, 5)
    assert listener_bounds(config, "CONTROLLER") == (50, INT_MAX)


def test_a_running_node_looks_no_names_up() -> None:
    config = config_of({"max.connections.per.ip.overrides": "localhost:5"})
    assert set(bounds_of(config).overrides.values()) == {5}
    with pytest.raises(CannotStart, match="localhost"):
        bounds_of(config, looks_up=False)


@pytest.mark.parametrize("entry", ["..:1", f"{'a' * 64}.b:1", "1.2.3.4:x", f"1.2.3.4:{'9' * 5000}"])
def test_an_exception_that_makes_no_sense_is_told_and_not_raised_at_those_who_replay_metadata(
    entry: str,
) -> None:
    """It may come with the metadata, where the checks of another version let it pass."""
    config = config_of({}).overlaid({"max.connections.per.ip.overrides": entry})
    for looks_up in (True, False):
        with pytest.raises(CannotStart, match=r"per\.ip\.overrides"):
            bounds_of(config, looks_up=looks_up)


async def test_a_host_that_no_name_can_be_is_refused_or_lived_with(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        for host in ("..", f"{'a' * 64}.b"):
            await asker.ask(altered("max.connections.per.ip.overrides", f"{host}:1"), 1)
        await asker.ask(altered("max.connections.per.ip", "100"), 1)
        assert node.sound


def altered(name: str, value: str) -> configs.IncrementalAlterConfigsRequest:
    return configs.IncrementalAlterConfigsRequest(
        resources=[
            configs.AlterConfigsResource(
                resource_type=BROKER,
                resource_name="",
                configs=[configs.AlterableConfig(name=name, config_operation=0, value=value)],
            )
        ]
    )


async def test_a_bound_that_is_altered_counts_at_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        for value, served in (("1", False), ("100", True)):
            answer = await asker.ask(altered("max.connections.per.ip", value), 1)
            assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]
            async with asking(port_of(node)) as other:
                if served:
                    await other.ask(MetadataRequest(topics=[]), 9)
                else:
                    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                        await other.ask(MetadataRequest(topics=[]), 9)


async def test_a_rate_for_an_address_counts_at_once(tmp_path: Path) -> None:
    overrides = {"quota.window.num": "2"}
    async with running_node(tmp_path, overrides) as node, asking(port_of(node)) as asker:
        request = quotas.AlterClientQuotasRequest(
            entries=[
                quotas.AlterClientQuotasRequestEntryData(
                    entity=[
                        quotas.AlterClientQuotasRequestEntityData(
                            entity_type="ip", entity_name="127.0.0.1"
                        )
                    ],
                    ops=[quotas.OpData(key="connection_creation_rate", value=2.0)],
                )
            ]
        )
        answer = await asker.ask(request, 1)
        assert [each.error_code for each in answer.entries] == [ErrorCode.NONE]
        outcomes = []
        for _ in range(4):
            async with asking(port_of(node)) as other:
                try:
                    await other.ask(MetadataRequest(topics=[]), 9)
                    outcomes.append("served")
                except (asyncio.IncompleteReadError, ConnectionError):
                    outcomes.append("turned away")
        assert outcomes[:3] == ["served", "served", "turned away"]

"""A node: its parts put together, started and stopped in order.

Owns the order of things and nothing else. Commands enter at `run_up` and `run_server`.
"""

from __future__ import annotations

from collections.abc import Mapping


def run_up(data: str, host: str, port: int, overrides: Mapping[str, str]) -> int:
    """Run a node with sensible settings until it is told to stop; the exit status."""
    from penstock.app.run import run
    from penstock.app.settings import settings_for_up
    from penstock.model.config.node import NodeConfig

    return run(lambda: NodeConfig.of(settings_for_up(data, host, port, overrides)), formats=True)


def run_server(path: str) -> int:
    """Run the node that a configuration file describes until it is told to stop.

    Its directories must have been formatted: one that lost its disk must not vote again.
    """
    from penstock.app.run import run
    from penstock.model.config.node import NodeConfig

    return run(lambda: NodeConfig.load(path), formats=False)

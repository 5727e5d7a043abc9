"""A node: its parts put together, started and stopped in order.

Owns the order of things and nothing else. Commands enter at `run_up`, `run_company` and
`run_server`.
"""

from __future__ import annotations

from collections.abc import Mapping

COMPANY_NOTE = "cluster.properties"
"""In a directory that holds several brokers: their cluster, and how many of them vote."""


def run_up(data: str, host: str, port: int, overrides: Mapping[str, str]) -> int:
    """Run a node with sensible settings until it is told to stop; the exit status."""
    import os

    from penstock.app.run import run
    from penstock.app.settings import settings_for_up
    from penstock.model.config.node import NodeConfig

    if os.path.exists(os.path.join(data, COMPANY_NOTE)):
        return _refuse(f"{data} holds a cluster of several brokers: say --brokers N")
    return run(lambda: NodeConfig.of(settings_for_up(data, host, port, overrides)), formats=True)


def run_company(count: int, data: str, host: str, port: int, overrides: Mapping[str, str]) -> int:
    """Run several brokers as one cluster until they are told to stop; the exit status."""
    from penstock.app.company import CannotForm, members
    from penstock.app.supervisor import run_members
    from penstock.raft.format import CannotFormat

    try:
        return run_members(members(count, data, host, port, overrides))
    except (CannotForm, CannotFormat, OSError) as problem:
        return _refuse(str(problem))


def _refuse(why: str) -> int:
    import sys

    print(f"penstock: {why}", file=sys.stderr)
    return 2


def run_server(path: str) -> int:
    """Run the node that a configuration file describes until it is told to stop.

    Its directories must have been formatted: one that lost its disk must not vote again.
    """
    from penstock.app.run import run
    from penstock.model.config.node import NodeConfig

    return run(lambda: NodeConfig.load(path), formats=False)

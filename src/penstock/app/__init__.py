"""A node: its parts put together, started and stopped in order.

Owns the order of things and nothing else. Commands enter at `run_up`, `run_company` and
`run_server`.
"""

from __future__ import annotations

from collections.abc import Mapping

COMPANY_NOTE = "cluster.properties"
"""In a directory that holds several brokers: their cluster, and how many of them vote."""

SECURED_NOTE = "authority-key.pem"
"""In a directory that was begun with --secure: the key of its own authority."""


def run_up(
    data: str, host: str, port: int, overrides: Mapping[str, str], *, secure: bool = False
) -> int:
    """Run a node with sensible settings until it is told to stop; the exit status."""
    import os

    from penstock.app.run import run
    from penstock.app.settings import settings_for_up
    from penstock.model.config.node import NodeConfig

    if os.path.exists(os.path.join(data, COMPANY_NOTE)):
        return _refuse(f"{data} holds a cluster of several brokers: say --brokers N")
    if secure:
        return _run_secured(data, host, port, overrides)
    if os.path.exists(os.path.join(data, SECURED_NOTE)):
        return _refuse(f"{data} was begun with --secure, and would lie open: say --secure")
    return run(lambda: NodeConfig.of(settings_for_up(data, host, port, overrides)), formats=True)


def _run_secured(data: str, host: str, port: int, overrides: Mapping[str, str]) -> int:
    """One node that asks for proof and rights."""
    from penstock.app.run import run
    from penstock.app.secure import PROTOCOL, CannotSecure, Secured
    from penstock.app.settings import settings_for_up
    from penstock.model.config.node import NodeConfig
    from penstock.model.config.problems import ConfigProblems
    from penstock.raft.format import CannotFormat

    try:
        secured = Secured(data, host)
        settings = settings_for_up(data, host, port, {**secured.settings(), **overrides}, PROTOCOL)
        config = NodeConfig.of(settings)
        secured.format(config)
    except (CannotSecure, CannotFormat, ConfigProblems, OSError) as problem:
        return _refuse(str(problem))
    return run(lambda: config, formats=False, on_ready=secured.announce)


def run_company(
    count: int,
    data: str,
    host: str,
    port: int,
    overrides: Mapping[str, str],
    *,
    secure: bool = False,
) -> int:
    """Run several brokers as one cluster until they are told to stop; the exit status."""
    import os

    from penstock.app.company import CannotForm, members
    from penstock.app.secure import CannotSecure, Secured
    from penstock.app.supervisor import run_members
    from penstock.raft.format import CannotFormat

    if not secure and os.path.exists(os.path.join(data, SECURED_NOTE)):
        return _refuse(f"{data} was begun with --secure, and would lie open: say --secure")
    try:
        if not secure:
            return run_members(members(count, data, host, port, overrides))
        secured = Secured(data, host)
        formed = members(count, data, host, port, overrides, secured)
        return run_members(formed, secured.announce)
    except (CannotForm, CannotFormat, CannotSecure, OSError) as problem:
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

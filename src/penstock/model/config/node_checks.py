"""Checks across several keys of a node's configuration."""

from __future__ import annotations

from penstock.model.config.node import NodeConfig
from penstock.model.config.problems import Problem


def check_node(config: NodeConfig) -> list[Problem]:
    """Everything that does not go together; empty if all is well."""
    return []

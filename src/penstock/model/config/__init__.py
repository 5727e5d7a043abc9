"""Configuration keys: what exists, what a value may be, and what counts in the end.

Owns Kafka's configuration names, types, defaults and rules, as facts and not as behaviour: what a
key does is decided in the room that reads it. Enter at `NodeConfig` for a node's file, `keys` for
the tables, `values.parse` for one value, `topics` for a topic's effective configuration, `status`
to say what is honoured. `NodeConfig.load` is the one place in `model` that reads a file.
"""

from __future__ import annotations

from penstock.model.config.endpoints import Listener, Voter
from penstock.model.config.keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    ConfigKey,
)
from penstock.model.config.node import NodeConfig
from penstock.model.config.problems import ConfigProblems, InvalidConfig, Problem
from penstock.model.config.values import parse, text_of

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "GROUP_KEYS",
    "TOPIC_KEYS",
    "ConfigKey",
    "ConfigProblems",
    "InvalidConfig",
    "Listener",
    "NodeConfig",
    "Problem",
    "Voter",
    "parse",
    "text_of",
]

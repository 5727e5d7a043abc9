"""A key that is called honoured is read by somebody."""

from __future__ import annotations

import re
from pathlib import Path

import penstock
from penstock.model.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, ConfigKey

ROOT = Path(penstock.__file__).parent
# This room talks about keys without acting on them; only NodeConfig reads some for others.
TALK = ROOT / "model" / "config"
READS = TALK / "node.py"


def literals() -> set[str]:
    """Every quoted name in the source that could be a key."""
    found: set[str] = set()
    for path in ROOT.rglob("*.py"):
        if TALK in path.parents and path != READS:
            continue
        found.update(re.findall(r'"([a-z0-9.]+)"', path.read_text(encoding="utf-8")))
    return found


def others_of(key: ConfigKey) -> set[str]:
    """The topic and group keys through which a broker key takes effect."""
    return {
        other.name
        for other in (*TOPIC_KEYS.values(), *GROUP_KEYS.values())
        if key.name in (name for name, _ in other.synonyms) or key.name in bounds_of(other.name)
    }


def bounds_of(name: str) -> tuple[str, str]:
    """The broker keys between which a group key is held."""
    kind, _, what = name.partition(".")
    return f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"


def test_every_honoured_broker_key_is_read_itself_or_through_a_topic_or_group_key() -> None:
    read = literals()
    honoured = [key for key in BROKER_KEYS.values() if key.status == "honoured"]
    unread = [key.name for key in honoured if not ({key.name} | others_of(key)) & read]
    assert unread == []


def test_every_honoured_topic_key_is_read() -> None:
    read = literals()
    honoured = [key.name for key in TOPIC_KEYS.values() if key.status == "honoured"]
    assert [name for name in honoured if name not in read] == []

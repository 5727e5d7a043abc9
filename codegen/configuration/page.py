"""Writes docs/reference/configuration.md.

    python -m codegen.configuration.page

Everything on the page comes from `penstock.model.config`; a test wants no difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from penstock.model.config.keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    THROTTLE_KEYS,
    TOPIC_KEYS,
    ConfigKey,
)
from penstock.model.config.names import PLUGIN_KEYS
from penstock.model.config.rules import words_of
from penstock.model.config.values import default_text

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "..", "..", "docs", "reference", "configuration.md")

INTRODUCTION = """\
# Configuration

<!-- Written by `python -m codegen.configuration.page`. Do not edit. -->

`penstock server FILE` takes Kafka's `server.properties`, with Kafka's names and defaults. A file
whose name ends in `.toml` holds the same keys as TOML, dotted or in tables:

```toml
process.roles = ["broker", "controller"]
node.id = 1

[log]
dirs = "/var/lib/penstock"
retention.hours = 24
```

A key that is also the beginning of another (`log.dir`, `log.dir.failure.timeout.ms`) must be quoted
whole in TOML: `"log.dir" = "/data"`.

`penstock config validate FILE` reports everything that is wrong with a file, with line numbers. A
key that does not exist is refused, and the nearest one that does is named. Below a prefix
`listener.name.NAME.` a key counts for that listener alone.

Each key is one of

- **honoured**: Penstock does what it says;
- **planned**: accepted and checked, without effect until a later release;
- **ignored**: about something that Penstock does not have, and accepted so that a file that works
  with Kafka need not be edited.

Penstock says once at its start which keys of a file have no effect.

Times are in the unit that the name ends with. *Update* says how a broker key changes while the node
runs: `read-only` needs a restart; `cluster-wide` can be altered for all brokers or for one;
`per-broker` only for one.
"""


def broker_table(keys: Iterable[ConfigKey]) -> str:
    head = "| Key | Type | Default | Valid | Update | Status | What it does |"
    return table(head, ([*facts_of(key), key.mode, key.status, key.description] for key in keys))


def synonym_table(keys: Iterable[ConfigKey]) -> str:
    head = "| Key | Type | Default | Valid | Falls back to | Status | What it does |"
    rows = ([*facts_of(key), synonyms_of(key), key.status, key.description] for key in keys)
    return table(head, rows)


def table(head: str, rows: Iterable[list[str]]) -> str:
    rule = "|" + " --- |" * (head.count("|") - 1)
    lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows]
    return "\n".join([head, rule, *lines]) + "\n"


def facts_of(key: ConfigKey) -> list[str]:
    return [f"`{key.name}`", key.type.lower(), default_of(key), words_of(key.valid)]


def default_of(key: ConfigKey) -> str:
    if key.required:
        return "*required*"
    text = default_text(key)
    if text is None:
        return ""
    return f"`{text}`" if text else "*empty*"


def synonyms_of(key: ConfigKey) -> str:
    return ", ".join(f"`{name}`" for name, _ in key.synonyms)


def documented(keys: Iterable[ConfigKey]) -> list[ConfigKey]:
    """Kafka's internal keys work but are nobody's business."""
    return [key for key in keys if not key.internal]


def with_status(status: str) -> list[ConfigKey]:
    return [key for key in documented(BROKER_KEYS.values()) if key.status == status]


def page() -> str:
    """The whole page."""
    sections = (
        INTRODUCTION,
        "## Broker keys that Penstock honours\n",
        broker_table(with_status("honoured")),
        "## Topic keys\n",
        synonym_table(documented(TOPIC_KEYS.values())),
        "## Group keys\n",
        synonym_table(GROUP_KEYS.values()),
        "## Client metrics keys\n",
        synonym_table(CLIENT_METRICS_KEYS.values()),
        "## Broker keys that are planned\n",
        broker_table([*with_status("planned"), *PLUGIN_KEYS.values()]),
        "## Broker keys that can only be altered while the node runs\n",
        broker_table(THROTTLE_KEYS.values()),
        "## Broker keys that Penstock ignores\n",
        broker_table(with_status("ignored")),
    )
    return "\n".join(sections)


def main() -> None:
    os.makedirs(os.path.dirname(TARGET), exist_ok=True)
    with open(TARGET, "w", encoding="utf-8") as file:
        file.write(page())


if __name__ == "__main__":
    main()

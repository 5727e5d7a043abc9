"""Writes src/penstock/model/config/facts.py from the classes of a Kafka release.

    python -m codegen.configuration.import_facts DIRECTORY_OF_JARS

Needs a JDK. Only facts cross over (names, types, defaults, bounds, synonyms); descriptions are
Penstock's own and live in `descriptions.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "..", "..", "src", "penstock", "model", "config", "facts.py")

HEADER = '''"""What Kafka 4.3 says about its keys. Emitted by codegen/configuration; do not edit.

A broker row is (name, type, default, valid, importance, update mode). Rows of the other kinds end
instead with the broker keys that they fall back to, as (name, factor) pairs, nearest first.
`REQUIRED` marks a key without a default. The notation of `valid` is explained in `rules.py`.
"""

# ruff: noqa: E501

from __future__ import annotations

REQUIRED = "(required)"

Synonyms = tuple[tuple[str, int], ...]
BrokerRow = tuple[str, str, object, str, str, str]
Row = tuple[str, str, object, str, str, Synonyms]
'''

TABLES = (
    ("BROKER", "broker", "Keys of server.properties."),
    ("THROTTLE", "throttle", "Broker keys that exist only as dynamic configuration."),
    ("TOPIC", "topic", "Keys of a topic."),
    ("GROUP", "group", "Keys of a consumer, share or streams group."),
    ("CLIENT_METRICS", "client-metrics", "Keys of a client metrics subscription."),
)

NAMED_RULES = {
    "NonEmptyString": "nonempty",
    "NonNullValidator": "nonnull",
    "LambdaValidator": "-1|1..9",  # gzip's levels, the only one
    "ThrottledReplicaListValidator": "replicas",
    "ControllerQuorumVotersValidator": "voters",
    "ControllerQuorumBootstrapServersValidator": "endpoints",
    "Validator": "offset-reset",  # share.auto.offset.reset, the only one
}


def valid_of(fact: dict[str, Any]) -> str:
    """Kafka's validator in our notation."""
    rule, text = str(fact["rule"]), str(fact["valid"])
    choices = text[text.find("[") + 1 : text.rfind("]")].replace(", ", "|")
    if rule == "Range":
        low, _, high = choices.replace(",...", "..").partition("..")
        return f"{low}..{high.removeprefix(',')}"
    if rule == "ValidString":
        return choices
    if rule == "CaseInsensitiveValidString":
        return "~" + "|".join(sorted(choices.split("|")))
    if rule == "ValidList":
        flags = ("" if fact["empty"] else "+") + ("?" if fact["null"] else "")
        return f"set{flags}({choices})" if choices else f"set{flags}"
    return NAMED_RULES[rule] if rule else ""


def default_of(fact: dict[str, Any]) -> object:
    """The default as the value that parsing gives."""
    text, kind = fact["default"], fact["type"]
    if text is None:
        return None
    if kind == "BOOLEAN":
        return text == "true"
    if kind in ("INT", "SHORT", "LONG"):
        return int(text)
    if kind == "DOUBLE":
        return float(text)
    if kind == "LIST":
        return tuple(text.split(",")) if text else ()
    return text


def row_of(fact: dict[str, Any]) -> str:
    default = "REQUIRED" if fact["required"] else quoted(default_of(fact))
    head = [quoted(fact["name"]), quoted(fact["type"]), default]
    head += [quoted(valid_of(fact)), quoted(fact["importance"])]
    if fact["mode"]:
        return ", ".join([*head, quoted(fact["mode"])])
    pairs = [entry.split("*") for entry in fact["synonyms"].split(",") if entry]
    return ", ".join([*head, quoted(tuple((name, int(factor)) for name, factor in pairs))])


def quoted(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        inner = ", ".join(quoted(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def module_of(facts: Iterable[dict[str, Any]]) -> str:
    """The text of facts.py."""
    by_name = sorted(facts, key=lambda fact: str(fact["name"]))
    parts = [HEADER.rstrip() + "\n"]
    for constant, kind, comment in TABLES:
        rows = "".join(f"    ({row_of(fact)}),\n" for fact in by_name if fact["kind"] == kind)
        row = "BrokerRow" if kind in ("broker", "throttle") else "Row"
        table = f"{constant}: tuple[{row}, ...] = (\n{rows})"
        parts.append(f"# {comment}\n# fmt: off\n{table}\n# fmt: on\n")
    hidden = "".join(f"        {quoted(f['name'])},\n" for f in by_name if f["internal"])
    comment = "# Kafka keeps these out of its documentation.\n"
    parts.append(f"{comment}INTERNAL = frozenset(\n    {{\n{hidden}    }}\n)\n")
    return "\n".join(parts)


def read_facts(jars: str) -> list[dict[str, Any]]:
    """Ask the classes in a directory of jars."""
    command = ["java", "-cp", os.path.join(jars, "*"), os.path.join(HERE, "Facts.java")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


def main(jars: str) -> None:
    text = module_of(read_facts(jars))
    with open(TARGET, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1])

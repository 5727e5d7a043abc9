"""Refresh codegen/facts from the schemas inside Apache's published jars.

    python -m codegen.import_facts DIRECTORY_OF_JARS

Only facts are taken over: names, types, versions, tags, defaults. Descriptions stay behind. What
Penstock adds (`own.py`) is put in again.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from codegen.names import module_of
from codegen.notation import NEVER, Field, Message, Shape, Versions, versions_of, write_facts
from codegen.own import MODULES as OWN
from codegen.own import add_own

FACTS = Path(__file__).parent / "facts"

JARS = (
    "kafka-clients",
    "kafka-metadata",
    "kafka-raft",
    "kafka-storage",
    "kafka-group-coordinator",
    "kafka-share-coordinator",
    "kafka-transaction-coordinator",
)


def schemas(jars: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema with the name of the jar that it came from."""
    for jar in JARS:
        (path,) = (
            it for it in jars.glob(f"{jar}-*.jar") if re.fullmatch(rf"{jar}-[\d.]+\.jar", it.name)
        )
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                    text = archive.read(name).decode()
                    yield jar, json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))


def _default_of(raw: dict[str, Any]) -> str | None:
    """The default where it differs from the type's own, in one spelling."""
    value = raw.get("default")
    if value is None:  # said or unsaid: to Apache's generator only the word "null" is a null
        return None
    if value == "null":
        return "null"
    if isinstance(value, bool):
        return "true" if value else None
    text = str(value)
    if raw["type"] in ("string", "bool"):
        return None if text in ("", "false") else text
    number = int(text, 0)
    return str(number) if number else None


def _field_of(raw: dict[str, Any], whole: Versions) -> Field:
    tagged = raw.get("taggedVersions")
    # A schema may leave the versions of a tagged field to its tag.
    versions = versions_of(raw["versions"] if "versions" in raw else raw["taggedVersions"]).within(
        whole
    )
    if tagged is not None and versions_of(tagged).within(whole) != versions:
        raise ValueError(f"{raw['name']} is tagged in only some of its versions")
    return Field(
        name=raw["name"],
        type=raw["type"],
        versions=versions,
        nullable=versions_of(raw.get("nullableVersions", "none")).within(versions),
        tag=raw.get("tag"),
        default=_default_of(raw),
        ignorable=bool(raw.get("ignorable")),
        mapkey=bool(raw.get("mapKey")),
        entity=raw.get("entityType"),
        plain=raw.get("flexibleVersions") == "none",
        fields=_fields_of(raw.get("fields", ()), whole),
    )


def _fields_of(raws: Iterable[dict[str, Any]], whole: Versions) -> list[Field]:
    """The fields that some version still carries."""
    fields = [_field_of(it, whole) for it in raws]
    return [it for it in fields if it.versions.first <= it.versions.last]


def message_of(raw: dict[str, Any]) -> Message | None:
    """The message of a schema, or None when no version of it is left."""
    versions = versions_of(raw["validVersions"])
    if versions == NEVER:
        return None
    return Message(
        kind=raw["type"],
        name=raw["name"],
        versions=versions,
        flexible=versions_of(raw["flexibleVersions"]).within(versions),
        key=raw.get("apiKey"),
        listeners=tuple(raw.get("listeners", ())),
        unstable=bool(raw.get("latestVersionUnstable")),
        fields=_fields_of(raw["fields"], versions),
        shared=[
            Shape(it["name"], _fields_of(it["fields"], versions))
            for it in raw.get("commonStructs", ())
        ],
    )


def _order(message: Message) -> tuple[int, int, str]:
    key = -1 if message.key is None else message.key
    return (key, ("request", "coordinator-key").count(message.kind) ^ 1, message.name)


def modules_of(jars: Path) -> dict[str, list[Message]]:
    """The messages of each file of facts, in their order."""
    modules: dict[str, list[Message]] = {}
    for jar, raw in schemas(jars):
        message = message_of(raw)
        if message is not None:
            add_own(message)
            modules.setdefault(module_of(message.kind, message.name, jar), []).append(message)
    return {module: sorted(messages, key=_order) for module, messages in modules.items()}


def main(jars: Path) -> None:
    modules = modules_of(jars)
    FACTS.mkdir(exist_ok=True)
    for stale in FACTS.glob("*.facts"):
        if stale.stem not in OWN:
            stale.unlink()
    for module, messages in modules.items():
        (FACTS / f"{module}.facts").write_text(write_facts(messages))
    print(f"{sum(map(len, modules.values()))} messages in {len(modules)} files")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

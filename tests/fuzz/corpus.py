"""The committed inputs: one text file per target, a name and hex in each line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.target import Target

FOLDER = Path(__file__).with_name("corpus")


def kept(target: Target) -> dict[str, bytes]:
    """The inputs of a target by name."""
    path = FOLDER / f"{target.name}.txt"
    if not path.exists():
        return {}
    lines = (line.split() for line in path.read_text().splitlines())
    return {line[0]: bytes.fromhex("".join(line[1:])) for line in lines if line}


def inputs(target: Target) -> list[bytes]:
    """All inputs to begin with: those that code makes, and those that were kept."""
    return [*target.seeds(), *kept(target).values()]


def keep(target: Target, data: Iterable[bytes]) -> int:
    """Add inputs under the names of their content; answers how many were new."""
    known = kept(target)
    fresh = {each: None for each in data if each not in known.values()}
    for each in fresh:
        known[hashlib.sha256(each).hexdigest()[:12]] = each
    # What was found comes first, so that a reader of the file sees the stories before the noise.
    rows = sorted(known.items(), key=lambda row: (not row[0].startswith("found-"), row[0]))
    path = FOLDER / f"{target.name}.txt"
    path.write_text("".join(f"{name} {value.hex()}\n" for name, value in rows))
    return len(fresh)

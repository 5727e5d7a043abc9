"""Pages made out of the model, so that they cannot drift from what is read.

`python -m penstock.pipeline.spec.reference` in the root of the repository writes two files again:

- docs/reference/pipeline-file.md, for people;
- docs/reference/pipeline.schema.json, for editors.

A test makes both and wants no difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

from penstock.pipeline.spec.entries import ANYTHING
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.keys import Key, keys_of, kinds_of, markers_of, one_of_keys
from penstock.pipeline.spec.model import OnError, Pipeline, Sink, Source, Step, Trigger
from penstock.pipeline.spec.nodes import DEPTH_MAX, FILE_BYTES_MAX, NODES_MAX
from penstock.pipeline.spec.schema import pipeline_schema

PAGE_PATH = "docs/reference/pipeline-file.md"
SCHEMA_PATH = "docs/reference/pipeline.schema.json"

_INTRODUCTION = f"""\
# The pipeline file

<!-- Made by `python -m penstock.pipeline.spec.reference`. Edit the model, not this page. -->

A pipeline is a file in YAML. [Pipelines](../pipelines.md) introduces it; this page lists every key.
Keys that are not listed here are refused, and `penstock pipeline validate FILE` tells everything
that is wrong with a file at once, with lines.
[pipeline.schema.json](pipeline.schema.json) is the same for editors: with the YAML language server,
the comment `# yaml-language-server: $schema=PATH` in a file's first line turns completion on.

## How values are written

- A text needs no quotes unless YAML wants them; `true` or `5` where a text is wanted is that text.
- Where a list of texts is wanted, a single text will do: `by: section`.
- A duration is a number and a unit, or several: `10 seconds`, `1 hour 30 minutes`; `10s`, `5m`,
  `2h` and `1d` are understood as well.
- A size is a number of bytes, or of `k`, `m`, `g` or `t` (powers of 1024): `64m`.
- Paths begin at the folder of the file.
- `file.py:name` is a function or class in a Python file.
- Anchors and aliases work. A file has at most {FILE_BYTES_MAX >> 20} MiB, {DEPTH_MAX} levels and \
{NODES_MAX:,} values.

## Variables

| written | stands for |
| --- | --- |
| `${{NAME}}` | the environment variable; it must be set |
| `${{NAME:-default}}` | the variable, or the default where it is unset or empty |
| `${{file:/run/secrets/password}}` | what the file holds, without white space around it |
| `$${{` | a plain `${{` |

They may stand in every value, also inside a longer text, and in no key. What is put in stays text:
it is never read as YAML. Passwords belong there, and not into the file.
"""

_LINKS: Mapping[Any, str] = {
    Trigger: "#trigger",
    OnError: "#on_error",
    Format: "#formats",
    Mapping[str, Source]: "#sources",
    tuple[Step, ...]: "#steps",
    Mapping[str, Sink]: "#sinks",
}
"""Where on the page a key's value is described."""


def reference_page() -> str:
    """The text of pipeline-file.md."""
    parts = [
        _INTRODUCTION,
        _section("## The keys of a file", Pipeline),
        _section("### trigger", Trigger),
        _section("### on_error", OnError),
        _section("### Formats", Format),
        _kinds("## Sources", "source", Source),
        _kinds("## Steps", "step", Step),
        _kinds("## Sinks", "sink", Sink),
    ]
    return "\n".join(parts)


def schema_text() -> str:
    """The text of pipeline.schema.json."""
    return json.dumps(pipeline_schema(), indent=2, ensure_ascii=False) + "\n"


def _kinds(heading: str, noun: str, union: Any) -> str:
    kinds = kinds_of(union)
    links = [
        f"[`{markers_of(kind)[0]}`](#{noun}-{'-or-'.join(markers_of(kind))})" for kind in kinds
    ]
    first = f"The kind of a {noun} is told by the key that only it has: {', '.join(links)}."
    sections = [_section(f"### {noun}: {' or '.join(markers_of(kind))}", kind) for kind in kinds]
    return "\n".join([f"{heading}\n\n{first}\n", *sections])


def _section(heading: str, kind: type) -> str:
    keys = keys_of(kind).values()
    lines = [heading, "", _about(kind, keys), "", "| key | what it means | default |"]
    lines += ["| --- | --- | --- |", *map(_row, keys), ""]
    return "\n".join(lines)


def _about(kind: type, keys: Iterable[Key]) -> str:
    sentences = [" ".join((kind.__doc__ or "").split())]
    alone = [f"`{key.alone}`" for key in keys if key.alone not in ("", ANYTHING)]
    alone += [f"the value of `{key.name}`" for key in keys if key.alone == ANYTHING]
    if alone:
        sentences.append(f"Instead of keys, {' or '.join(alone)} may stand alone.")
    if len(one_of_keys(kind)) == 2:
        sentences.append(
            "Exactly one of " + " and ".join(f"`{n}`" for n in one_of_keys(kind)) + "."
        )
    return " ".join(sentences)


def _row(key: Key) -> str:
    meaning = key.meaning
    if key.choices:
        meaning += f" One of {', '.join(f'`{each}`' for each in key.choices)}."
    if key.type in _LINKS:
        meaning += f" See [{_LINKS[key.type].removeprefix('#')}]({_LINKS[key.type]})."
    if key.example:
        meaning += f" For example `{key.example}`."
    # A bar within a cell would end it.
    cells = [f"`{key.name}`", meaning, _default(key)]
    return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |"


def _default(key: Key) -> str:
    if key.required:
        return "required"
    if isinstance(key.default, bool):
        return "`true`" if key.default else "`false`"
    if isinstance(key.default, Format):
        return f"`{key.default.format}`"
    if isinstance(key.default, OnError):
        return f"`{key.default.policy}`"
    if get_origin(key.type) is not None or get_args(key.type) or isinstance(key.default, Trigger):
        return ""
    return "" if key.default == "" else f"`{key.default}`"


def main() -> None:
    for path, text in ((PAGE_PATH, reference_page()), (SCHEMA_PATH, schema_text())):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()

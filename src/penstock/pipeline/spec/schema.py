"""The file's JSON Schema, for editors that complete and check while one writes.

It says of the model what a schema can say: keys, kinds, choices, spellings. Files, views and
variables are beyond it; `read` checks those. What it refuses the reader refuses as well, and a
reference to a variable is accepted wherever a single value is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin

from penstock.pipeline.spec.binding import FLAGS
from penstock.pipeline.spec.entries import ANYTHING, Shape
from penstock.pipeline.spec.keys import Key, keys_of, kinds_of, markers_of, one_of_keys
from penstock.pipeline.spec.model import Pipeline, Sink, Source, Step
from penstock.pipeline.spec.shapes import NAME, VIEW

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

_VARIABLE = r"\$\{"
_UNIONS: Mapping[Any, str] = {Source: "Source", Step: "Step", Sink: "Sink"}
_PATTERNS = {
    Shape.NAME: NAME.pattern,
    Shape.VIEW: VIEW.pattern,
    Shape.DURATION: r"\s*[0-9]{1,9}\s*[A-Za-z]+(\s+[0-9]{1,9}\s*[A-Za-z]+)*\s*",
    Shape.SIZE: r"\s*[0-9]{1,12}\s*[BbKkMmGgTt]?([Ii]?[Bb])?\s*",
    Shape.JDBC: r"jdbc:.*",
    Shape.PYTHON: r".+\.py:\w+",
}
# Values are texts as they are written: a bare number or `true` is as good as one in quotes.
_TEXT: Schema = {"type": ["string", "number", "boolean"]}


def pipeline_schema() -> Schema:
    """The schema of a pipeline file, as a document."""
    parts: dict[str, Schema] = {}
    root = _object(Pipeline, parts)
    return {
        "$schema": DIALECT,
        "title": "A pipeline of Penstock",
        **root,
        "$defs": dict(sorted(parts.items())),
    }


def _object(kind: type, parts: dict[str, Schema]) -> Schema:
    keys = keys_of(kind)
    made: Schema = {
        "description": (kind.__doc__ or "").strip(),
        "type": "object",
        "properties": {name: _property(key, parts) for name, key in keys.items()},
        "required": [name for name, key in keys.items() if key.required],
        "additionalProperties": False,
    }
    if one_of := one_of_keys(kind):
        made["oneOf"] = [{"required": [name]} for name in one_of]
    return made


def _property(key: Key, parts: dict[str, Schema]) -> Schema:
    described: Schema = {"description": key.meaning}
    if key.example:
        described["examples"] = [key.example]
    if isinstance(key.default, str | int) and key.default not in ("", 0):
        described["default"] = key.default
    return {**described, **_value(key, key.type, parts)}


def _value(key: Key, kind: Any, parts: dict[str, Schema]) -> Schema:
    if kind is str:
        return _text(key)
    if kind is int:
        written = {"type": "string", "pattern": rf"^[0-9_]+$|{_VARIABLE}"}
        return {"anyOf": [{"type": "integer", "minimum": key.least}, written]}
    if kind is bool:
        written = {"type": "string", "pattern": rf"^({'|'.join(FLAGS)})$|{_VARIABLE}"}
        return {"anyOf": [{"type": "boolean"}, written]}
    if get_origin(kind) is tuple:
        return _list(key, get_args(kind)[0], parts)
    if get_origin(kind) is not None and issubclass(get_origin(kind), Mapping):
        return _named(key, get_args(kind)[1], parts)
    return _part(kind, parts)


def _text(key: Key) -> Schema:
    if key.choices:
        return {
            "anyOf": [
                {"enum": list(key.choices)},
                {"type": "string", "pattern": _VARIABLE},
            ]
        }
    made = dict(_TEXT)
    if key.required:
        made["minLength"] = 1
    if key.type is str and key.shape in _PATTERNS:
        empty = "" if key.required else "|^$"
        made["pattern"] = f"^({_PATTERNS[key.shape]})$|{_VARIABLE}{empty}"
    return made


def _list(key: Key, kind: Any, parts: dict[str, Schema]) -> Schema:
    items = _value(key, kind, parts)
    listed: Schema = {"type": "array", "items": items}
    if key.required:
        listed["minItems"] = 1
    return {"anyOf": [listed, items]} if kind is str else listed


def _named(key: Key, kind: Any, parts: dict[str, Schema]) -> Schema:
    values = _value(key, kind, parts)
    if kind is str:
        values = {**values, "type": [*_TEXT["type"], "null"]}  # the word `null` is a text as well
    made: Schema = {"type": "object", "additionalProperties": values}
    if key.required:
        made["minProperties"] = 1
    if key.names in _PATTERNS:
        made["propertyNames"] = {"pattern": f"^({_PATTERNS[key.names]})$"}
    return made


def _part(union: Any, parts: dict[str, Schema]) -> Schema:
    """A reference to the definition of a part, which is made at its first use."""
    kinds = kinds_of(union)
    name = _UNIONS.get(union) or union.__name__
    if name not in parts:
        parts[name] = {}  # so that it is not begun twice
        parts[name] = (
            _alone_or_object(kinds[0], parts)
            if len(kinds) == 1
            else {"oneOf": [_kind(kind, parts) for kind in kinds]}
        )
    return {"$ref": f"#/$defs/{name}"}


def _kind(kind: type, parts: dict[str, Schema]) -> Schema:
    if kind.__name__ not in parts:
        made = _object(kind, parts)
        made["title"] = " or ".join(markers_of(kind))
        parts[kind.__name__] = made
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _alone_or_object(kind: type, parts: dict[str, Schema]) -> Schema:
    """Keys and values, or what may stand alone instead of them."""
    whole = _object(kind, parts)
    keys = [key for key in keys_of(kind).values() if key.alone]
    words = [{"const": key.alone} for key in keys if key.alone != ANYTHING]
    values = [_text(key) for key in keys if key.alone == ANYTHING]
    return {"anyOf": [*words, *values, whole]} if keys else whole

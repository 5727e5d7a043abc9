"""The keys of the file, read off the model's classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Any, get_args, get_type_hints

from penstock.pipeline.spec.entries import Shape


@dataclass(frozen=True, slots=True)
class Key:
    """One key: how it is spelt, the field it fills, and what may stand there."""

    name: str
    field: str
    type: Any
    meaning: str
    required: bool
    default: Any
    choices: tuple[str, ...]
    example: str
    secret: bool
    shape: Shape
    names: Shape
    least: int
    alone: str


@cache
def keys_of(part: Any) -> Mapping[str, Key]:
    """The keys of a part of the file by their names: its own first, then what others have too."""
    types = get_type_hints(part)
    ordered = sorted(fields(part), key=lambda each: each.name not in part.__annotations__)
    found = [_key(each, types[each.name]) for each in ordered]
    return {key.name: key for key in found if key}


@cache
def markers_of(part: Any) -> tuple[str, ...]:
    """The keys, one of which tells that a part is of this kind."""
    if one_of := one_of_keys(part):
        return one_of
    own = [each for each in fields(part) if each.name in part.__annotations__ and each.metadata]
    return (_spelling(own[0]),)


def one_of_keys(part: Any) -> tuple[str, ...]:
    """The keys of which a part has exactly one, where it has such."""
    return getattr(part, "ONE_OF", ())


def kinds_of(union: Any) -> tuple[type, ...]:
    """The classes of a union of kinds (`Source`, `Step`, `Sink`), or the one class."""
    return get_args(union) or (union,)


def kinds_by_marker(union: Any) -> Mapping[str, type]:
    """Which kind each telling key tells of."""
    return {marker: kind for kind in kinds_of(union) for marker in markers_of(kind)}


def _key(each: Field[Any], kind: Any) -> Key | None:
    if not each.metadata:
        return None
    about = each.metadata
    made = each.default_factory
    default = made() if made is not MISSING else each.default
    return Key(
        name=_spelling(each),
        field=each.name,
        type=kind,
        meaning=about["meaning"],
        required=default is MISSING,
        default=None if default is MISSING else default,
        choices=about["choices"],
        example=about["example"],
        secret=about["secret"],
        shape=about["shape"],
        names=about["names"],
        least=about["least"],
        alone=about["alone"],
    )


def _spelling(each: Field[Any]) -> str:
    return each.metadata["name"] or each.name

"""Pipeline files by chance: right, nearly right and wrong ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin

import yaml
from hypothesis import strategies as st

from penstock.pipeline.spec.entries import Shape
from penstock.pipeline.spec.keys import Key, keys_of, kinds_of, one_of_keys
from penstock.pipeline.spec.model import Pipeline

SHAPED: Mapping[Shape, st.SearchStrategy[str]] = {
    Shape.NAME: st.from_regex(r"[a-z][a-z0-9._-]{0,8}", fullmatch=True),
    Shape.VIEW: st.sampled_from(["orders", "step1", "a", "b"]),
    Shape.TOPICS: st.sampled_from(["orders", "a,b", "x.y-z"]),
    Shape.TOPIC: st.just("orders.dlq"),
    Shape.BROKERS: st.sampled_from(["localhost:9092", "a:1,b:2"]),
    Shape.DURATION: st.sampled_from(["10 seconds", "5m", "1 hour 30 minutes"]),
    Shape.SIZE: st.sampled_from(["64m", "512 KiB", "1"]),
    Shape.WATERMARK: st.sampled_from(["at 10 minutes", "at 1s"]),
    Shape.WINDOW: st.sampled_from(["5 minutes", "10m / 5m", "session"]),
    Shape.PYTHON: st.just("s3://code/steps.py:enrich"),
    Shape.SCHEMA: st.sampled_from(["id long", "a int, b string"]),
    Shape.JDBC: st.just("jdbc:postgresql://localhost/shop"),
}
TEXTS = st.text(max_size=12).filter(lambda text: "${" not in text)
WORDS = st.sampled_from(["a", "b.c", "count(*)", "true", "null", "5", "2026-11-01", "on", "1e3"])
ODDITIES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.lists(WORDS, max_size=3)
)


def parts(kind: type) -> st.SearchStrategy[Any]:
    """A part of this kind that has all it must have, and some of what it may have."""
    keys = keys_of(kind)
    exclusive = one_of_keys(kind)
    must = {name: values(key, key.type) for name, key in keys.items() if key.required}
    may = {
        name: values(key, key.type)
        for name, key in keys.items()
        if not key.required and name not in exclusive
    }
    whole = st.fixed_dictionaries(must, optional=may)
    if not exclusive:
        return whole
    chosen = st.sampled_from(exclusive).flatmap(
        lambda name: st.fixed_dictionaries({name: values(keys[name], keys[name].type)})
    )
    return st.tuples(chosen, whole).map(lambda both: {**both[0], **both[1]})


def values(key: Key, kind: Any) -> st.SearchStrategy[Any]:
    """What may stand beside a key."""
    if kind is str:
        if key.choices:
            return st.sampled_from(key.choices)
        return SHAPED.get(key.shape, WORDS) if key.type is str else WORDS
    if kind is int:
        return st.integers(key.least, 10**6)
    if kind is bool:
        return st.booleans()
    if get_origin(kind) is tuple:
        return st.lists(values(key, get_args(kind)[0]), min_size=key.required, max_size=2)
    if get_origin(kind) is Mapping:
        names = SHAPED.get(key.names, WORDS)
        within = values(key, get_args(kind)[1])
        return st.dictionaries(names, within, min_size=key.required, max_size=2)
    return st.one_of([parts(each) for each in kinds_of(kind)])


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A pipeline's document; now and then something in it is replaced, removed or misspelt."""
    document = draw(parts(Pipeline))
    for _ in range(draw(st.integers(0, 2))):
        _disturb(draw, document)
    return document


def _disturb(draw: st.DrawFn, document: Any) -> None:
    at = document
    while isinstance(at, dict) and at:
        key = draw(st.sampled_from(sorted(at)))
        inside = at[key]
        if isinstance(inside, list) and inside and isinstance(inside[0], dict):
            inside = inside[0]
        if isinstance(inside, dict) and inside and draw(st.booleans()):
            at = inside
            continue
        how = draw(st.sampled_from(["replace", "remove", "misspell"]))
        value = at.pop(key)
        if how == "replace":
            at[key] = draw(ODDITIES)
        elif how == "misspell":
            at[draw(st.sampled_from([key[:-1], f"{key}s", key.upper(), ""]))] = value
        return


def written(document: Any) -> str:
    """The document as a file."""
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text

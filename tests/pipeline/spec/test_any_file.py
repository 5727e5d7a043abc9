"""Whatever a file holds, it is a pipeline or its problems are told."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.pipeline.problem import Problem, Problems
from penstock.pipeline.spec.keys import keys_of, kinds_of
from penstock.pipeline.spec.model import Pipeline, Sink, Source
from penstock.pipeline.spec.read import pipeline_of
from tests.pipeline.spec.documents import documents, parts, written
from tests.pipeline.spec.files import FULL


def outcome(content: bytes) -> Pipeline | tuple[Problem, ...]:
    """What comes of a file; every problem has to say where it is and what to do."""
    try:
        return pipeline_of("orders.yml", content, {"HOME": "somewhere"})
    except Problems as problems:
        assert problems.found
        lines = content.count(b"\n") + content.count(b"\r") + 2 + content.count(b"\xc2\x85")
        lines += content.count(b"\xe2\x80\xa8") + content.count(b"\xe2\x80\xa9")
        for each in problems.found:
            assert each.what
            assert each.advice
            assert each.place is not None
            assert 0 <= each.place.line <= lines
        return problems.found


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    assert outcome(content)


@settings(max_examples=300)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    assert outcome(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=300)
@given(st.text(alphabet="ab: -[]{}&*!|>'\"%@`#,?~\n${}<", max_size=80))
def test_any_text_of_the_characters_that_yaml_cares_about(text: str) -> None:
    assert outcome(text.encode())


@settings(max_examples=200)
@given(st.data())
def test_a_good_file_with_something_changed(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(FULL)))
    removed = data.draw(st.integers(0, 30))
    added = data.draw(st.text(alphabet="ab: -[]{}&*!|>'\"\n$\t0", max_size=10))
    assert outcome((FULL[:at] + added + FULL[at + removed :]).encode())


@settings(max_examples=100)
@given(documents())
def test_any_document(document: Any) -> None:
    assert outcome(written(document).encode())


@settings(max_examples=150)
@given(st.data())
def test_a_part_is_read_as_it_was_written(data: st.DataObject) -> None:
    kinds: dict[str, tuple[type, ...]] = {"sources": kinds_of(Source), "sinks": kinds_of(Sink)}
    place = data.draw(st.sampled_from(sorted(kinds)))
    kind = data.draw(st.sampled_from(kinds[place]))
    part = data.draw(parts(kind))
    document = {
        "name": "orders",
        "sources": {"orders": {"topic": "orders"}},
        "sinks": {"b": {"console": 1}},
    }
    document[place] = {"orders": part}
    read = outcome(written(document).encode())
    assume(isinstance(read, Pipeline))
    assert isinstance(read, Pipeline)
    found = getattr(read, place)["orders"]
    assert type(found) is kind
    for name, key in keys_of(kind).items():
        if name in part and key.type in (str, int, bool) and not key.shape:
            assert getattr(found, key.field) == part[name]
        elif name not in part:
            assert getattr(found, key.field) == key.default

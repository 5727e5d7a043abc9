"""What is made out of the model is as the model is now."""

from __future__ import annotations

from penstock.pipeline.spec import reference
from penstock.pipeline.spec.keys import keys_of, kinds_by_marker, kinds_of
from penstock.pipeline.spec.model import Sink, Source, Step
from tests.pipeline.spec.files import REPOSITORY

AGAIN = "run `python -m penstock.pipeline.spec.reference` and commit what it changes"


def test_the_reference_page_says_what_the_model_says() -> None:
    assert (REPOSITORY / reference.PAGE_PATH).read_text() == reference.reference_page(), AGAIN


def test_the_schema_says_what_the_model_says() -> None:
    assert (REPOSITORY / reference.SCHEMA_PATH).read_text() == reference.schema_text(), AGAIN


def test_no_two_kinds_are_told_by_the_same_key_and_none_by_a_key_that_others_have() -> None:
    for union in (Source, Step, Sink):
        by_marker = kinds_by_marker(union)
        for kind in kinds_of(union):
            others = [marker for marker, told in by_marker.items() if told is not kind]
            assert keys_of(kind).keys().isdisjoint(others), kind


def test_every_kind_says_what_it_is_and_every_key_what_it_means() -> None:
    for union in (Source, Step, Sink):
        for kind in kinds_of(union):
            assert kind.__doc__
            assert all(key.meaning.endswith(".") for key in keys_of(kind).values()), kind

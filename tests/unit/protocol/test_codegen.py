from __future__ import annotations

import pytest

from codegen.generate import FACTS, GENERATED, modules
from codegen.import_facts import message_of
from codegen.names import snake
from codegen.notation import NEVER, Versions, read_facts, versions_of, write_facts


def test_the_committed_code_is_what_the_facts_generate() -> None:
    there = {it.name: it.read_text() for it in GENERATED.glob("*.py")}
    assert there.keys() == modules().keys()
    differing = [name for name, text in modules().items() if there[name] != text]
    assert differing == [], "run `python -m codegen.generate`"


@pytest.mark.parametrize("path", sorted(FACTS.glob("*.facts")), ids=lambda it: it.stem)
def test_facts_are_written_as_they_were_read(path: object) -> None:
    text = path.read_text()  # type: ignore[attr-defined]
    assert write_facts(read_facts(text)) == text


def test_facts_hold_no_sentences() -> None:
    for path in FACTS.glob("*.facts"):
        for line in path.read_text().splitlines():
            assert len(line.split()) <= 9, f"{path.name}: {line}"


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("4-18", Versions(4, 18)),
        ("12+", Versions(12, 32767)),
        ("-12", Versions(0, 12)),
        ("3", Versions(3, 3)),
        ("none", NEVER),
    ],
)
def test_versions_have_short_forms(text: str, versions: Versions) -> None:
    assert versions_of(text) == versions


def test_a_schema_becomes_facts_without_its_descriptions() -> None:
    message = message_of(
        {
            "apiKey": 9,
            "type": "request",
            "listeners": ["broker"],
            "name": "TryRequest",
            "validVersions": "2-4",
            "flexibleVersions": "3+",
            "fields": [
                {"name": "Old", "type": "int8", "versions": "0-1", "about": "gone"},
                {"name": "MaxBytes", "type": "int32", "versions": "0+", "default": "0x10"},
                {
                    "name": "Items",
                    "type": "[]Item",
                    "versions": "3+",
                    "nullableVersions": "4+",
                    "ignorable": True,
                    "about": "some items",
                    "fields": [{"name": "Id", "type": "uuid", "versions": "3+", "mapKey": True}],
                },
            ],
        }
    )
    assert message is not None
    assert write_facts([message]) == (
        "request TryRequest key=9 versions=2-4 flexible=3+ listeners=broker\n"
        "    MaxBytes: int32 default=16\n"
        "    Items: []Item 3+ null=4+ ignorable\n"
        "        Id: uuid 3+ mapkey\n"
    )


def test_a_message_without_versions_is_left_out() -> None:
    schema = {"type": "request", "name": "GoneRequest", "validVersions": "none"}
    assert message_of(schema) is None


def test_a_property_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="igorable"):
        read_facts("data X versions=0 flexible=none\n    A: int8 igorable\n")


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("TopicId", "topic_id"),
        ("commitTimestamp", "commit_timestamp"),
        ("KRaftVersionFeature", "kraft_version_feature"),
        ("BrokerEpoch", "broker_epoch"),
    ],
)
def test_names_become_snake_case(name: str, ours: str) -> None:
    assert snake(name) == ours

"""Configuration files are read as Java reads them, and TOML says the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from penstock.model.config.problems import ConfigProblems
from penstock.model.config.sources import Entry, properties_entries, read_entries, toml_entries
from tests.unit.model.answers import DATA


def recorded() -> list[tuple[str, list[list[str]] | None]]:
    with open(os.path.join(DATA, "properties.json"), encoding="utf-8") as file:
        return [(text, entries) for text, entries in json.load(file)]


@pytest.mark.parametrize(("text", "expected"), recorded())
def test_properties_are_read_as_java_reads_them(
    text: str, expected: list[list[str]] | None
) -> None:
    if expected is None:
        with pytest.raises(ConfigProblems, match="hexadecimal"):
            list(properties_entries(text))
    else:
        assert [[entry.key, entry.text] for entry in properties_entries(text)] == expected


def test_an_entry_knows_the_line_that_it_begins_on() -> None:
    text = "# comment\n\na=1\nb=2\\\n  3\n! other\nc : 4\n"
    assert list(properties_entries(text)) == [
        Entry("a", "1", 3),
        Entry("b", "23", 4),
        Entry("c", "4", 7),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_text_beyond_ascii_is_understood_in_either_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("broker.rack=Zürich\n".encode(encoding))
    assert read_entries(str(path)) == [Entry("broker.rack", "Zürich", 1)]


def test_toml_takes_dotted_keys_tables_and_arrays() -> None:
    text = """
        node.id = 1
        process.roles = ["broker", "controller"]
        "log.dir" = "/data"

        [log]
        retention.hours = 24
        preallocate = true
        cleaner.min.cleanable.ratio = 0.25
    """
    assert toml_entries(text) == [
        Entry("node.id", "1", 2),
        Entry("process.roles", "broker,controller", 3),
        Entry("log.dir", "/data", 4),
        Entry("log.retention.hours", "24", 7),
        Entry("log.preallocate", "true", 8),
        Entry("log.cleaner.min.cleanable.ratio", "0.25", 9),
    ]


def test_toml_that_does_not_parse_is_a_problem_with_its_place() -> None:
    with pytest.raises(ConfigProblems, match="line 2"):
        toml_entries("a = 1\nb = \n")


def test_a_toml_key_that_collides_with_its_own_beginning_is_told_to_be_quoted() -> None:
    with pytest.raises(ConfigProblems, match="quoted whole"):
        toml_entries('log.dir = "/a"\nlog.dir.failure.timeout.ms = 5\n')


def test_toml_dates_are_refused_by_name() -> None:
    with pytest.raises(ConfigProblems, match=r"log\.roll\.ms"):
        toml_entries("log.roll.ms = 2026-01-01\n")


def test_a_file_is_toml_only_if_its_name_says_so(tmp_path: Path) -> None:
    toml = tmp_path / "node.toml"
    toml.write_text('broker.rack = "a"\n')
    properties = tmp_path / "node.conf"
    properties.write_text('broker.rack = "a"\n')
    assert read_entries(str(toml))[0].text == "a"
    assert read_entries(str(properties))[0].text == '"a"'


def test_a_long_line_in_toml_takes_no_longer_than_its_length() -> None:
    [entry] = toml_entries("a = '''\n" + "word " * 10_000 + "\n'''")
    assert entry.text == "word " * 10_000 + "\n"


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000,
        ".".join("a" * 5000) + " = 1",
        "a = " + "9" * 5000,
        "a = 0x" + "f" * 5000,
    ],
    ids=["arrays", "tables", "digits", "hexadecimal"],
)
def test_toml_that_is_too_much_for_its_parser_is_a_problem(text: str) -> None:
    with pytest.raises(ConfigProblems):
        toml_entries(text)


def test_a_toml_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(b'a = "\xff"')
    with pytest.raises(ConfigProblems, match="UTF-8"):
        read_entries(str(path))

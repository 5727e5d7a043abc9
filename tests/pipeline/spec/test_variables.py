"""Values from the environment and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.spec.variables import SECRET_BYTES_MAX, Variables
from tests.pipeline.spec.files import MINIMAL, problems, read

HERE = Place("orders.yml", 7)


def expand(text: str, folder: Path | str = "/", **environment: str) -> str:
    return Variables(environment, str(folder)).expand(text, HERE)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("${A}", "one"),
        ("x${A}y${A}", "xoneyone"),
        ("${B:-two}", "two"),
        ("${EMPTY:-two}", "two"),
        ("${EMPTY}", ""),
        ("${A:-two}", "one"),
        ("${B:-}", ""),
        ("${B:-a:-b}", "a:-b"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A $ {A} a$", "$A $ {A} a$"),
        ("${NESTED}", "${A}"),
    ],
)
def test_references_stand_for_values(written: str, meant: str) -> None:
    assert expand(written, A="one", EMPTY="", NESTED="${A}") == meant


@pytest.mark.parametrize("written", ["${}", "${a b}", "${1}", "${A", "${A:x}", "${${A}}", "${A-x}"])
def test_what_is_no_reference_is_refused_with_its_line(written: str) -> None:
    with pytest.raises(Problem, match="is no variable") as raised:
        expand(written, A="one")
    assert raised.value.place == HERE
    assert "$${" in raised.value.advice


def test_a_variable_that_is_not_set_is_told_with_its_line() -> None:
    (problem,) = problems(f"{MINIMAL}bootstrap: ${{BROKERS}}\n")
    assert str(problem) == (
        "orders.yml:6 (bootstrap): the variable BROKERS is not set\n"
        "  Set it in the environment, or give a default: ${BROKERS:-...}."
    )


@pytest.mark.parametrize("value", ["a: b", "[1, 2]", "*x", "# no", "'", "true", "null", "~", "\n"])
def test_a_value_from_the_environment_is_never_read_as_yaml(value: str) -> None:
    pipeline = read(f"{MINIMAL}checkpoint: ${{V}}\nkafka: {{x: '${{V}}'}}\n", {"V": value})
    assert pipeline.checkpoint == value
    assert pipeline.kafka == {"x": value}


def test_numbers_flags_and_choices_may_come_from_the_environment() -> None:
    pipeline = read(
        """\
        name: orders
        sources: {made: {generate: '${RATE}'}, log: {files: x, growing: '${GROWS}'}}
        sinks: {shown: {console: '${ROWS:-7}'}}
        on_error: ${POLICY}
        trigger: ${WHEN:-available-now}
        """,
        {"RATE": "3", "GROWS": "true", "POLICY": "drop"},
    )
    assert pipeline.sources["made"].generate == 3  # type: ignore[union-attr]
    assert pipeline.sources["log"].growing is True  # type: ignore[union-attr]
    assert pipeline.sinks["shown"].console == 7  # type: ignore[union-attr]
    assert pipeline.on_error.policy == "drop"
    assert pipeline.trigger.available_now


def test_keys_are_not_looked_at_for_variables() -> None:
    assert read(f"{MINIMAL}kafka: {{'${{A}}': b}}\n").kafka == {"${A}": "b"}


def test_a_secret_comes_from_a_file_without_its_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(" hunter2\n")
    assert expand(f"${{file:{tmp_path}/secret}}") == "hunter2"
    assert expand("${file:secret}", tmp_path) == "hunter2"


def test_a_secret_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (SECRET_BYTES_MAX + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, why in [
        ("none", "No such file or directory"),
        (".", "Is a directory"),
        ("large", "has more than 64 KiB"),
        ("binary", "is not text in UTF-8"),
        ("a\0b", "this is no path"),
    ]:
        with pytest.raises(Problem, match=why) as raised:
            expand(f"${{file:{name}}}", tmp_path)
        assert raised.value.place == HERE

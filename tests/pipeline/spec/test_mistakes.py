"""Files that are wrong: what is told, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipeline.problem import Problems
from penstock.pipeline.spec.read import read_pipeline
from tests.pipeline.spec.files import MINIMAL, problems, told

PARTS = """\
name: orders
sources:
  orders: {topic: orders}
steps:
  - STEP
sinks:
  lake: SINK
"""


def with_parts(step: str = "filter: a > 1", sink: str = "{parquet: lake}") -> str:
    return PARTS.replace("STEP", step).replace("SINK", sink)


def test_everything_that_is_wrong_is_told_at_once_in_the_order_of_lines() -> None:
    wrong = """\
        nme: orders
        sources:
          orders: {topics: orders, value: jsn}
          log: {files: 'logs', growing: yes}
        steps:
          - {filter: a > 1, form: orders}
          - {sql: SELECT 1, select: [a]}
          - window: 5 lightyears
            on: at
        sinks:
          lake: {parquet: lake, file_bytes: huge, from: ordres}
        trigger: {every: 1s, available_now: true}
        on_error: {policy: retry, attempts: 0}
        """
    assert told(wrong) == [
        (1, "nme"),
        (3, "sources.orders.topics"),
        (3, "sources.orders.value"),
        (4, "sources.log.growing"),
        (6, "steps[1].form"),
        (7, "steps[2]"),
        (8, "steps[3].window"),
        (8, "steps[3]"),
        (11, "sinks.lake.file_bytes"),
        (11, "sinks.lake.from"),
        (12, "trigger"),
        (13, "on_error.attempts"),
    ]


def test_an_unknown_key_is_told_with_the_nearest_and_with_all_valid_ones() -> None:
    (problem,) = problems(MINIMAL.replace("{topic: orders}", "{topic: orders, valeu: json}"))
    assert str(problem) == (
        "orders.yml:3 (sources.orders.valeu): unknown key 'valeu'\n"
        "  Did you mean 'value'? Valid here: topic, pattern, from, value, key, batch_records_max, "
        "data_loss, isolation, watermark, options."
    )


def test_an_unknown_key_near_none_is_told_with_all_valid_ones() -> None:
    (problem,) = problems(f"{MINIMAL}zzz: 1\n")
    assert problem.advice.startswith("Valid here: name, sources, sinks, steps,")


def test_a_kind_whose_key_is_misspelt_is_guessed_and_its_other_mistakes_are_told() -> None:
    found = problems(with_parts(step="{flitter: a > 1, az: b}"))
    assert [problem.what for problem in found] == ["unknown key 'flitter'", "unknown key 'az'"]
    assert found[0].advice.startswith("Did you mean 'filter'? ")


def test_a_part_of_no_kind_is_told_all_kinds() -> None:
    (problem,) = problems(with_parts(sink="{from: orders}"))
    assert problem.what == "it does not say what it is"
    assert problem.advice == (
        "One of these keys says what it is: topic, parquet, iceberg, jdbc, console, python."
    )


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "this is no pipeline"),
        ("[]", 1, "this is no pipeline"),
        ("orders", 1, "this is no pipeline"),
        ("name: a: b", 1, "this is not YAML"),
        ("name: 'orders\n", 2, "this is not YAML"),
        ("name: orders\n\tsources: x", 2, "this is not YAML"),
        (f"{MINIMAL}name: other\n", 6, "the key 'name' stands here twice"),
        (f"{MINIMAL}steps:\n", 6, "there is no value"),
        (f"{MINIMAL}steps: {{sql: SELECT 1}}\n", 6, "a list is wanted here"),
        (f"{MINIMAL}steps: [SELECT 1]\n", 6, "keys and values are wanted here"),
        (f"{MINIMAL}kafka: SSL\n", 6, "keys and values are wanted here"),
        (f"{MINIMAL}kafka: {{ssl: {{on: true}}}}\n", 6, "a single value is wanted here"),
        (f"{MINIMAL}bootstrap: [a, b]\n", 6, "a single value is wanted here"),
        (f"{MINIMAL}bootstrap: localhost\n", 6, "'localhost' is not right: the address of"),
        (f"{MINIMAL}on_error: {{topic: 'a,b'}}\n", 6, "'a,b' is not right: the name of a topic"),
        (f"{MINIMAL}trigger: soon\n", 6, "'soon' is not right: a duration is wanted"),
        (f"{MINIMAL}trigger: [1s]\n", 6, "keys and values are wanted here"),
        (f"{MINIMAL}trigger: {{}}\n", 6, "one is missing"),
        (f"{MINIMAL}on_error: {{attempts: many}}\n", 6, "'many' is not a whole number"),
        (f"{MINIMAL}on_error: {{attempts: -1}}\n", 6, "'-1' is not a whole number"),
        (f"{MINIMAL}on_error: {{attempts: 1.5}}\n", 6, "'1.5' is not a whole number"),
        (f"{MINIMAL}on_error: {{attempts: 0}}\n", 6, "'0' is too small"),
        (f"{MINIMAL}on_error: dlqq\n", 6, "'dlqq' is not possible here"),
        (f"{MINIMAL}? [a]\n: b\n", 6, "a key must be a single word"),
        (f"{MINIMAL}<<: {{a: b}}\n", 6, "unknown key '<<'"),
        (MINIMAL.replace("name: orders", "name: or ders"), 1, "'or ders' is not right: a name"),
        (MINIMAL.replace("name: orders", "name: ''"), 1, "the text is empty"),
        (MINIMAL.replace("name: orders", "name: ~"), 1, "there is no value"),
        (MINIMAL.replace("name: orders", "name: .."), 1, "'..' is not right: a name"),
        (MINIMAL.replace("  orders:", "  or-ders:"), 3, "a name that SQL can use is wanted"),
        (MINIMAL.replace("  lake:", "  la ke:"), 5, "a name is wanted as the key"),
        (MINIMAL.replace("topic: orders", "topic: 'a b'"), 3, "'a b' is not right: the name of"),
        (MINIMAL.replace("topic: orders", "topic: a, pattern: b"), 3, "'topic' and 'pattern'"),
        (MINIMAL.replace("{topic: orders}", "{}"), 3, "it does not say what it is"),
        (MINIMAL.replace("{topic: orders}", "orders"), 3, "keys and values are wanted here"),
        (MINIMAL.replace("\n  orders: {topic: orders}", " {}"), 2, "nothing stands here"),
        (with_parts(step="select: []"), 5, "nothing stands here"),
        (with_parts(step="select: [a, [b]]"), 5, "a single value is wanted here"),
        (with_parts(step="{stateful: a, by: b, schema: c int}"), 5, "'a' is not right: a Python"),
        (with_parts(step="{python: none.py:f}"), 5, "'none.py:f' is not right: a file, and there"),
        (with_parts(sink="{jdbc: postgres, table: t}"), 7, "the value is not right: a JDBC"),
        (with_parts(sink="{jdbc: 'jdbc:x'}"), 7, "the key 'table' is missing"),
        (with_parts(sink="{console: 0}"), 7, "'0' is too small"),
        (with_parts(sink="{parquet: x, compression: zip}"), 7, "'zip' is not possible here"),
        (with_parts(sink="{topic: x, value: !!str json}"), 7, "the tag 'tag:yaml.org,2002:str'"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, what: str) -> None:
    (problem,) = problems(text)
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == ("orders.yml", line)
    assert problem.what.startswith(what)
    assert problem.advice


def test_a_second_document_is_refused() -> None:
    (problem,) = problems(f"{MINIMAL}---\n{MINIMAL}")
    assert problem.what == "the file holds a second document"


def test_a_file_that_is_not_there_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Problems) as raised:
        read_pipeline(tmp_path / "none.yml", {})
    assert str(raised.value) == (
        f"{tmp_path}/none.yml: the file cannot be read: No such file or directory\n"
        "  `penstock pipeline init FILE` writes one to begin with."
    )


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def other(): ...", "a name that steps.py defines, and it has no enrich"),
        ("def enrich(:", "a Python file, and steps.py has a mistake in line 1"),
        ("def outer():\n    def enrich(): ...", "a name that steps.py defines"),
        ("\0", "a Python file, and steps.py has a mistake"),
    ],
)
def test_a_python_file_must_define_the_name(tmp_path: Path, code: str, told: str) -> None:
    (tmp_path / "steps.py").write_text(code)
    (tmp_path / "orders.yml").write_text(with_parts(step="python: steps.py:enrich"))
    with pytest.raises(Problems) as raised:
        read_pipeline(tmp_path / "orders.yml", {})
    (problem,) = raised.value.found
    assert told in problem.what


@pytest.mark.parametrize("name", ["orders.avsc", "orders.proto", "orders.desc", "orders.json"])
def test_a_schema_file_must_be_there(tmp_path: Path, name: str) -> None:
    text = MINIMAL.replace("topic: orders", f"topic: a, value: {{format: avro, schema: {name}}}")
    file = tmp_path / "orders.yml"
    file.write_text(text)
    with pytest.raises(Problems, match=f"there is no {name}"):
        read_pipeline(file, {})
    (tmp_path / name).write_text("{}")
    assert read_pipeline(file, {}).name == "orders"

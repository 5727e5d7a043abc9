"""`penstock pipeline init` and `penstock pipeline validate`, as a shell runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.pipeline_init import Template
from penstock.pipeline.spec.read import read_pipeline
from penstock.pipeline.spec.templates import TEMPLATES, template_text
from tests.pipeline.spec.files import MINIMAL
from tests.unit.cli.runner import Penstock

LINES_MAX = 18


@pytest.fixture
def penstock(tmp_path: Path) -> Penstock:
    return Penstock(tmp_path)


def test_every_template_can_be_asked_for() -> None:
    assert set(TEMPLATES) == {template.value for template in Template}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_a_short_valid_pipeline_named_after_its_file(
    template: str, tmp_path: Path
) -> None:
    file = tmp_path / "my orders.v2.yml"
    file.write_text(template_text(template, str(file)))
    assert read_pipeline(file, {}).name == "my-orders"
    assert len(file.read_text().splitlines()) <= LINES_MAX


def test_init_writes_a_file_that_validates_and_the_schema_for_editors(
    penstock: Penstock, tmp_path: Path
) -> None:
    ran = penstock("pipeline", "init", "orders.yml", "--template", "topic-to-topic")
    assert ran.returncode == 0, ran.stderr
    assert "penstock pipeline run orders.yml" in ran.stderr
    head = (tmp_path / "orders.yml").read_text().splitlines()[0]
    schema = head.removeprefix("# yaml-language-server: $schema=")
    assert json.loads((tmp_path / schema).read_text())["title"] == "A pipeline of Penstock"
    assert penstock.out("pipeline", "validate", "orders.yml") == "orders.yml: ok\n"


def test_init_never_overwrites(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "orders.yml").write_text("mine")
    ran = penstock("pipeline", "init", "orders.yml")
    assert ran.returncode == 2
    assert "orders.yml is there already" in ran.stderr
    assert (tmp_path / "orders.yml").read_text() == "mine"


def test_init_says_when_it_cannot_write(penstock: Penstock) -> None:
    ran = penstock("pipeline", "init", "none/orders.yml")
    assert ran.returncode == 1
    assert "cannot write none/orders.yml: No such file or directory" in ran.stderr


def test_validate_tells_every_problem_of_every_file(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "good.yml").write_text(MINIMAL)
    (tmp_path / "bad.yml").write_text(MINIMAL.replace("topic:", "topics:") + "on_error: dlqq\n")
    ran = penstock("pipeline", "validate", "good.yml", "bad.yml", "none.yml")
    assert ran.returncode == 1
    assert ran.stdout == "good.yml: ok\n"
    assert "bad.yml:3 (sources.orders.topics): unknown key 'topics'" in ran.stderr
    assert "bad.yml:6 (on_error): 'dlqq' is not possible here" in ran.stderr
    assert "none.yml: the file cannot be read" in ran.stderr
    assert "3 problems found" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_validate_answers_programs_in_json(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "good.yml").write_text(MINIMAL)
    (tmp_path / "bad.yml").write_text(f"{MINIMAL}on_error: dlqq\n")
    ran = penstock("pipeline", "validate", "good.yml", "bad.yml", "-o", "json")
    assert ran.returncode == 1
    good, bad = json.loads(ran.stdout)
    assert good == {"file": "good.yml", "valid": True, "name": "orders", "problems": []}
    assert (bad["valid"], bad["name"]) == (False, None)
    assert bad["problems"] == [
        {
            "line": 6,
            "path": "on_error",
            "what": "'dlqq' is not possible here",
            "advice": "Did you mean 'dlq'? Possible: dlq, drop, fail, retry.",
        }
    ]


def test_validate_takes_folders_and_wants_every_name_once(
    penstock: Penstock, tmp_path: Path
) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    ran = penstock("pipeline", "validate", "all")
    assert (ran.returncode, "holds no pipeline files" in ran.stderr) == (1, True)
    (folder / "1.yml").write_text(MINIMAL)
    (folder / "2.yaml").write_text(MINIMAL)
    (folder / "3.txt").write_text("no pipeline")
    ran = penstock("pipeline", "validate", "all")
    assert ran.returncode == 1
    assert ran.stdout == "all/1.yml: ok\n"
    assert "all/2.yaml (name): all/1.yml is called 'orders' as well" in ran.stderr


def test_variables_come_from_the_environment(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "orders.yml").write_text(f"{MINIMAL}bootstrap: ${{BROKERS}}\n")
    assert penstock("pipeline", "validate", "orders.yml").returncode == 1
    penstock.environment["BROKERS"] = "localhost:9092"
    assert penstock("pipeline", "validate", "orders.yml").returncode == 0


def test_checking_a_file_does_not_load_spark(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "orders.yml").write_text(MINIMAL)
    penstock.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    ran = penstock("pipeline", "validate", "orders.yml")
    assert "penstock.pipeline.spec.read" in ran.stderr
    for heavy in ("pyspark", "pandas", "confluent_kafka"):
        assert f" {heavy}" not in ran.stderr

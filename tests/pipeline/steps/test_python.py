"""Python files beside the pipeline: functions and processors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import PythonStep, StatefulStep
from tests.pipeline.steps.conftest import PLACE, Bench, rows_of

TRANSFORMS = """\
from pyspark.sql.functions import udf
from prices import PRICES

def shout(rows, column, mark="!"):
    louder = udf(lambda text: text.upper() + mark + str(PRICES["book"]))
    return rows.withColumn(column, louder(column))

def nothing(rows):
    return None

def fails(rows):
    bound = {}
    return bound["nosuch"]

def refused(rows):
    return rows.select("nosuch")

def table(rows):
    return rows.sparkSession.range(1)

count = 3
"""

COUNTS = """\
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

class Counts(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key, rows, timers):
        seen = self.seen.get()[0] if self.seen.exists() else 0
        seen += sum(1 for _ in rows)
        self.seen.update((seen,))
        yield Row(page=key[0], n=seen)

    def close(self):
        pass

class Demanding(Counts):
    def __init__(self, limit):
        pass
"""


@pytest.fixture
def folder(bench: Bench) -> Path:
    (bench.folder / "prices.py").write_text("PRICES = {'book': 12}\n")
    (bench.folder / "transforms.py").write_text(TRANSFORMS)
    (bench.folder / "counts.py").write_text(COUNTS)
    return bench.folder


def test_a_function_gets_options_and_travels_with_all_that_lies_beside_it(
    bench: Bench, folder: Path
) -> None:
    bench.table("orders", [("book",)], "what string")
    step = PythonStep(
        python="transforms.py:shout", options={"column": "what", "mark": "?"}, place=PLACE
    )
    assert rows_of(bench.apply(step)) == [("BOOK?12",)]
    # The same name in the same process, changed meanwhile.
    (folder / "transforms.py").write_text("def shout(rows, **options):\n    return rows\n")
    step = PythonStep(python="transforms.py:shout", source="orders", place=PLACE)
    assert rows_of(bench.apply(step, "again")) == [("book",)]


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ("nosuch.py:f", {}, "there is no file"),
        ("transforms.py:shot", {}, "Did you mean shout?"),
        ("transforms.py:count", {}, "is no function"),
        ("transforms.py:nothing", {}, "gave NoneType back"),
        ("transforms.py:nothing", {"colour": "red"}, "unexpected keyword argument 'colour'"),
        ("transforms.py:fails", {}, "transforms.py:13: KeyError: 'nosuch'"),
        ("transforms.py:refused", {}, "transforms.py:16: AnalysisException"),
        ("transforms.py:table", {}, "gave a table back"),
        ("broken.py:f", {}, "broken.py:2: SyntaxError"),
        ("lonely.py:f", {}, "lonely.py:1: ModuleNotFoundError"),
    ],
)
def test_mistakes_in_python_name_both_files(
    bench: Bench, folder: Path, given: str, options: dict[str, str], said: str
) -> None:
    (folder / "broken.py").write_text("def f(rows):\n    return (rows\n")
    (folder / "lonely.py").write_text("import nosuch_module\n")
    bench.stream("orders", "what string")
    with pytest.raises(Problem) as refused:
        bench.apply(PythonStep(python=given, options=options, place=PLACE))
    assert str(refused.value).startswith("orders.yml:7")
    assert said in str(refused.value)


def test_a_processor_keeps_state_by_key(tmp_path: Path) -> None:
    # In a process of its own: state is kept over a socket between Java and Python, and if one of
    # them does not answer, the other waits for ever, deaf to the limit of a test.
    (tmp_path / "counts.py").write_text(COUNTS)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.steps.stateful", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=270,
    )
    assert ended.returncode == 0, ended.stderr[-20_000:]
    assert json.loads(ended.stdout) == [[["a", 2], ["b", 1]], [["a", 3]]]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"by": ()}, "state is kept by nothing"),
        ({"by": ("pge",)}, "Did you mean page?"),
        ({"time_mode": "event_time"}, "need a watermark"),
        ({"schema": "page strin"}, "STRIN"),
        ({"stateful": "counts.py:Row"}, "is no StatefulProcessor"),
        ({"stateful": "counts.py:Demanding"}, "TypeError"),
    ],
)
def test_mistakes_in_stateful_steps_are_told(
    bench: Bench, folder: Path, changed: dict[str, Any], said: str
) -> None:
    bench.stream("hits", "page string")
    given = {
        "stateful": "counts.py:Counts",
        "by": ("page",),
        "schema": "page string, n long",
        "time_mode": "none",
        **changed,
    }
    with pytest.raises(Problem) as refused:
        bench.apply(StatefulStep(**given, place=PLACE))
    assert said in str(refused.value) and refused.value.place == PLACE

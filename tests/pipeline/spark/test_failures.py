"""A session that cannot be opened: the reason in one line, and where to read more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipeline.spark.jars import jars_for
from tests.pipeline.spark.missing import skipped_without_spark

PROGRAM = """
import sys
from pathlib import Path
from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.session import open_session
try:
    open_session("failing", master="local[1]", log=Path(sys.argv[1]))
except Problem as problem:
    print(problem)
"""


def test_a_java_that_ends_at_once_is_told_with_its_own_words(tmp_path: Path) -> None:
    with skipped_without_spark():
        jars_for(frozenset())
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "release").write_text('JAVA_VERSION="17.0.1"\n')
    program = java / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'Error: the heap does not fit' >&2\nexit 1\n")
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "spark.log"],
        capture_output=True,
        text=True,
        env={**os.environ, "PENSTOCK_JAVA_HOME": str(java)},
    )
    assert "Spark's Java does not start: Error: the heap does not fit" in done.stdout, done.stderr
    assert str(tmp_path / "spark.log") in done.stdout
    assert "Traceback" not in done.stderr


THREADS = """
import threading
import penstock.pipeline.spark.session
thread = threading.Thread(target=lambda: __import__("pyspark.sql.functions"))
thread.start()
import pyspark
from pyspark.sql import SparkSession
thread.join()
print("imported")
"""


def test_modules_that_import_pyspark_may_be_loaded_while_a_session_opens() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert done.stdout == "imported\n", done.stderr


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("pyspark", "PySpark is not installed"),
        ("py4j", "PySpark cannot be imported: .*py4j"),
    ],
)
def test_a_machine_without_pyspark_or_with_half_of_it_is_told_so(
    module: str, told: str, tmp_path: Path
) -> None:
    hidden = f"import sys; sys.modules[{module!r}] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", hidden + PROGRAM, tmp_path / "spark.log"],
        capture_output=True,
        text=True,
    )
    assert re.search(told, done.stdout), done.stdout + done.stderr
    assert "pip install 'penstock[spark]'" in done.stdout

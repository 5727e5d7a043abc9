"""Finding or providing all that a pipeline needs on this machine, and saying what was done."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.classes import classes_file, make_classes
from penstock.pipeline.spark.jars import PINNED, jars_for, jars_missing, jars_place
from penstock.pipeline.spark.java import Java, find_java
from penstock.pipeline.spark.release import check_release

PANDAS_END = 3  # Spark 4.1 was made for the second


class Finding(NamedTuple):
    """One thing that pipelines need: what is there, and what was done about it."""

    what: str
    found: str
    done: str = ""


class Health(NamedTuple):
    """What a pipeline would run with on this machine."""

    java: Java
    spark_version: str
    jars: tuple[Path, ...]
    findings: tuple[Finding, ...]


def examine(tell: Callable[[str], None] = lambda _: None) -> Health:
    """Look at everything and fetch or make what is missing; `tell` hears of what takes long."""
    spark = check_release()
    findings = [Finding("Spark", f"PySpark {spark}"), *_packages()]
    java = find_java()
    findings.append(Finding("Java", f"{java.version} in {java.home}", f"from {java.origin}"))
    needs = frozenset(PINNED)
    missing = jars_missing(needs)
    if missing:
        tell(f"fetching {len(missing)} jars")
    jars = jars_for(needs)
    fetched = f"fetched {len(missing)}" if missing else "all were here"
    findings.append(Finding("jars", f"{len(jars)} in {jars_place()}", fetched))
    findings.append(_classes(java, tell))
    return Health(java, spark, tuple(jars), tuple(findings))


def _packages() -> list[Finding]:
    found = []
    for package in ("pandas", "pyarrow"):
        try:
            here = version(package)
        except PackageNotFoundError:
            raise Problem(
                f"the package {package} is missing, which Spark hands rows to Python with",
                "`pip install 'penstock[spark]'` brings it",
            ) from None
        if package == "pandas" and int(here.partition(".")[0]) >= PANDAS_END:
            raise Problem(
                f"pandas {here} is installed, and Spark needs one before {PANDAS_END}",
                f"`pip install 'pandas<{PANDAS_END}'`",
            )
        found.append(Finding(package, here))
    return found


def _classes(java: Java, tell: Callable[[str], None]) -> Finding:
    path = classes_file(java)
    if path.is_file():
        return Finding("classes", str(path), "were ready")
    tell("starting Spark once, so that it starts faster from now on")
    made = make_classes(java)
    if made is None:
        return Finding("classes", "", "started Spark, but this Java keeps no classes")
    return Finding("classes", str(made), "started Spark, and kept its classes")

"""Spark's classes, ready to load: what makes Spark start in half the time.

Java can keep the classes that a program has loaded in a file, parsed and checked, and map that file
into memory the next time (class data sharing). Spark loads some fifteen thousand before the first
row. The file fits one Java and one Spark; `penstock pipeline doctor` makes it. Without it Spark
starts all the same.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.cache import cache_folder
from penstock.pipeline.spark.java import Java

KEPT_MAX = 3  # a file is some 130 MB
MAKE_SECONDS_MAX = 300

# Java prints warnings on standard output, where data belongs.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def class_options(java: Java) -> str:
    """Options of Java that let it use the file, if it was made."""
    path = classes_file(java)
    return f"-XX:SharedArchiveFile={path} {_QUIET}" if path.is_file() else _QUIET


def classes_file(java: Java) -> Path:
    """Where the classes of the Spark here are kept for this Java. It may not be made yet."""
    import pyspark

    facts = [java.version, str(java.home.resolve()), str(pyspark.__version__)]
    # Java refuses the file when a jar has changed: then it gets another name, and is made anew.
    with os.scandir(Path(pyspark.__file__).parent / "jars") as jars:
        facts += sorted(f"{jar.name} {jar.stat().st_mtime_ns}" for jar in jars)
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return cache_folder() / "classes" / f"{name}.jsa"


def make_classes(java: Java) -> Path:
    """Start Spark, let it do a little of everything, and keep the classes that it loaded."""
    target = classes_file(java)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "classes.jsa"
        log = Path(folder) / "spark.log"
        command = [sys.executable, "-m", "penstock.pipeline.spark.rehearsal", str(made), str(log)]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=MAKE_SECONDS_MAX,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise Problem(f"Spark did not start and end within {MAKE_SECONDS_MAX} s") from None
        if done.returncode != 0:
            said = done.stderr.strip() or "it says nothing"
            raise Problem(f"Spark does not start: {said.splitlines()[-1]}")
        if not made.is_file():
            raise Problem(f"Java {java.version} in {java.home} keeps no classes")
        os.replace(made, target)
    _forget_old(target.parent)
    return target


def _forget_old(folder: Path) -> None:
    files = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[KEPT_MAX:]:
        path.unlink(missing_ok=True)

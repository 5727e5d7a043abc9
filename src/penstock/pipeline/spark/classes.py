"""Spark's classes, ready to load: what makes Spark start in half the time.

Java can keep the classes that a program has loaded in a file, parsed and checked, and map that file
into memory the next time (class data sharing). Spark loads some fifteen thousand before the first
row. The file fits one Java and one Spark; `penstock pipeline doctor` makes it. Without it Spark
starts all the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.cache import cache_folder
from penstock.pipeline.spark.java import Java

KEPT_MAX = 3  # some 180 MB each
MAKE_SECONDS_MAX = 600

# Java prints warnings on standard output, where data belongs.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def class_options(java: Java) -> tuple[str, ...]:
    """Options of Java that let it use the file, if it was made."""
    classes = classes_file(java)
    if not classes.is_file():
        return _QUIET
    base = _base_file(java)
    files = f"{base}:{classes}" if base else str(classes)
    return (f"-XX:SharedArchiveFile={files}", *_QUIET)


def classes_file(java: Java) -> Path:
    """Where the classes of the Spark here are kept for this Java. It may not be made yet."""
    import pyspark

    facts = [java.version, str(java.home.resolve()), str(pyspark.__version__)]
    # Java refuses the file when a jar has changed: then it gets another name, and is made anew.
    with os.scandir(Path(pyspark.__file__).parent / "jars") as jars:
        facts += sorted(f"{jar.name} {jar.stat().st_mtime_ns}" for jar in jars)
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return cache_folder() / "classes" / name / "spark.jsa"


def _base_file(java: Java) -> Path | None:
    """Java's own classes, if it does not bring them along as most do: Spark's build on them."""
    shipped = java.home / "lib" / "server" / "classes.jsa"
    return None if shipped.is_file() else classes_file(java).with_name("java.jsa")


def make_classes(java: Java) -> Path | None:
    """Start Spark, let it do a little of everything, and keep the classes that it loaded.

    None if this Java cannot keep any. That Spark starts is shown in any case.
    """
    target = classes_file(java)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        options = []
        base = _base_file(java)
        if base is not None:
            aside = Path(folder) / base.name
            _run([str(java.program), "-Xshare:dump", f"-XX:SharedArchiveFile={aside}"])
            if aside.is_file():
                os.replace(aside, base)
                options.append(f"-XX:SharedArchiveFile={base}")
        made, log = Path(folder) / target.name, Path(folder) / "spark.log"
        options.append(f"-XX:ArchiveClassesAtExit={made}")
        done = _run([sys.executable, "-m", f"{__package__}.rehearsal", str(log), *options])
        if done.returncode != 0:
            said = done.stderr.strip() or "it says nothing"
            raise Problem(f"Spark does not start: {said.splitlines()[-1]}")
        if not made.is_file():
            return None
        os.replace(made, target)
    _forget_old(target.parent.parent)
    return target


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MAKE_SECONDS_MAX,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise Problem(
            f"Spark did not start, work and end within {MAKE_SECONDS_MAX} s",
            "see whether this machine is very busy, or short of memory",
        ) from None


def _forget_old(folder: Path) -> None:
    kept = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[KEPT_MAX:]:
        shutil.rmtree(path, ignore_errors=True)

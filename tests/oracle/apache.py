"""Apache Kafka's jars: fetched once from Maven Central into the user's cache.

The jars are the reference that nobody here wrote: a broker to compare with, and the tools that
operators use. Nothing of them enters the repository.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import zlib
from functools import cache
from pathlib import Path

VERSION = "4.3.0"
LOG4J_VERSION = "2.25.3"
FETCH_SECONDS_MAX = 600

# What Apache's start scripts pass when nobody sets anything (kafka-run-class.sh).
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# For a JVM that lives for seconds: what the second compiler and the threads of G1 cost never comes
# back. A broker starts for little more than half the work.
JVM_SHORT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# kafka-server-start.sh's heap, for comparisons; and a smaller one for tests.
HEAP_SHIPPED = ("-Xmx1G", "-Xms1G")
HEAP_TESTS = ("-Xmx512m",)

_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.kafka", "kafka-shell", VERSION),
    ("org.apache.kafka", "kafka-streams", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-1.2-api", LOG4J_VERSION),
)

_LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss.SSS} %p %c: %m%n
"""


def home() -> Path:
    """Where the jars live: outside any checkout, shared by all of them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "penstock" / f"apache-kafka-{VERSION}"


def missing() -> str | None:
    """Why Apache Kafka cannot run on this machine, or None if it can."""
    if shutil.which("java") is None:
        return "no java on PATH (a JDK 17 or later)"
    if not _complete() and shutil.which("mvn") is None:
        return "no mvn on PATH, which fetches Apache Kafka's jars"
    return None


def install() -> Path:
    """Fetch the jars unless they are there, and return the folder that holds them."""
    target = home()
    if _complete():
        return target
    target.mkdir(parents=True, exist_ok=True)
    # Test processes start side by side: one fetches, the others wait for it.
    with open(target / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _complete():
            _fetch(target)
    return target


def _complete() -> bool:
    """Whether all that is asked for today was fetched: the marker holds what was asked for."""
    marker = home() / "complete"
    return marker.exists() and marker.read_text() == _pom()


def _fetch(target: Path) -> None:
    (target / "pom.xml").write_text(_pom())
    (target / "log4j2.properties").write_text(_LOGGING)
    subprocess.run(
        ["mvn", "-q", "-B", "-f", str(target / "pom.xml"), "dependency:copy-dependencies",
         f"-DoutputDirectory={target / 'libs'}"],
        check=True,
        timeout=FETCH_SECONDS_MAX,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    # Written last: an interrupted fetch is done again, never trusted.
    (target / "complete").write_text(_pom())


def java(
    *, heap: tuple[str, ...] = HEAP_TESTS, options: tuple[str, ...] = JVM_OPTIONS
) -> list[str]:
    """The beginning of a command line: java, its options and Kafka's class path."""
    install()
    if options[: len(JVM_SHORT)] == JVM_SHORT:
        options = (*options, f"-XX:SharedArchiveFile={classes()}")
    return _java(heap, options)


def _java(heap: tuple[str, ...], options: tuple[str, ...]) -> list[str]:
    return [
        "java",
        *heap,
        *options,
        f"-Dlog4j2.configurationFile={home() / 'log4j2.properties'}",
        "-cp",
        f"{home() / 'libs'}/*",
    ]


@cache
def classes() -> Path:
    """A broker's classes as a JVM holds them in memory: with them it starts with half the work."""
    program = Path(shutil.which("java") or "java").resolve()
    kept = home() / f"classes-{zlib.crc32(str(program).encode()):08x}.jsa"
    with open(home() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A Java or jars that were replaced since have other classes under the same names.
        newest = max(each.stat().st_mtime for each in (program, home() / "complete"))
        if not kept.exists() or kept.stat().st_mtime < newest:
            _keep_classes(kept)
    return kept


def _keep_classes(kept: Path) -> None:
    """Run a broker from its start to its end: what it has loaded by then is kept."""
    from tests.oracle.nodes import ApacheNode

    with tempfile.TemporaryDirectory(dir=home()) as folder:
        made = Path(folder) / "classes.jsa"
        node = ApacheNode(
            Path(folder) / "node", options=(f"-XX:ArchiveClassesAtExit={made}", *JVM_SHORT)
        )
        node.start()
        node.stop()
        made.replace(kept)


def run_tool(
    name: str, *arguments: str, seconds_max: float = 120, options: tuple[str, ...] = JVM_SHORT
) -> subprocess.CompletedProcess[str]:
    """Run one of Apache's main classes in a JVM of its own (see `tools` for a warm one)."""
    command = [*java(options=options), name, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds_max, stdin=subprocess.DEVNULL
    )


def _pom() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in _ARTIFACTS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>penstock</groupId><artifactId>oracle</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )

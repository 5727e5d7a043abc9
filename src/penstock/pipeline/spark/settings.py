"""Settings of a Spark session that a user would rather not think about."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.pipeline.spark.master import local_cores
from penstock.pipeline.spark.sockets import socket_settings

SECRET = (
    "(?i)secret|password|passwd|token|credential|access[.]?key|private[.]?key|jaas"
    "|ssl[.].*key|user[.-]?info|://[^/@\\s]*:[^/@\\s]*@"
)
"""What in the name or the value of a setting tells that the value is nobody's business.

Written so that Java and Python read it alike: Spark hides in its UI and logs what it matches.
"""

_SECRET_VALUE = re.compile(r"(?i)password|jaas|://[^/@\s]*:[^/@\s]*@")

_HIDING = "spark.redaction.regex"
_EXTENSIONS = "spark.sql.extensions"

FOR_NEED = {
    "iceberg": {_EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}
"""What a set of jars wants to be told when the session starts."""

# Settings that hold many things: what several parties want is put together.
_JOINED = {_EXTENSIONS: ",", "spark.jars": ",", "spark.driver.extraJavaOptions": " ", _HIDING: "|"}

MEMORY_MIN_MB = 1024
MEMORY_MAX_MB = 4096
CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")


def is_secret(key: str, value: str) -> bool:
    """Whether this setting must not be shown to anybody."""
    if key == _HIDING:
        return False
    return re.search(SECRET, key) is not None or _SECRET_VALUE.search(value) is not None


def chosen_settings(
    name: str,
    master: str,
    user: Mapping[str, str],
    *,
    jars: Sequence[Path],
    needs: frozenset[str],
    java_options: Sequence[str],
) -> dict[str, str]:
    """All settings of a session: Penstock's, over them the machine's own, over all the user's."""
    chosen = {
        "spark.app.name": name,
        "spark.master": master,
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": " ".join(map(quoted, java_options)),
        _HIDING: SECRET,
        **{key: value for key, value in _preferred(master).items() if key not in _machine_keys()},
    }
    for wanted in (*(FOR_NEED.get(need, {}) for need in sorted(needs)), user):
        for key, value in wanted.items():
            between = _JOINED.get(key)
            joins = between is not None and chosen.get(key) and value
            chosen[key] = f"{chosen[key]}{between}{value}" if joins else value
    return chosen


def quoted(option: str) -> str:
    """An option as Spark reads it out of many: paths may have spaces."""
    plain = re.fullmatch(r"[\w/.:=+,@%-]+", option)
    return option if plain else '"' + re.sub(r'([\\"])', r"\\\1", option) + '"'


def _preferred(master: str) -> dict[str, str]:
    """What Penstock prefers to Spark's defaults."""
    preferred = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A day begins at the same moment wherever a pipeline runs.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    cores = local_cores(master)
    if cores is not None:
        preferred |= {
            "spark.driver.memory": f"{_memory_mb()}m",
            # One machine talks to itself: whatever its host name resolves to today.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Spark's 200 are for clusters: each costs a task and, in a stream, a state store.
            "spark.sql.shuffle.partitions": str(cores),
            **socket_settings(),
        }
    return preferred


def _memory_mb() -> int:
    """A quarter of the memory here, within bounds: it holds the work as well as the driver."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        total = min(total, int(CONTAINER_MEMORY.read_text()))
    except (OSError, ValueError):
        pass  # no container, or one without a limit
    return min(max(total >> 22, MEMORY_MIN_MB), MEMORY_MAX_MB)


def _machine_keys() -> frozenset[str]:
    """The settings that this machine's spark-defaults.conf decides."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if not folder and os.environ.get("SPARK_HOME"):
        folder = os.path.join(os.environ["SPARK_HOME"], "conf")
    if not folder:
        return frozenset()
    try:
        text = (Path(folder) / "spark-defaults.conf").read_text()
    except OSError:
        return frozenset()
    return frozenset(re.findall(r"^\s*(spark\.[^\s=:]+)", text, re.MULTILINE))

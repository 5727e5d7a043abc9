"""Settings of a Spark session that a user would rather not think about."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

SECRET = "(?i)secret|password|token|access[.]?key|jaas|ssl.*key|user.?info"
"""What of a setting's name, or of a value, tells that the value is nobody's business."""

_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


def is_secret(key: str) -> bool:
    """Whether the value of this setting must not be shown."""
    return re.search(SECRET, key) is not None


def chosen_settings(
    name: str, master: str, settings: Mapping[str, str], jars: Sequence[Path], log: Path
) -> dict[str, str]:
    """All settings of a session: Penstock's, then the user's."""
    cores = _cores(master)
    chosen = {
        "spark.app.name": name,
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": SECRET,
        # A day is the same day on every machine.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if cores is not None:
        chosen["spark.driver.memory"] = "1g"
        chosen["spark.driver.host"] = "127.0.0.1"
        chosen["spark.driver.bindAddress"] = "127.0.0.1"
        chosen["spark.sql.shuffle.partitions"] = str(cores)
    chosen.update(settings)
    files = [str(jar) for jar in jars]
    if settings.get("spark.jars"):
        files.append(settings["spark.jars"])
    chosen["spark.jars"] = ",".join(files)
    options = f"-Dlog4j2.configurationFile={_write_logging(log)}"
    if settings.get("spark.driver.extraJavaOptions"):
        options += " " + settings["spark.driver.extraJavaOptions"]
    chosen["spark.driver.extraJavaOptions"] = options
    return chosen


def _cores(master: str) -> int | None:
    """How many tasks run at once on this machine; None on a cluster."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if found is None:
        return None
    if found[1] == "*":
        return len(os.sched_getaffinity(0))
    return int(found[1] or 1)


def _write_logging(log: Path) -> Path:
    path = log.with_suffix(".log4j2.properties")
    path.write_text(_LOGGING.format(log=log))
    return path

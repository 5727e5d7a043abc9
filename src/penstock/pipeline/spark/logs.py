"""Where Spark's log goes: a file per pipeline, warnings and worse."""

from __future__ import annotations

import os
from pathlib import Path

ROTATE_AT = "20MB"
ROTATED_MAX = 3

_CONFIGURATION = f"""\
rootLogger.level = WARN
rootLogger.appenderRef.file.ref = file

appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = @LOG@
appender.file.filePattern = @LOG@.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = {ROTATE_AT}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = {ROTATED_MAX}

# Warnings at every start that nobody can do anything about.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = ERROR
logger.adaptive.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.adaptive.level = ERROR
"""


def write_logging(log: Path) -> Path:
    """The log4j2 configuration that sends Spark's log to the file `log`, beside it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    path = log.with_name(log.name + ".log4j2.properties")
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(_CONFIGURATION.replace("@LOG@", str(log.absolute())))
    os.replace(aside, path)
    return path.absolute()


def last_words(log: Path, since: int) -> str:
    """The line written after position `since` that tells best why Spark did not start."""
    try:
        with open(log, errors="replace") as file:
            file.seek(since)
            lines = [line.strip() for line in file if line.strip()]
    except OSError:
        return ""
    telling = [line for line in lines if "Exception" in line or "Error" in line]
    return (telling or lines or [""])[0]

"""What went wrong inside Spark, in the words of the pipeline's file.

Spark wraps a cause in several layers, each with a stack of its own. Here the innermost text that
means something is found, its decoration is taken off, and what is known to happen gets an advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.model import Pipeline

RAISED = "USER_RAISED_EXCEPTION"
"""Spark's name for what `raise_error` raised: our own words, on their way back."""

RESET = "`penstock pipeline reset FILE` begins anew; a new name keeps the old progress beside it."


class Known(NamedTuple):
    """Something that is known to happen."""

    pattern: str
    what: str
    advice: str


KNOWN = (
    Known(
        r"KAFKA_DATA_LOSS|OffsetOutOfRange|data loss|some data may have been lost",
        what="records that were not read yet are gone from the topic, by its retention or because "
        "it was deleted: {detail}",
        advice="Set data_loss: continue in the source to go on with what is there, or reset the "
        "pipeline.",
    ),
    Known(
        r"UnknownTopicOrPartition|UNKNOWN_TOPIC|does not host this topic|Topic .* not present",
        what="a topic is not there on {bootstrap}: {detail}",
        advice="`penstock topic list` shows the topics that there are; `penstock topic create` "
        "makes one.",
    ),
    Known(
        r"SaslAuthentication|SslAuthentication|(Topic|Group|TransactionalId)Authorization|"
        r"authentication failed",
        what="the brokers at {bootstrap} refused this pipeline: {detail}",
        advice="See the keys under `kafka` in the file, and what its user may do.",
    ),
    Known(
        r"No resolvable bootstrap|fetching topic metadata|Timeout.*(node assignment|metadata|Call)|"
        r"ALL_BROKERS_DOWN|_TRANSPORT|Disconnect|brokers? (is|are) down|bootstrap",
        what="no broker answers at {bootstrap}: {detail}",
        advice="Start it, or set `bootstrap`; with on_error: retry a pipeline waits for it to "
        "return.",
    ),
    Known(
        r"STATE_STORE_\w*SCHEMA|SCHEMA_NOT_COMPATIBLE|StateSchemaNotCompatible|"
        r"STREAMING_STATEFUL_OPERATOR|There are \[\d+\] sources in the checkpoint|"
        r"StateStore.*operator",
        what="the query is not the one that made the checkpoint: {detail}",
        advice=RESET,
    ),
    Known(
        r"CANNOT_LOAD_STATE_STORE|CANNOT_LOAD_CHECKPOINT|MISSING_OFFSET|batch .* doesn't exist|"
        r"Incomplete log file|INVALID_LOG_VERSION|malformed log file",
        what="the checkpoint is damaged: {detail}",
        advice="Restore it from a copy, or begin anew: `penstock pipeline reset FILE`.",
    ),
    Known(
        r"No space left on device|Disk quota",
        what="the disk is full: {detail}",
        advice="Make room, and run the pipeline again.",
    ),
    Known(
        r"OutOfMemoryError|Java heap space",
        what="Spark ran out of memory: {detail}",
        advice="Give it more (spark.driver.memory: 4g under `spark`), or make batches smaller.",
    ),
    Known(
        r"Connection refused|ConnectException|connection attempt failed",
        what="a service that the pipeline needs does not answer: {detail}",
        advice="Start it, or see the addresses of sinks and sources; on_error: retry waits for it.",
    ),
    Known(
        r"ModuleNotFoundError|No module named",
        what="Python code of the pipeline cannot be loaded: {detail}",
        advice="Install what is missing where Spark runs, or put the file beside the pipeline's.",
    ),
)
"""The first whose pattern is found in a fault's texts tells of it."""


def java_is_gone(fault: BaseException) -> bool:
    """Whether this is what Py4J raises when the Java process at the other end has ended."""
    # Not Py4JJavaError, its subclass: that one brings an answer from a Java that is well.
    return any(
        type(each).__module__.startswith("py4j")
        and type(each).__name__ in ("Py4JError", "Py4JNetworkError")
        for each in _chain(fault)
    )


def problem_of(fault: BaseException, pipeline: Pipeline, log: Path | None = None) -> Problem:
    """A problem that says what happened; a problem is told as it is."""
    for each in _chain(fault):
        if isinstance(each, Problem):
            return each
    if java_is_gone(fault):
        return Problem(
            "Spark's Java process has ended",
            "If the machine ran out of memory, give Spark less (spark.driver.memory under `spark`) "
            "or the machine more." + (f" Its log: {log}" if log else ""),
            pipeline.place,
        )
    texts = list(_texts(fault))
    for text in texts:
        if raised := re.search(rf"\[{RAISED}\]\s*(.+?)(\s+SQLSTATE: \w+|$)", text, re.DOTALL):
            return Problem(_tidy(raised[1]), _bad_record_advice(pipeline), pipeline.place)
    joined = "\n".join(texts)
    detail = _tidy(_telling(texts))
    for known in KNOWN:
        if re.search(known.pattern, joined):
            said = known.what.format(bootstrap=pipeline.bootstrap, detail=detail)
            return Problem(said, known.advice, pipeline.place)
    where = f"Spark's log has the rest: {log}" if log else ""
    return Problem(detail, where, pipeline.place)


def _bad_record_advice(pipeline: Pipeline) -> str:
    if pipeline.on_error.policy in ("fail", "retry"):
        return (
            "on_error: dlq puts such records into a dead-letter topic and goes on, drop leaves "
            "them out."
        )
    return ""


def _chain(fault: BaseException) -> Iterator[BaseException]:
    """The fault and all that it was raised from."""
    seen: set[int] = set()
    at: BaseException | None = fault
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__


def _texts(fault: BaseException) -> Iterator[str]:
    """What each layer of the fault says, outermost first; the layers of the JVM included."""
    for each in _chain(fault):
        yield f"{type(each).__name__}: {each}" if not _is_sparks(each) else str(each)
        java = getattr(each, "_origin", None) or getattr(each, "java_exception", None)
        for _ in range(20):
            java = java.getCause() if java is not None else None
            if java is None:
                break
            yield str(java.toString())


def _is_sparks(fault: BaseException) -> bool:
    return type(fault).__module__.startswith(("pyspark", "py4j"))


_EMPTY = re.compile(
    r"^(An error occurred while calling|Job aborted|Task failed|\[?FAILED_EXECUTE_UDF|"
    r"\[STREAM_FAILED\]|\[FOREACH_BATCH|Py4JException|Writing job aborted|"
    r"org\.apache\.spark\.SparkException: Job aborted)",
)


def _telling(texts: list[str]) -> str:
    """The innermost text that says more than that something failed."""
    for text in reversed(texts):
        first = text.strip().partition("\n")[0]
        if first and not _EMPTY.match(first):
            return text
    return texts[0] if texts else "the query ended for no reason that was told"


def _tidy(text: str) -> str:
    """One line without class names, stacks and states that mean nothing to a reader."""
    python = re.findall(r"^(\w*(?:Error|Exception|Problem)\b.*)$", text, re.MULTILINE)
    line = python[-1] if "Traceback (most recent call last)" in text and python else text
    line = line.strip().partition("\n")[0]
    line = re.sub(r"^(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b:?\s*", "", line)
    line = re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", line)
    line = re.sub(r"\s*SQLSTATE: \w+\s*$", "", line)
    line = re.sub(r"\(?of class [\w.$]+\)?", "", line)
    return line.strip().rstrip(".") or text.strip().partition("\n")[0]

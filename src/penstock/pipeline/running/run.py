"""Running one pipeline from its start to its end."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.pipeline.assembly import SINKS, SOURCES, STEPS, assemble
from penstock.pipeline.checkpoint import Files, checkpoint_root, is_remote, open_checkpoint
from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.running.faults import java_is_gone, problem_of
from penstock.pipeline.running.group import reads_topics
from penstock.pipeline.running.query import RunningQuery
from penstock.pipeline.running.reach import nobody_there, topic_missing
from penstock.pipeline.running.registry import Claim, Entry
from penstock.pipeline.running.remote import files_at
from penstock.pipeline.running.retry import Retries
from penstock.pipeline.running.shape import check_shapes, shape_of
from penstock.pipeline.running.signals import SignalledStop, Stop
from penstock.pipeline.running.status import (
    DONE,
    FAILED,
    RETRYING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    PipelineStatus,
)
from penstock.pipeline.running.watch import Listener, Watch
from penstock.pipeline.spark.session import open_session
from penstock.pipeline.spec.model import Pipeline, Trigger
from penstock.pipeline.spec.needs import needs_of, python_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.2
END_LOOK_SECONDS = 0.05
"""How often to look at a run that has an end: somebody may wait for it."""
GRACE_SECONDS = 60.0
"""How long a batch in hand may take after somebody has asked to stop."""

WATCHED = {"spark.sql.streaming.noDataProgressEventInterval": "1000"}
"""Spark reports every second, batch or no batch: who is idle has a lag, too."""

UNTRACED = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""PySpark tells the JVM, for every expression, from which line of Python it comes: that is two
thirds of all that is said while a pipeline is assembled. Lines of ours help nobody."""


def run_pipeline(
    pipeline: Pipeline,
    *,
    master: str = "local[*]",
    once: bool = False,
    settings: Mapping[str, str] | None = None,
    session: SparkSession | None = None,
    listener: Listener | None = None,
    stop: Stop | None = None,
    patience: float = 0.0,
) -> PipelineStatus:
    """Run a pipeline until it ends: never, unless `once` or its trigger say so, or `stop` does.

    `once` takes what is there now and ends. `settings` are Spark's and win over the file's. A
    `session` that is given is used and left open. `listener` is told the status after each batch
    and each second. Another run of the same pipeline is waited for, for `patience` seconds.
    Whatever goes wrong is raised as a `Problem`.
    """
    if once:
        # Sources that find their own end must know that there is one.
        pipeline = replace(pipeline, trigger=Trigger(available_now=True))
    claim = Claim(pipeline, patience)
    watch = Watch(pipeline, claim.entry, listener)
    stop = stop or Stop()
    wanted = {**preferred_settings(pipeline), **pipeline.spark, **(settings or {})}
    opened = nullcontext(session) if session else _session(pipeline, claim.entry, master, wanted)
    try:
        try:
            _work(pipeline, watch, stop, opened, once)
        finally:
            watch.close()
        watch.turn(STOPPED if stop.asked.is_set() else DONE)
    except Exception as fault:
        if stop.asked.is_set() and java_is_gone(fault):
            # Whoever asked us asked Java, too. The batch in hand is done again by the next run.
            watch.turn(STOPPED, "in the middle of a batch")
            return watch.status
        problem = problem_of(fault, pipeline, claim.entry.log)
        watch.turn(FAILED, problem.what)
        if problem is fault:
            raise
        raise problem from fault
    finally:
        claim.release()
    return watch.status


def preferred_settings(pipeline: Pipeline) -> dict[str, str]:
    """Spark's settings that suit a run of this pipeline, unless somebody wants others."""
    return WATCHED if python_files(pipeline) else {**WATCHED, **UNTRACED}


def _work(
    pipeline: Pipeline,
    watch: Watch,
    stop: Stop,
    session: AbstractContextManager[SparkSession],
    once: bool,
) -> None:
    """From the first look at the checkpoint to the last batch."""
    watch.turn(STARTING)
    root = checkpoint_root(pipeline)
    if not is_remote(root):
        open_checkpoint(pipeline)  # refused, if at all, before Spark is started
    if not _awaited(nobody_there, pipeline, watch, stop):
        return
    waits = attempts_of(pipeline) > 0
    if not waits and (missing := topic_missing(pipeline)):
        raise missing
    watch.turn(STARTING, "Spark")
    with session as spark:
        if isinstance(stop, SignalledStop):
            stop.listen()  # PySpark has just taken Ctrl-C for itself
        # Whoever writes the topic is starting, too: Spark is ready when it comes.
        if waits and not _awaited(topic_missing, pipeline, watch, stop):
            return
        files = files_at(root, spark)
        context = Context(spark, pipeline, open_checkpoint(pipeline, files))
        _Run(context, files, watch, stop, once).work()


def _awaited(
    missing: Callable[[Pipeline], Problem | None], pipeline: Pipeline, watch: Watch, stop: Stop
) -> bool:
    """Wait until nothing is missing, as long as the file says; False if it was asked to stop.

    Kafka's own clients would try for minutes, and nobody would know for what.
    """
    retries = Retries(attempts_of(pipeline))
    while problem := missing(pipeline):
        if not retries.may_go_on(0, time.monotonic()):
            raise problem
        watch.turn(RETRYING, f"{problem.what}; {retries}")
        while not retries.due(time.monotonic()):
            if stop.asked.wait(LOOK_SECONDS):
                return False
    return not stop.asked.is_set()


def attempts_of(pipeline: Pipeline) -> int:
    """How often something that failed is tried again."""
    return pipeline.on_error.attempts if pipeline.on_error.policy == "retry" else 0


@contextmanager
def _session(
    pipeline: Pipeline, entry: Entry, master: str, settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    # Java takes seconds to start, on a core of its own: Python loads what comes next meanwhile.
    threading.Thread(target=_load, args=(pipeline,), daemon=True).start()
    spark = open_session(
        pipeline.name,
        master=master,
        settings=settings,
        needs=needs_of(pipeline),
        py_files=python_files(pipeline),
        log=entry.log,
    )
    try:
        yield spark
    finally:
        _leave(spark)


def _leave(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception as fault:
        # Java may have ended before us; what made it end is told elsewhere.
        if not (java_is_gone(fault) or isinstance(fault, ConnectionError)):
            raise


def _load(pipeline: Pipeline) -> None:
    """Import the modules that the pipeline's parts are in."""
    for table, parts in (
        (SOURCES, pipeline.sources.values()),
        (STEPS, pipeline.steps),
        (SINKS, pipeline.sinks.values()),
    ):
        for part in parts:
            try:
                importlib.import_module(table[type(part)])
            except ImportError:
                return  # assembly meets it again, and tells


class _Run:
    """The queries of a pipeline, from their start to their end."""

    def __init__(
        self, context: Context, files: Files, watch: Watch, stop: Stop, once: bool
    ) -> None:
        self._context = context
        self._files = files
        self._watch = watch
        self._stop = stop
        self._once = once
        self._queries: list[RunningQuery] = []
        self._retries: dict[str, Retries] = {}

    def work(self) -> None:
        """Start all queries and see them through."""
        attempts = attempts_of(self._context.pipeline)
        ends = self._context.pipeline.trigger.available_now
        queries = assemble(self._context)
        shapes = {query.name: shape_of(query.view.rows) for query in queries}
        check_shapes(self._context.pipeline, self._context.checkpoint, shapes, self._files)
        for query in queries:
            running = RunningQuery(self._context, query)
            self._queries.append(running)
            self._retries[running.name] = Retries(attempts)
            self._watch.add(running)
        try:
            for running in self._queries:
                if self._stop.asked.is_set():
                    return
                running.start(once=self._once)
            self._watch.turn(RUNNING)
            while self._go_on():
                self._stop.asked.wait(END_LOOK_SECONDS if ends else LOOK_SECONDS)
        finally:
            self._end()

    def _go_on(self) -> bool:
        """One look at everything; whether there will be more to see."""
        self._watch.look(self._queries)
        if self._stop.asked.is_set():
            return False
        # Asked once: who was at work a moment ago and is not any more may have failed.
        active = [each for each in self._queries if each.active]
        waiting = [each for each in self._queries if each not in active and self._mend(each)]
        if not waiting and self._watch.status.state == RETRYING:
            self._watch.turn(RUNNING)
        return bool(active or waiting)

    def _mend(self, query: RunningQuery) -> bool:
        """Whether a query that has ended will be, or was, started again. Raises if it may not."""
        fault = query.exception()
        if fault is None:
            return False
        retries = self._retries[query.name]
        now = time.monotonic()
        if not retries.waiting:
            batch = self._watch.status.queries[query.name].batch
            if not retries.may_go_on(batch, now):
                raise self._lost(fault) or fault
            self._watch.status.restarts += 1
            problem = problem_of(fault, self._context.pipeline)
            self._watch.turn(RETRYING, f"{problem.what}; {retries}")
        if retries.due(now):
            query.start(once=self._once)
        return True

    def _lost(self, fault: Exception) -> Problem | None:
        """What to tell if records were gone before they were read: exactly which."""
        if not reads_topics(self._context.pipeline):
            return None
        from penstock.pipeline.sources.lost_records import explain

        return explain(fault, self._context)

    def _end(self) -> None:
        if self._stop.asked.is_set():
            self._watch.turn(STOPPING, "after the batch in hand")
        started = [each for each in self._queries if each.started]
        for each in started:
            each.close()
        deadline = time.monotonic() + GRACE_SECONDS
        for each in started:
            each.stop(deadline)
        self._watch.look(started)

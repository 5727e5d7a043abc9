"""What Spark says of a fault, and what a user is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.running.faults import problem_of
from penstock.pipeline.spec.model import Pipeline
from tests.pipeline.running.scene import MINIMAL, pipeline_in


class Java:
    """A Java exception as Py4J hands it over."""

    def __init__(self, text: str, cause: Java | None = None) -> None:
        self._text, self._cause = text, cause

    def getCause(self) -> Java | None:
        return self._cause

    def toString(self) -> str:
        return self._text


class Captured(Exception):
    """An exception of PySpark's."""

    __module__ = "pyspark.errors.exceptions.captured"

    def __init__(self, text: str, *causes: str) -> None:
        super().__init__(text)
        java: Any = None
        for each in reversed(causes):
            java = Java(each, java)
        self._origin = Java(text, java)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return pipeline_in(tmp_path)


def test_a_problem_is_told_as_it_is(pipeline: Pipeline) -> None:
    problem = Problem("the lake is full", "Empty it.")
    assert problem_of(problem, pipeline) is problem


def test_a_problem_behind_other_faults_is_found(pipeline: Pipeline) -> None:
    problem = Problem("the lake is full", "Empty it.")
    try:
        try:
            raise problem
        except Problem as cause:
            raise RuntimeError("the batch failed") from cause
    except RuntimeError as fault:
        assert problem_of(fault, pipeline) is problem


def test_a_bad_record_is_told_in_our_own_words(pipeline: Pipeline) -> None:
    fault = Captured(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted",
        "org.apache.spark.SparkException: Job aborted due to stage failure",
        "org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] orders: a bad record in "
        "topic orders, partition 0, offset 17: it is not JSON SQLSTATE: P0001",
    )
    problem = problem_of(fault, pipeline)
    assert problem.what == (
        "orders: a bad record in topic orders, partition 0, offset 17: it is not JSON"
    )
    assert "dlq" in problem.advice
    assert problem.place == pipeline.place


@pytest.mark.parametrize(
    ("text", "said", "advised"),
    [
        (
            "org.apache.kafka.common.errors.TimeoutException: waiting for a node assignment",
            "no broker answers at localhost:9092",
            "on_error: retry",
        ),
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not",
            "a topic is not there on localhost:9092",
            "penstock topic list",
        ),
        (
            "org.apache.spark.SparkException: [STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided",
            "the query is not the one that made the checkpoint",
            "penstock pipeline reset",
        ),
        ("java.io.IOException: No space left on device", "the disk is full", "Make room"),
        ("java.lang.OutOfMemoryError: Java heap space", "out of memory", "spark.driver.memory"),
        (
            "org.postgresql.util.PSQLException: Connection refused. Check that the hostname",
            "does not answer",
            "on_error: retry",
        ),
        (
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
            "refused this pipeline",
            "keys under `kafka`",
        ),
    ],
)
def test_what_is_known_to_happen_gets_an_advice(
    pipeline: Pipeline, text: str, said: str, advised: str
) -> None:
    problem = problem_of(Captured("[STREAM_FAILED] Query [id = 1] terminated", text), pipeline)
    assert said in problem.what
    assert advised in problem.advice
    assert "Exception" not in problem.what
    assert "\n" not in problem.what


def test_what_is_not_known_is_told_without_its_decoration(pipeline: Pipeline) -> None:
    fault = Captured(
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted",
        "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. "
        "SQLSTATE: 22012\n\tat org.apache.spark.sql.Divide.eval(Divide.scala:12)",
    )
    problem = problem_of(fault, pipeline, Path("/tmp/spark.log"))
    assert problem.what == "Division by zero"
    assert problem.advice == "Spark's log has the rest: /tmp/spark.log"


def test_an_exception_of_the_users_python_is_told_by_its_last_line(pipeline: Pipeline) -> None:
    fault = Captured(
        "[STREAM_FAILED] Query [id = 1] terminated",
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "enrich.py", line 3, in enrich\n    1 / 0\nValueError: no such customer: 7\n',
    )
    assert problem_of(fault, pipeline).what == "ValueError: no such customer: 7"


def test_an_exception_of_a_sink_in_python_keeps_its_name(pipeline: Pipeline) -> None:
    assert problem_of(KeyError("amount"), pipeline).what == "KeyError: 'amount'"


def test_a_java_process_that_is_gone_is_told_as_such(pipeline: Pipeline) -> None:
    from py4j.protocol import Py4JError, Py4JNetworkError

    for fault in (Py4JNetworkError("x"), Py4JError("An error occurred while calling o1.stop")):
        problem = problem_of(fault, pipeline, Path("/tmp/spark.log"))
        assert problem.what == "Spark's Java process has ended"
        assert "spark.driver.memory" in problem.advice


def test_advice_on_bad_records_is_for_those_who_have_not_taken_it(tmp_path: Path) -> None:
    dropping = pipeline_in(tmp_path, MINIMAL + "on_error: drop\n")
    problem = problem_of(Captured("[USER_RAISED_EXCEPTION] x SQLSTATE: P0001"), dropping)
    assert problem.advice == ""

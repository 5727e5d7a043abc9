"""Opening a Spark session with the settings that pipelines want."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark import workers
from penstock.pipeline.spark.cache import log_folder
from penstock.pipeline.spark.classes import class_options
from penstock.pipeline.spark.jars import jars_for
from penstock.pipeline.spark.java import Java, find_java
from penstock.pipeline.spark.logs import last_words, write_logging
from penstock.pipeline.spark.master import LOCAL, check_master, local_cores
from penstock.pipeline.spark.package import package_zip
from penstock.pipeline.spark.release import check_release
from penstock.pipeline.spark.settings import chosen_settings, is_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    # Here, while there is one thread: PySpark fails if two import it at the same time.
    import pyspark.sql  # noqa: F401
except ImportError:
    pass  # told when a session is to be opened


def open_session(
    name: str,
    *,
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    needs: frozenset[str] = frozenset(),
    py_files: Sequence[str | Path] = (),
    log: Path | None = None,
) -> SparkSession:
    """A new Spark session called `name`, on this machine (`local[*]`) or on the cluster `master`.

    `settings` are Spark's own, and win over Penstock's. `needs` names the sets of jars beyond
    Kafka's (see `jars.PINNED`). `py_files`, Python files and zips, travel to the executors.
    Spark's log goes to the file `log`. A process has one session at a time, and the jars and the
    memory of its first.
    """
    check_master(master)
    check_release()
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    java = find_java()
    log = log or log_folder() / f"{name}.log"
    chosen = chosen_settings(
        name,
        master,
        settings or {},
        jars=jars_for(needs),
        needs=needs,
        java_options=[
            f"-Dlog4j2.configurationFile={write_logging(log)}",
            *class_options(java),
        ],
    )
    if _choose_python(master, chosen):
        chosen.setdefault("spark.python.daemon.module", workers.__name__)
    if SparkContext._gateway is None:
        _start_java(java, chosen, log)
    # The defaults are those of the Java that was started: with the machine's spark-defaults.conf.
    conf = SparkConf().setAll(list(chosen.items()))
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        context = SparkContext(conf=conf, pyFiles=_travelling(master, py_files))
    except Py4JJavaError as refusal:
        reason = str(refusal.java_exception.toString()).splitlines()[0]
        raise Problem(f"Spark does not start on {master}: {reason}", f"its log is {log}") from None
    return SparkSession(context)


def _travelling(master: str, py_files: Sequence[str | Path]) -> list[str]:
    """The Python files that executors get; those on other machines get Penstock as well."""
    own = [] if local_cores(master) is not None else [str(package_zip())]
    return own + [str(each) for each in py_files]


def _choose_python(master: str, chosen: Mapping[str, str]) -> bool:
    """Let executors run this interpreter, unless they are on machines that have another one.

    Whether it is sure that they do, and so have Penstock installed.
    """
    told = chosen.get("spark.pyspark.python")
    if told:
        os.environ["PYSPARK_PYTHON"] = told
        return False
    if local_cores(master) is not None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        return True
    if master.startswith("spark:"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return False


def _start_java(java: Java, chosen: Mapping[str, str], log: Path) -> None:
    """Start the Java process that this Python process drives, its output in the log."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    os.environ["JAVA_HOME"] = str(java.home)
    if local_cores(chosen["spark.master"]) is not None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Anyone can read a command line: secrets follow through the gateway's own socket.
    spoken = [(key, value) for key, value in chosen.items() if not is_secret(key, value)]
    launch = SparkConf(loadDefaults=False).setAll(spoken)
    with open(log, "ab") as output:
        since = output.tell()
        try:
            # In a group of its own: a signal for ours must reach the driver, which lets the batch
            # in hand finish, and not Java. When the driver is gone, Java's input ends, and so it.
            options = {"stderr": output, "process_group": 0}
            gateway = launch_gateway(launch, options)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError:
            raise Problem(
                f"Spark's Java does not start: {last_words(log, since) or 'it says nothing'}",
                f"its log is {log}; `penstock pipeline doctor` looks at Java, Spark and the jars",
            ) from None
    SparkContext._ensure_initialized(gateway=gateway)

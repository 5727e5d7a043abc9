"""Opening a Spark session with the settings that pipelines want.

What a user sets wins over everything here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.cache import log_folder
from penstock.pipeline.spark.jars import jars_for
from penstock.pipeline.spark.java import find_java
from penstock.pipeline.spark.settings import chosen_settings, is_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(
    name: str,
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    needs: frozenset[str] = frozenset(),
    py_files: Sequence[str | Path] = (),
    log: Path | None = None,
) -> SparkSession:
    """A new Spark session called `name`, on this machine (`local[*]`) or on the cluster `master`.

    `settings` are Spark's own and win over Penstock's. `needs` names the sets of jars beyond
    Kafka's (`jars.PINNED`). `py_files` travel to the executors. Spark's log goes to the file `log`.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ImportError:
        raise Problem(
            "pipelines run on Spark, and PySpark is not installed",
            advice="`pip install 'penstock[spark]'` brings it",
        ) from None
    log = log or log_folder() / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(find_java().home)
    chosen = chosen_settings(name, master, settings or {}, jars_for(needs), log)
    if python := chosen.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python
    elif master.startswith(("local", "spark:")):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._gateway is None:
        # Anyone can read a command line: secrets follow through the gateway's own socket.
        spoken = [(key, value) for key, value in chosen.items() if not is_secret(key)]
        launch = SparkConf(loadDefaults=False).setAll(spoken)
        with open(log, "ab") as output:
            gateway = launch_gateway(launch, {"stderr": output})
        SparkContext._ensure_initialized(gateway=gateway)
    conf = SparkConf().setAll(list(chosen.items()))
    context = SparkContext(conf=conf, pyFiles=[str(each) for each in py_files])
    return SparkSession(context)

"""A standalone Spark cluster on this machine, out of the PySpark package."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from penstock.pipeline.spark.classes import class_options
from penstock.pipeline.spark.java import find_java
from penstock.pipeline.spark.release import check_release
from penstock.testing.ports import free_ports

WORKERS = 2
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0


class Cluster:
    """A master and two workers with one core each, for as long as a `with` block."""

    def __init__(self, folder: Path) -> None:
        check_release()
        self._java = find_java()
        # The classes that `penstock pipeline doctor` kept for drivers serve every Java of Spark.
        self._classes = " ".join(class_options(self._java))
        self._folder = folder
        self._port, self._ui_port = free_ports(2)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """What a driver needs to be told to fit into the cluster, and to be found by it."""
        return {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": self._classes,
            "spark.driver.memory": "700m",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }

    def __enter__(self) -> Cluster:
        place = ["--host", "127.0.0.1", "--webui-port"]
        self._start("master.Master", *place, str(self._ui_port), "--port", str(self._port))
        try:
            self._wait_for_workers(0)
            for _ in range(WORKERS):
                room = ["--cores", "1", "--memory", "600m", "--work-dir", str(self._folder)]
                self._start("worker.Worker", *place, "0", *room, self.url)
            self._wait_for_workers(WORKERS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Workers first: they end their executors.
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()

    @property
    def pids(self) -> list[int]:
        """The process ids: the master's, then the workers'."""
        return [process.pid for process in self._processes]

    def _start(self, name: str, *words: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "JAVA_HOME": str(self._java.home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            # They do little: the first compiler is enough, and starts them sooner.
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {self._classes}",
        }
        # Kept classes fit one class path, which begins with this folder. The package brings none,
        # so that no settings of this machine come in.
        environment.pop("SPARK_CONF_DIR", None)
        with open(self._folder / "output.log", "ab") as output:
            process = subprocess.Popen(
                [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self._folder,
            )
        self._processes.append(process)

    def _wait_for_workers(self, count: int) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while self._workers_alive() < count:
            ended = [each for each in self._processes if each.poll() is not None]
            if ended or time.monotonic() > deadline:
                output = (self._folder / "output.log").read_text(errors="replace")
                raise RuntimeError(f"the Spark cluster did not start:\n{output[-4000:]}")
            time.sleep(0.1)

    def _workers_alive(self) -> int:
        """How many workers the master knows; -1 before it answers."""
        # Its port is open before its pages are there: until then another page may answer.
        with suppress(OSError, json.JSONDecodeError):
            url = f"http://127.0.0.1:{self._ui_port}/json/"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        return -1

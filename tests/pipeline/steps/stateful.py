"""A processor with state, run in a process of its own: what it wrote goes to the output.

If nothing comes for long, what every thread of Java is doing goes to the errors.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from penstock.pipeline.spark.session import open_session
from penstock.pipeline.spec.steps import StatefulStep
from tests.pipeline.steps.conftest import PLACE, Bench

SECONDS_MAX = 240


def main(folder: Path) -> None:
    spark = open_session(
        "stateful",
        master="local[2]",
        settings={
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stopTimeout": "20s",
        },
        needs=frozenset(),
        log=folder / "spark.log",
    )
    bench = Bench(spark, folder)
    bench.stream("hits", "page string")
    made = bench.apply(
        StatefulStep(
            stateful="counts.py:Counts",
            by=("page",),
            schema="page string, n long",
            time_mode="none",
            output="update",
            place=PLACE,
        )
    )
    assert made.mode == "update"
    bench.feed("hits", {"page": "a"}, {"page": "a"}, {"page": "b"})
    with bench.start(made) as run:
        first = run.catch_up()
        bench.feed("hits", {"page": "a"})
        print(json.dumps([first, run.catch_up()]))
    spark.stop()


def _give_up() -> None:
    faulthandler.dump_traceback(all_threads=True)
    own = subprocess.run(["pgrep", "-P", str(os.getpid()), "java"], capture_output=True, text=True)
    for pid in own.stdout.split():
        subprocess.run(["jstack", pid], stdout=sys.stderr, check=False)
    os._exit(1)


if __name__ == "__main__":
    alarm = threading.Timer(SECONDS_MAX, _give_up)
    alarm.daemon = True
    alarm.start()
    main(Path(sys.argv[1]))

"""A web server's log into a lake, through three pipelines, with everything killed on the way.

Run it with `make demo`. A log grows and is rotated; one pipeline imports it, a second parses and
enriches it, a third writes it to a lake of Parquet and counts. Halfway the broker is ended with
kill -9, and then all pipelines are. In the end every line is in the lake exactly once, or, if it
was broken, in the dead-letter topic with the reason.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as compute
import pyarrow.dataset as dataset
from access_log_writer import BROKEN_ONE_IN
from chart import draw
from confluent_kafka import Consumer, Message, TopicPartition

from penstock.testing import Broker

HERE = os.path.dirname(os.path.abspath(__file__))
WAIT_SECONDS_MAX = 600  # three times Spark, on a machine that may have other things to do
WINDOW_SECONDS = LATE_SECONDS = 5  # as 3-lake.yml says: a window is counted when it cannot grow
NUMBER = re.compile(r'"GET /\w*/(\d+) ')


class Story:
    """The processes of the demonstration, and how they are ended."""

    def __init__(self, work: str, lines: int, lines_per_second: int) -> None:
        self.work = work
        self.lines = lines
        self.lines_per_second = lines_per_second
        self.broker = Broker(data=os.path.join(work, "broker"))
        self.began = time.monotonic()
        self._children: list[subprocess.Popen[bytes]] = []

    def say(self, line: str) -> None:
        print(f"[{time.monotonic() - self.began:5.1f} s] {line}", file=sys.stderr, flush=True)

    def write_log(self) -> subprocess.Popen[bytes]:
        return self._start(
            os.path.join(HERE, "access_log_writer.py"),
            os.path.join(self.work, "logs", "access.log"),
            f"--lines={self.lines}",
            f"--lines-per-second={self.lines_per_second}",
        )

    def run_pipelines(self) -> subprocess.Popen[bytes]:
        return self._start("-m", "penstock", "pipeline", "run", HERE)

    def end(self) -> None:
        for child in self._children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        self.broker.stop()

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "BOOTSTRAP": self.broker.bootstrap_servers,
            "WORK": self.work,
            "PENSTOCK_STATE": os.path.join(self.work, "state"),
        }
        # A group of its own, so that -9 can reach its children and theirs, Spark's JVM included.
        child = subprocess.Popen([sys.executable, *words], env=environment, start_new_session=True)
        self._children.append(child)
        return child


def tell(story: Story) -> int:
    """Everything in its order; the exit status."""
    story.broker.start()
    story.say(f"a broker on {story.broker.bootstrap_servers}; all files are in {story.work}")
    writer = story.write_log()
    pipelines = story.run_pipelines()
    story.say("a log grows, and three pipelines start (Spark takes some seconds)")
    wait_for(story, "a third of the log in the lake", lambda: in_lake(story) > story.lines // 3)
    story.broker.kill()
    story.broker.start()
    story.say("the broker was ended with kill -9, and is back")
    os.killpg(pipelines.pid, signal.SIGKILL)
    pipelines.wait()
    story.say("all pipelines were ended with kill -9; they start again")
    pipelines = story.run_pipelines()
    writer.wait()
    good = sum(number % BROKEN_ONE_IN != 0 for number in range(story.lines))
    wait_for(story, f"all {good:,} good lines in the lake", lambda: in_lake(story) >= good)
    broken = story.lines - good
    wait_for(
        story,
        f"{broken} dead letters",
        lambda: len(list(read(story, "web-log-parse.dlq"))) >= broken,
    )
    wait_for(story, "the counts of all windows that are over", lambda: counted(story))
    time.sleep(4)  # were anything doubled, it would come now
    pipelines.send_signal(signal.SIGTERM)
    pipelines.wait(60)
    return judge(story, broken)


def wait_for(story: Story, what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"gave up after {WAIT_SECONDS_MAX} s: {what}")
        time.sleep(0.5)
    story.say(what)


def in_lake(story: Story) -> int:
    """Rows in the lake, counted by a reader that knows nothing of pipelines."""
    if not glob.glob(os.path.join(story.work, "lake", "day=*")):
        return 0
    try:
        return int(the_lake(story).count_rows())
    except FileNotFoundError:  # a file moved into its place between listing and opening
        return 0


def counted(story: Story) -> bool:
    """Whether the counts have come as far as the lake, but for windows that may still grow."""
    last = compute.max(the_lake(story).to_table(["at"])["at"]).as_py()
    ends = [datetime.fromisoformat(row["window_end"]) for row in counts(story)]
    return bool(ends) and max(ends) >= last - timedelta(seconds=WINDOW_SECONDS + LATE_SECONDS)


def judge(story: Story, broken: int) -> int:
    """Compare what is in the lake and among the dead letters with the log itself."""
    written: set[int] = set()
    for path in glob.glob(os.path.join(story.work, "logs", "*")):
        with open(path) as log:
            written |= {int(match[1]) for match in NUMBER.finditer(log.read())}
    paths = the_lake(story).to_table(["path"])["path"].to_pylist()
    rows = Counter(int(path.rsplit("/", 1)[1]) for path in paths)
    letters = list(read(story, "web-log-parse.dlq"))
    reasons = Counter(_header(letter, "penstock-dlq-reason")[:70] for letter in letters)
    picture = os.path.join(story.work, "counts.svg")
    paint(story, picture)
    missing = sum(
        number % BROKEN_ONE_IN != 0 and number not in rows for number in range(story.lines)
    )
    doubled = sum(times > 1 for times in rows.values())
    print(
        f"lines written {story.lines:,}, in the lake {sum(rows.values()):,}, "
        f"dead letters {len(letters)}"
    )
    for reason, times in reasons.most_common(3):
        print(f"  {times} x {reason}")
    print(f"missing {missing:,}, doubled {doubled:,}, strangers {len(rows.keys() - written)}")
    print(f"a picture of the counts: {picture}")
    return 0 if not missing and not doubled and len(letters) == broken else 1


def the_lake(story: Story) -> dataset.Dataset:
    return dataset.dataset(os.path.join(story.work, "lake"), partitioning="hive")


def counts(story: Story) -> list[dict[str, Any]]:
    """What the third pipeline has written back into a topic."""
    return [json.loads(message.value() or b"") for message in read(story, "web.counts")]


def paint(story: Story, picture: str) -> None:
    """Draw the counts."""
    hits: dict[str, dict[str, float]] = defaultdict(dict)
    for row in counts(story):
        hits[row["section"] or "(home)"][row["window_start"][11:19]] = row["hits"]
    times = sorted({time for section in hits.values() for time in section})
    columns = {name: [row.get(time, 0.0) for time in times] for name, row in sorted(hits.items())}
    with open(picture, "w") as file:
        file.write(draw("Hits by section, every five seconds", times, columns))


def read(story: Story, topic: str) -> Iterator[Message]:
    """All records of a topic that are there now, committed ones only."""
    consumer = Consumer(
        {
            "bootstrap.servers": story.broker.bootstrap_servers,
            "group.id": "demo",
            "log_level": 0,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        found = consumer.list_topics(topic, 10).topics[topic]
        parts = [TopicPartition(topic, number, 0) for number in found.partitions]
        if not parts:
            return
        consumer.assign(parts)
        ended = 0
        deadline = time.monotonic() + 30
        while ended < len(parts) and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                yield message
            elif message is not None:
                ended += 1
    finally:
        consumer.close()


def _header(message: Message, name: str) -> str:
    return dict(message.headers() or []).get(name, b"").decode()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--work", default=None, help="a folder for all files; a new one if not given"
    )
    options.add_argument("--lines", type=int, default=30_000)
    options.add_argument("--lines-per-second", type=int, default=500)
    given = options.parse_args()
    story = Story(
        given.work or tempfile.mkdtemp(prefix="penstock-demo-"), given.lines, given.lines_per_second
    )
    try:
        return tell(story)
    finally:
        story.end()


if __name__ == "__main__":
    sys.exit(main())

"""A group of librdkafka members, each in its own process, and a stream of records for them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.java.ownership import owned_twice, owners
from tests.compat.java.programs import Event, wait_until
from tests.oracle.nodes import Node

PARTITIONS = 12
SETTLE_SECONDS_MAX = 60
# Kafka allows no shorter one.
SESSION_MS = 6000
MEMBER = Path(__file__).with_name("rdkafka_member.py")


def create(node: Node, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(30)


class Stream:
    """A producer that goes on as long as a test does: number after number, to all partitions."""

    def __init__(self, node: Node, topic: str) -> None:
        create(node, topic)
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._produce)
        self._failures: list[KafkaError] = []
        self.sent = 0

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Send no more, and have all that was sent acknowledged."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self._failures == []

    def _produce(self) -> None:
        while not self._ended.wait(0.02):
            for partition in range(PARTITIONS):
                self._producer.produce(
                    self._topic, str(self.sent), partition=partition, on_delivery=self._delivered
                )
                self.sent += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)


class Process:
    """A member in a process of its own."""

    def __init__(self, name: str, topic: str, settings: dict[str, str], errors: Path) -> None:
        with open(errors, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(MEMBER), name, topic]
                + [f"{key}={value}" for key, value in settings.items()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self.events: list[Event] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # A line that SIGKILL cut short never happened.
            with contextlib.suppress(json.JSONDecodeError):
                self.events.append(json.loads(line))

    def end(self, kill: bool) -> float:
        """Have it leave, or kill -9 it; the moment at which it was certainly gone."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if kill:
            self._process.kill()
        self._process.stdin.close()
        status = self._process.wait(60)
        moment = time.monotonic()
        self._reader.join(60)
        self._process.stdout.close()
        assert kill or status == 0
        return moment


class Crew:
    """The members of one group."""

    def __init__(self, node: Node, topic: str, folder: Path, strategy: str) -> None:
        self._topic = topic
        self._folder = folder
        self._settings = {
            "bootstrap.servers": node.bootstrap,
            "group.id": f"group-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "partition.assignment.strategy": strategy,
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": "500",
        }
        self._processes: dict[str, Process] = {}
        self._past: list[Event] = []
        self.killed: dict[str, float] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self.kill(name)

    def start(self, name: str, **settings: str) -> None:
        more = {key.replace("_", "."): value for key, value in settings.items()}
        self._processes[name] = Process(
            name, self._topic, self._settings | more, self._folder / f"{name}.log"
        )

    def stop(self, name: str) -> None:
        """Have the member leave in peace."""
        process = self._processes.pop(name)
        process.end(kill=False)
        self._past += process.events

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        self.killed[name] = process.end(kill=True)
        self._past += process.events

    @property
    def events(self) -> list[Event]:
        return self._past + [it for each in self._processes.values() for it in list(each.events)]

    def owners(self) -> dict[int, str]:
        return owners(self.events, self.killed)

    def settle(self, *members: str) -> None:
        """Wait until exactly these members own all partitions, shared evenly."""
        share = PARTITIONS // len(members)

        def settled() -> bool:
            owned = Counter(self.owners().values())
            return owned.keys() == set(members) and set(owned.values()) == {share}

        self._wait(settled, f"{members} own {share} partitions each")

    def consumed(self) -> set[int]:
        return {
            value
            for event in self.events
            if event["event"] == "consumed"
            for value in event["values"]
        }

    def wait_for_all(self, stream: Stream) -> None:
        everything = set(range(stream.sent))
        self._wait(lambda: self.consumed() >= everything, "every record is consumed")

    def wait_for_progress(self, stream: Stream) -> None:
        """Wait until records that were sent from now on are read, out of each partition."""
        fresh = range(stream.sent + PARTITIONS, stream.sent + 2 * PARTITIONS)
        self._wait(lambda: self.consumed().issuperset(fresh), f"{fresh} are consumed")

    def disturbances(self, *members: str) -> int:
        """How often these members had to let go of something."""
        return sum(
            it["event"] in ("revoked", "lost") and it["member"] in members for it in self.events
        )

    def check(self) -> None:
        assert owned_twice(self.events, self.killed) == []
        assert lost_commits(self.events) == []

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        wait_until(
            holds,
            what,
            SETTLE_SECONDS_MAX,
            lambda: f"owners: {self.owners()}; last: {self.events[-3:]}",
        )


def lost_commits(events: list[Event]) -> list[str]:
    """Commits that were acknowledged, and that a later owner did not find."""
    found, acknowledged = [], dict.fromkeys(range(PARTITIONS), -1001)
    for event in sorted(events, key=lambda it: float(it["at"])):
        if event["event"] == "committed":
            for partition, offset in event["offsets"].items():
                acknowledged[int(partition)] = max(acknowledged[int(partition)], offset)
        elif event["event"] == "assigned":
            found += [
                f"{event['member']} found {offset} of partition {partition}, not {known}"
                for partition, offset in event["committed"].items()
                if offset < (known := acknowledged[int(partition)])
            ]
    return found


def come_and_go(crew: Crew, stream: Stream) -> None:
    """Members join, are killed and leave while records flow; in the end all is as it should be."""
    crew.start("a")
    crew.start("x")
    crew.settle("a", "x")
    crew.start("b")
    crew.start("y")
    crew.settle("a", "b", "x", "y")
    crew.wait_for_progress(stream)
    crew.kill("x")
    crew.kill("y")
    crew.settle("a", "b")
    crew.start("c")
    crew.settle("a", "b", "c")
    crew.stop("a")
    crew.settle("b", "c")
    crew.wait_for_progress(stream)
    stream.end()
    crew.wait_for_all(stream)
    crew.check()

"""Clients of a cluster whose nodes change their make: writers, copiers in transactions, a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.testing.history import History, Place, Recorder, check, exactly_once
from penstock.testing.history.confluent import read_to_end
from tests.compat.eos import fleet
from tests.compat.eos.fleet import Fleet
from tests.oracle.nodes import Node
from tests.oracle.trio import Trio
from tests.system.senders import Sender
from tests.system.watching import Watch

SECONDS_MAX = 120


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"not within {SECONDS_MAX} s: {what}"
        time.sleep(0.1)


def partitions(trio: Trio, topic: str) -> Mapping[int, Any]:
    """What the cluster says about a topic's partitions."""
    admin = AdminClient({"bootstrap.servers": trio.bootstrap, "log_level": 0})
    return dict(admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions)


def is_whole(trio: Trio, topic: str) -> bool:
    """Whether every partition has a leader and all of its replicas in sync."""
    found = partitions(trio, topic).values()
    return all(len(each.isrs) == 3 and each.leader > 0 for each in found)


def knows(node: Node, topic: str) -> bool:
    """Whether a node, asked first, tells of the topic."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    return topic in admin.list_topics(timeout=SECONDS_MAX).topics


def create(
    trio: Trio, topic: str, count: int, config: Mapping[str, str] | None = None
) -> list[Place]:
    """A topic with three replicas, which everybody leads and follows when this returns."""
    admin = AdminClient({"bootstrap.servers": trio.bootstrap})
    new = NewTopic(topic, count, 3, config=dict(config or {}))
    admin.create_topics([new])[topic].result(SECONDS_MAX)
    until(lambda: len(partitions(trio, topic)) == count and is_whole(trio, topic), "it is led")
    running = [node for node in trio.nodes.values() if node.running]
    until(lambda: all(knows(node, topic) for node in running), "all have heard of it")
    return [Place(topic, index) for index in range(count)]


class Writers:
    """Two idempotent producers, which never pause for long, and what they have been promised."""

    def __init__(self, trio: Trio, places: list[Place]) -> None:
        self._trio = trio
        self._places = places
        self._senders = [Sender(f"writer-{each}", trio.bootstrap, places) for each in range(2)]
        for sender in self._senders:
            sender.start()

    def go_on(self) -> None:
        """Wait until each of them has a hundred more acknowledgements."""
        goals = [(sender, sender.acknowledged + 100) for sender in self._senders]
        until(
            lambda: all(sender.acknowledged > goal for sender, goal in goals),
            "every producer gets acknowledgements",
        )

    def judge(self) -> None:
        """Stop, read everything, and compare."""
        for sender in self._senders:
            sender.finish(SECONDS_MAX)
            assert sender.failures == []
        reader = Recorder("reader")
        settings = {"bootstrap.servers": self._trio.bootstrap, "check.crcs": True}
        read_to_end(settings, self._places, reader)
        check(History.of(reader, *(sender.recorder for sender in self._senders)))


class Copying:
    """A worker that copies a topic in transactions, as the only member of a group.

    Its place in the source is what the group has committed. Were any of it lost, there would be
    copies missing or double.
    """

    def __init__(self, trio: Trio, name: str, language: fleet.Language, where: Path) -> None:
        self._trio = trio
        self._source, self._sink = f"{name}-inputs", f"{name}-outputs"
        sources, sinks = create(trio, self._source, 2), create(trio, self._sink, 2)
        self._places = [*sources, *sinks]
        (where / name).mkdir()
        words = [trio.bootstrap, self._source, self._sink, f"{name}-workers"]
        self._workers = Fleet(language(where), words, [f"{name}-worker"], where / name)
        self._feed = Sender(f"{name}-feed", trio.bootstrap, sources, pause=0.1, padding=1)
        self._watch = Watch(trio.bootstrap, sinks, self._workers)

    def __enter__(self) -> Copying:
        self._feed.start()
        self._workers.start()
        return self

    def go_on(self) -> None:
        """Wait for copies of what was sent until now, and for one more than there were."""
        self._watch.wait_for(max(self._feed.acknowledged, self._watch.found + 1))

    def judge(self) -> None:
        """Let it come to the end, and compare."""
        self._feed.finish(SECONDS_MAX)
        assert self._feed.failures == []
        self._watch.wait_for(self._feed.acknowledged)
        self._workers.stop()
        self._watch.close()
        reader = Recorder("reader")
        read_to_end({"bootstrap.servers": self._trio.bootstrap}, self._places, reader)
        history = History.read(*self._workers.histories)
        history += History.of(self._feed.recorder, self._watch.recorder, reader)
        copied = exactly_once(self._source, self._sink, lambda copy: copy.removeprefix("done "))
        check(history, copied)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workers.stop()


class Table:
    """A compacted topic: the newest value of each key, and sooner or later nothing else."""

    KEYS = 20

    def __init__(self, trio: Trio) -> None:
        self._trio = trio
        self._rounds = 0
        config = {
            "cleanup.policy": "compact",
            "segment.ms": "50",
            "min.cleanable.dirty.ratio": "0.01",
        }
        self._places = create(trio, "table", 1, config)

    def write(self) -> None:
        """A new value for each key."""
        self._rounds += 1
        producer = Producer({"bootstrap.servers": self._trio.bootstrap, "log_level": 0})
        for key in range(self.KEYS):
            producer.produce("table", b"%d of round %d" % (key, self._rounds), key=b"%d" % key)
        assert producer.flush(SECONDS_MAX) == 0

    def write_until_compacted(self) -> None:
        """Go on until a leader has removed something.

        What comes last is in the active segment, where nothing is removed and whose keys do not
        count: one value makes another superfluous, and a third one makes both eligible.
        """
        before = len(self._read())
        for _ in range(3):
            self.write()
            time.sleep(0.1)  # for the segment to become old enough
        until(lambda: len(self._read()) < before + 3 * self.KEYS, "old values disappear")

    def judge(self) -> None:
        """The last value of each key is the one that was written last."""
        last = dict(value.split(b" of round ") for value in self._read())
        assert last == {b"%d" % key: b"%d" % self._rounds for key in range(self.KEYS)}

    def _read(self) -> list[bytes]:
        settings = {"bootstrap.servers": self._trio.bootstrap}
        found = read_to_end(settings, self._places, Recorder("table"))
        return [value for _, value in sorted(found[self._places[0]].items())]

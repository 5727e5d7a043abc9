"""Clients that nobody here wrote, at work all the while, and taking notes of it.

Idempotent producers write `plain` and `inputs`; workers copy `inputs` to `outputs` in transactions;
readers of either isolation follow everything; a member of a group reads and commits.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from penstock.testing.history import History, Place, Recorder, Send
from penstock.testing.history.confluent import RecordingConsumer, place_of, read_to_end
from tests.compat.eos import fleet
from tests.compat.eos.fleet import Fleet
from tests.system.chaos.trio import Trio
from tests.system.senders import Sender

PLAIN, SOURCE, SINK = "plain", "inputs", "outputs"
TOPICS = ((PLAIN, 3), (SOURCE, 2), (SINK, 2))
COPIERS, READERS = "copiers", "readers"
WORKERS = ["copier-0", "copier-1"]
FLUSH_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 5.0
MEMBER_SESSION_MS = 15_000
MEMBER_POLLS_MS = 30_000
"""After which a group does without a member that hangs."""
RECENT = 5_000
"""Operations to look at for news: what came before them is old."""

_IMPOSSIBLE = frozenset(
    (
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._LOG_TRUNCATION,
        KafkaError._FATAL,
    )
)
"""No reader who began at 0 may hear that there is nothing at its offset, that something it has read
is gone, or that it must end."""
_EAGER = {"reconnect.backoff.max.ms": 200, "fetch.wait.max.ms": 100}
_HASTY = {"request.timeout.ms": 3_000, "socket.timeout.ms": 6_000}
"""A producer waits for a silent leader for as long as it was told to: half a minute, by itself."""


class Reading:
    """A consumer in a thread of its own, which goes on whatever happens."""

    def __init__(
        self, name: str, bootstrap: str, isolation: str, reset: str, **config: Any
    ) -> None:
        self.name = name
        self.recorder = Recorder(name)
        self.failures: list[str] = []
        self.stopping = threading.Event()
        self.hanging = ""
        """Where it stands, if it did not come to an end."""
        self.closing = False
        """It has read and noted all that it will: what is left is to let go of the client."""
        self.seen: dict[Place, int] = {}
        self.heard: Counter[str] = Counter()
        """Errors that it got over, for the most part: what one that stands still waits for."""
        settings = {
            **_EAGER,
            "bootstrap.servers": bootstrap,
            "isolation.level": isolation,
            "auto.offset.reset": reset,
            **config,
        }
        self.consumer = RecordingConsumer(settings, self.recorder)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.begin()
        self._thread.start()

    def finish(self, seconds_max: float) -> None:
        self.stopping.set()
        self._thread.join(seconds_max)
        if self._thread.is_alive():
            frame = sys._current_frames().get(self._thread.ident or 0)
            self.hanging = "".join(traceback.format_stack(frame)) if frame else "nowhere"

    def begin(self) -> None:
        """Choose what to read."""
        raise NotImplementedError

    def look_around(self) -> None:
        """Do something besides reading, about once a second."""
        raise NotImplementedError

    def _run(self) -> None:
        due = time.monotonic() + 1
        while not self.stopping.is_set():
            self._attempt(self._read)
            if time.monotonic() >= due:
                self._attempt(self.look_around)
                due = time.monotonic() + 1
        self.closing = True
        self.consumer.close()

    def _read(self) -> None:
        for message in self.consumer.consume(1000, 0.2):
            place = place_of(message)
            self.seen[place] = self.seen.get(place, 0) + 1

    def _attempt(self, act: Callable[[], None]) -> None:
        try:
            act()
        except KafkaException as problem:
            # Connections break here all the time: it asks again.
            error: KafkaError = problem.args[0]
            self.heard[f"{error.name()} {error.str()}"] += 1
            if error.fatal() or error.code() in _IMPOSSIBLE:
                self.failures.append(f"{self.name}: {error}")


class Watcher(Reading):
    """Reads all partitions from the beginning, and asks how far they are."""

    def __init__(self, name: str, bootstrap: str, places: list[Place], isolation: str) -> None:
        super().__init__(name, bootstrap, isolation, reset="error")
        self._places = places
        self._next = 0

    def begin(self) -> None:
        self.consumer.assign(dict.fromkeys(self._places, 0))

    def look_around(self) -> None:
        place = self._places[self._next % len(self._places)]
        self._next += 1
        self.consumer.marks(place)


class Member(Reading):
    """A member of a group, which commits its position and asks for it."""

    def __init__(self, name: str, bootstrap: str, topic: str) -> None:
        super().__init__(
            name,
            bootstrap,
            "read_committed",
            reset="earliest",
            **{
                "group.id": READERS,
                "session.timeout.ms": MEMBER_SESSION_MS,
                "max.poll.interval.ms": MEMBER_POLLS_MS,
            },
        )
        self._topic = topic
        self.asked = 0

    def begin(self) -> None:
        self.consumer.subscribe([self._topic])

    def look_around(self) -> None:
        mine = [Place(each.topic, each.partition) for each in self.consumer.consumer.assignment()]
        positions = {place: self.consumer.position(place) for place in mine}
        reached = {place: at for place, at in positions.items() if at > 0}
        if reached:
            self.consumer.commit(reached)
            self.consumer.ask_committed(reached)
            self.asked += 1


class Load:
    """All of them together, at work as long as a `with` block lasts."""

    def __init__(self, trio: Trio, where: Path, *, pause: float = 0.1) -> None:
        where.mkdir(parents=True, exist_ok=True)
        self.places = trio.create(*TOPICS)
        self._bootstrap = trio.bootstrap
        self.senders = [
            self._sender("sender-0", PLAIN, pause, "none"),
            self._sender("sender-1", PLAIN, pause, "lz4"),
            self._sender("feed", SOURCE, pause, "none"),
        ]
        self.watchers = [
            Watcher("eager", trio.bootstrap, self.places, "read_uncommitted"),
            Watcher("patient", trio.bootstrap, self.places, "read_committed"),
        ]
        self.readings: list[Reading] = [*self.watchers, Member(READERS, trio.bootstrap, PLAIN)]
        words = [trio.bootstrap, SOURCE, SINK, COPIERS]
        self.copiers = Fleet(fleet.confluent(where), words, WORKERS, where)
        self.problems: list[str] = []
        self._final = Recorder("final")
        self._moved = (0, time.monotonic())
        self._done = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="copiers", daemon=True)

    def _sender(self, name: str, topic: str, pause: float, codec: str) -> Sender:
        places = self.of(topic)
        return Sender(
            name, self._bootstrap, places, pause=pause, padding=100, codec=codec, config=_HASTY
        )

    def of(self, topic: str) -> list[Place]:
        return [place for place in self.places if place.topic == topic]

    def __enter__(self) -> Load:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        for sender in self.senders:
            sender.start()
        for reading in self.readings:
            reading.start()
        self.copiers.start()
        self._supervisor.start()

    @property
    def acknowledged(self) -> int:
        return sum(sender.acknowledged for sender in self.senders)

    @property
    def copied(self) -> int:
        """How many outputs a reader of committed transactions has seen."""
        return sum(self.watchers[1].seen.get(place, 0) for place in self.of(SINK))

    @property
    def stalled_seconds(self) -> float:
        """For how long nothing more has been copied."""
        return time.monotonic() - self._moved[1]

    def silent_since(self, at: int) -> list[Place]:
        """Where nothing that was sent after this moment has been acknowledged."""
        heard = {
            send.place
            for sender in self.senders
            for send in recent(sender)
            if send.is_ok and send.began > at
        }
        return [place for place in self.places if place.topic != SINK and place not in heard]

    def finish(self) -> None:
        """Stop writing, let everything arrive, and read all of it once more."""
        for sender in self.senders:
            self._attempt(partial(sender.finish, FLUSH_SECONDS_MAX))
        feed = self.senders[-1]
        deadline = time.monotonic() + FLUSH_SECONDS_MAX
        while self.copied < feed.acknowledged and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.copied < feed.acknowledged:
            self.problems.append(
                f"{self.copied} of {feed.acknowledged} inputs came out, and then nothing more\n"
                + "\n".join(f"{it.name}: {it.seen} {dict(it.heard)}" for it in self.watchers)
                + f"\n{self.copiers.output()[-20_000:]}"
            )
        self._done.set()
        self._supervisor.join()
        self.copiers.stop()
        for reading in self.readings:
            reading.finish(FLUSH_SECONDS_MAX)
        hanging = [each for each in self.readings if each.hanging]
        self.problems += filter(None, map(self._blame, hanging))
        for reading in self.readings:
            self.problems += reading.failures
        for sender in self.senders:
            self.problems += [f"{sender.name}: {each}" for each in sender.failures]
        for committed in (False, True):
            config = {"bootstrap.servers": self._bootstrap}
            read_to_end(config, self.places, self._final, committed=committed)

    def stop(self) -> None:
        """End everything at once, whatever is under way; nothing is left to do after `finish`."""
        self._done.set()
        self._supervisor.join()
        self.copiers.stop()
        for sender in self.senders:
            self._attempt(partial(sender.finish, STOP_SECONDS_MAX))
        for reading in self.readings:
            reading.finish(STOP_SECONDS_MAX)

    def history(self) -> History:
        """What everybody noted."""
        return History.read(*self.copiers.histories) + History.of(
            self._final,
            *(sender.recorder for sender in self.senders),
            *(reading.recorder for reading in self.readings),
        )

    def _blame(self, hanging: Reading) -> str | None:
        """Whose fault it is that somebody hangs.

        librdkafka may wait for ever within a call after all nodes were gone at once. It is the
        client's own fault if the next member of the same group gets along; or if it hangs as it
        closes and is in no group: no answer that it may need then could be waited for this long,
        since its requests time out after a minute (confluentinc/librdkafka#4674).
        """
        where = f"{hanging.name} hangs for {FLUSH_SECONDS_MAX:g} s and more:\n{hanging.hanging}"
        if not isinstance(hanging, Member):
            if not hanging.closing:
                return where
            # Not a failure, but nobody should miss it: a run's summary shows warnings.
            warnings.warn(f"{where}\nbut it had read everything, and only closes", stacklevel=1)
            return None
        successor = Member(f"{hanging.name}-again", self._bootstrap, PLAIN)
        self.readings.append(successor)
        successor.start()
        deadline = time.monotonic() + FLUSH_SECONDS_MAX
        while not successor.asked:
            if time.monotonic() > deadline:
                return f"{where}\nand its successor gets nowhere: {dict(successor.heard)}"
            time.sleep(0.1)
        successor.finish(FLUSH_SECONDS_MAX)
        if successor.hanging:
            return f"{where}\nand so does its successor:\n{successor.hanging}"
        # Not a failure, but nobody should miss it: a run's summary shows warnings.
        warnings.warn(f"{where}\nbut its successor gets along", stacklevel=1)
        return None

    def _supervise(self) -> None:
        while not self._done.wait(0.5):
            self._attempt(self.copiers.revive)
            if (copied := self.copied) != self._moved[0]:
                self._moved = copied, time.monotonic()

    def _attempt(self, act: Callable[[], None]) -> None:
        try:
            act()
        except AssertionError as problem:
            self.problems.append(str(problem))


def recent(sender: Sender) -> list[Send]:
    """What a producer sent lately."""
    return [each for each in sender.recorder.operations[-RECENT:] if isinstance(each, Send)]

"""Producers that send without a pause, and take notes of every acknowledgement."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from confluent_kafka import KafkaError

from penstock.testing.history import Place, Recorder
from penstock.testing.history.confluent import RecordingProducer

PATIENT: Mapping[str, Any] = {
    "linger.ms": 2,
    "message.timeout.ms": 300_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
}
"""Comes back soon, and never gives up."""


_started: WeakSet[Sender] = WeakSet()


@contextmanager
def stopped_with_the_test() -> Iterator[None]:
    """Those that were started within end with it, even if it fails.

    They would note their failures for ever, and the tests that come next would measure it.
    """
    before = set(_started)
    try:
        yield
    finally:
        for sender in set(_started) - before:
            sender.stop()


class Sender:
    """An idempotent producer in a thread of its own, which numbers its records.

    It sends ten at a time, with a pause between; `padding` is how much longer than its number a
    record becomes at the most.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        places: list[Place],
        *,
        codec: str = "none",
        pause: float = 0.01,
        padding: int = 400,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.places = places
        self.pause = pause
        self.padding = padding
        self.recorder = Recorder(name)
        self.fatal: list[str] = []
        self._stopping = threading.Event()
        self._producer = RecordingProducer(
            {
                **PATIENT,
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "error_cb": self._on_error,
                **(config or {}),
            },
            self.recorder,
        )
        self._thread = threading.Thread(target=self._send, name=name, daemon=True)

    @property
    def acknowledged(self) -> int:
        return self._producer.acknowledged

    @property
    def failures(self) -> list[str]:
        """What an idempotent producer does not survive. Nothing that happens here should do it."""
        return [*self.fatal, *(str(each) for each in self._producer.failures)]

    def start(self) -> None:
        _started.add(self)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def finish(self, seconds_max: float) -> None:
        """Stop sending, and wait until everything sent is acknowledged."""
        self.stop()
        self._thread.join(seconds_max)
        left = self._producer.flush(seconds_max)
        assert left == 0, f"{self.name} still waits for {left} acknowledgements"

    def _send(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for _ in range(10):
                place = self.places[number % len(self.places)]
                value = b"%s %d " % (self.name.encode(), number)
                value += b"." * (number % self.padding)
                self._producer.send(place.topic, place.partition, value)
                number += 1
            self._producer.poll()
            time.sleep(self.pause)

    def _on_error(self, error: KafkaError) -> None:
        # Connections break here all the time.
        if error.fatal():
            self.fatal.append(str(error))

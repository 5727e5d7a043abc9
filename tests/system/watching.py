"""A reader of what comes out of a pipeline of workers, over all crashes."""

from __future__ import annotations

import time

from penstock.testing.history import Place, Recorder
from penstock.testing.history.confluent import RecordingConsumer
from tests.compat.eos.fleet import Fleet

PROGRESS_SECONDS_MAX = 60.0


class Watch:
    """Reads the output as it comes, and starts workers again that could not go on."""

    def __init__(self, bootstrap: str, places: list[Place], workers: Fleet) -> None:
        self.recorder = Recorder("watch")
        self.found = 0
        self._workers = workers
        self._consumer = RecordingConsumer(
            {
                "bootstrap.servers": bootstrap,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 200,
            },
            self.recorder,
        )
        self._consumer.assign(dict.fromkeys(places, 0))

    def wait_for(self, count: int) -> None:
        """Until so many records are visible."""
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while self.found < count:
            assert time.monotonic() < deadline, (
                f"{self.found} of {count} records came out, and then nothing for "
                f"{PROGRESS_SECONDS_MAX:g} s:\n{self._workers.output()[-4000:]}"
            )
            self._workers.revive()
            news = len(self._consumer.consume(seconds=0.2))
            self.found += news
            if news:
                deadline = time.monotonic() + PROGRESS_SECONDS_MAX

    def close(self) -> None:
        self._consumer.close()

"""Members of a share group that take, accept, give back, keep for longer and vanish, with notes."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

from penstock.cli.failure import Failure
from penstock.cli.wire_cluster import Refusal
from penstock.model.errors import ErrorCode
from penstock.testing.history import Deliver, Recorder, Settle, text_of
from penstock.testing.share_client import ShareClient, Shared, Word

POLL_SECONDS = 1.0

REFUSED = {
    # The broker looked at it and said no: none of it counts, now or later.
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
}


class Members:
    """Threads that are members one life after another; when one vanishes, the next one joins."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, count: int, chance: random.Random
    ) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._stopping = threading.Event()
        self._calm = threading.Event()
        self._chances = [random.Random(chance.random()) for _ in range(count)]
        self.recorders: list[Recorder] = []
        self.words: Counter[str] = Counter()
        self.problems: list[str] = []
        self.done: set[tuple[str, int, int]] = set()
        """What somebody has accepted or rejected, whether or not an answer said that it counts."""
        self.busy_at = time.monotonic()
        """When somebody was last given a record."""
        self._threads = [
            threading.Thread(target=self._live, args=(number,), daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def accept_all(self) -> None:
        """From now on nobody gives anything back, and nobody vanishes."""
        self._calm.set()

    def stop(self, seconds_max: float) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(seconds_max)
            assert not thread.is_alive(), "a member does not stop"

    def _live(self, number: int) -> None:
        chance, life = self._chances[number], 0
        while not self._stopping.is_set():
            life += 1
            recorder = Recorder(f"member-{number}.{life}")
            self.recorders.append(recorder)
            try:
                self._join(recorder, chance, strict=life % 2 == 0)
            except Exception as problem:  # noqa: BLE001 - told at the end: a thread cannot raise
                self.problems.append(f"{recorder.client}: {problem!r}")
                return

    def _join(self, recorder: Recorder, chance: random.Random, *, strict: bool) -> None:
        client: ShareClient | None = None
        try:
            client = ShareClient(
                self._bootstrap, self._group, [self._topic], records_max=40, strict=strict
            )
            self._work(client, recorder, chance)
        except Failure as problem:
            # Nodes die here all the time. Whoever loses one begins another life.
            if isinstance(problem, Refusal) and problem.code not in REFUSED:
                self.problems.append(f"{recorder.client}: {problem}")
        finally:
            if client is not None:
                client.abandon()

    def _work(self, client: ShareClient, recorder: Recorder, chance: random.Random) -> None:
        while not self._stopping.is_set():
            began = recorder.now()
            records = client.poll(POLL_SECONDS)
            if records:
                self.busy_at = time.monotonic()
            for record in records:
                recorder.note(
                    Deliver(
                        topic=record.topic,
                        partition=record.partition,
                        group=self._group,
                        offset=record.offset,
                        value=text_of(record.value or b""),
                        deliveries=record.deliveries,
                    ),
                    began=began,
                )
            if records and not self._calm.is_set() and chance.random() < 0.03:
                self.words["vanish"] += 1
                client.abandon()  # and another life begins
                return
            self._settle(client, recorder, records, chance)
        client.close()

    def _settle(
        self,
        client: ShareClient,
        recorder: Recorder,
        records: list[Shared],
        chance: random.Random,
    ) -> None:
        said: dict[Word, list[Shared]] = {}
        for record in records:
            said.setdefault(self._word(record, chance), []).append(record)
        if Word.RENEW in said:
            self._say(client, recorder, said[Word.RENEW], Word.RENEW)
            said.setdefault(Word.ACCEPT, []).extend(said.pop(Word.RENEW))
        for word, spoken_of in said.items():
            self._say(client, recorder, spoken_of, word)

    def _word(self, record: Shared, chance: random.Random) -> Word:
        lot = chance.random()
        if self._calm.is_set() or lot < 0.8 or record.deliveries > 2:
            return Word.ACCEPT  # before it is given up
        return Word.RELEASE if lot < 0.95 else Word.RENEW

    def _say(
        self, client: ShareClient, recorder: Recorder, records: list[Shared], word: Word
    ) -> None:
        notes = [
            recorder.begin(
                Settle(
                    topic=each.topic,
                    partition=each.partition,
                    group=self._group,
                    offset=each.offset,
                    word=word.name.lower(),
                    deliveries=each.deliveries,
                )
            )
            for each in records
        ]
        if word in (Word.ACCEPT, Word.REJECT):
            self.done |= {(each.topic, each.partition, each.offset) for each in records}
        try:
            client.acknowledge(records, word)
        except Refusal as refusal:
            # Several partitions may be spoken of at once: others than the one refused may count.
            alone = len({(each.topic, each.partition) for each in records}) == 1
            for note in notes:
                if refusal.code in REFUSED and alone:
                    recorder.failed(note, refusal)
                else:
                    recorder.unknown(note, refusal)
            self.words[f"{word.name} refused"] += 1
            if refusal.code not in REFUSED:
                time.sleep(0.1)
            raise
        for note in notes:
            recorder.ok(note)
        self.words[word.name] += len(notes)

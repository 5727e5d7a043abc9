"""Sending dead letters through again, each of them once.

Letters are read from the dead-letter topic and written to where they came from, in transactions
that also commit how far this has come, to the group `penstock.pipeline.NAME:redrive`. Letters that
a filter leaves out wait for another time: the offset committed is that of the first letter that
waits, and the metadata beside it names the ones behind it that have been sent.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.pipeline.problem import Problem
from penstock.pipeline.redrive_letter import Letter
from penstock.pipeline.redrive_progress import Progress, TooManyGaps
from penstock.pipeline.running.clients import client_settings
from penstock.pipeline.sinks.dead_letters import dead_letter_topic
from penstock.pipeline.sinks.topic_faults import error_of, lasting, reason_of
from penstock.pipeline.sinks.topic_places import topics_there
from penstock.pipeline.sinks.transactional import PRODUCER
from penstock.pipeline.sinks.transactional_markers import group_of
from penstock.pipeline.spec.model import Pipeline

LETTERS_MAX = 1_000
"""At most so many letters in one transaction."""

ANSWER_SECONDS_MAX = 30.0
QUIET_SECONDS_MAX = 30.0
"""How long to wait for letters that the topic has, and does not hand out."""


@dataclass(slots=True)
class Outcome:
    """What a redrive has done, or would do."""

    topic: str
    sent: Counter[str] = field(default_factory=Counter)
    """Letters by the topic that they went to."""
    left: Counter[str] = field(default_factory=Counter)
    """Letters that wait, by their reason."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which letters to send, and where."""

    to: str = ""
    """The topic for all of them; empty for the one that each came from."""
    reason: str = ""
    """A regular expression: only letters with a reason in which it is found."""
    limit: int = 0
    """At most so many; 0 is no limit."""


def redrive(
    pipeline: Pipeline,
    wish: Wish | None = None,
    *,
    dry_run: bool = False,
    told: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Send dead letters of a pipeline through again. `told` hears of each transaction."""
    wish = wish or Wish()
    topic = dead_letter_topic(pipeline)
    outcome = Outcome(topic)
    group = group_of(pipeline.name, "redrive")
    try:
        partitions = topics_there(client_settings(pipeline), [topic]).get(topic, 0)
        if not partitions:
            return outcome  # no letter was ever written
        with _Redrive(pipeline, wish, topic, group, dry_run, outcome) as work:
            for _ in work.chunks(partitions):
                if told is not None:
                    told(outcome)
    except KafkaException as refusal:
        error = error_of(refusal)
        fault = lasting(error, wish.to or topic, group)
        what, advice = fault or (
            f"dead letters could not be sent: {reason_of(error)}",
            "What was sent is remembered. Run it again to send the rest.",
        )
        raise Problem(what, advice, pipeline.place) from None
    return outcome


class _Redrive:
    def __init__(
        self, pipeline: Pipeline, wish: Wish, topic: str, group: str, dry: bool, outcome: Outcome
    ) -> None:
        self._pipeline = pipeline
        self._wish = wish
        self._topic = topic
        self._pattern = re.compile(wish.reason)
        self._outcome = outcome
        clients = {**client_settings(pipeline), "log_level": 0}
        self._producer: Producer | None = None
        if not dry:
            self._producer = Producer({**clients, **PRODUCER, "transactional.id": group})
        self._consumer = Consumer(
            {
                **clients,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",  # what retention took is gone, and no hindrance
                "isolation.level": "read_committed",
            }
        )

    def __enter__(self) -> _Redrive:
        if self._producer is not None:
            # Whoever redrives the same pipeline at the same time is shut out here, before we
            # look how far it has come.
            self._producer.init_transactions(ANSWER_SECONDS_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._producer = None  # its own `close` would tell once more what went wrong

    def chunks(self, partitions: int) -> Iterator[None]:
        """Send all letters that are there now, a transaction at a time."""
        places = [TopicPartition(self._topic, each) for each in range(partitions)]
        committed = self._consumer.committed(places, ANSWER_SECONDS_MAX)
        progress = {each.partition: Progress.of(each.offset, each.metadata) for each in committed}
        self._consumer.assign(
            [TopicPartition(self._topic, each, way.start) for each, way in progress.items()]
        )
        chosen: list[Letter] = []
        for letter in self._letters(places):
            way = progress[letter.partition]
            if way.was_sent(letter.offset):
                continue
            if not self._wanted(letter, len(chosen)):
                way.leave(letter.offset)
                self._outcome.left[letter.reason] += 1
                continue
            chosen.append(letter)
            if len(chosen) == LETTERS_MAX:
                self._send(chosen, progress)
                chosen = []
                yield
        self._send(chosen, progress)
        yield

    def _letters(self, places: list[TopicPartition]) -> Iterator[Letter]:
        """Every letter from where we are to the end.

        The end is where it is now: a letter that is sent, and dies again at once, would be met
        once more, and so on.
        """
        ends = {
            each.partition: self._consumer.get_watermark_offsets(each, ANSWER_SECONDS_MAX)[1]
            for each in places
        }
        ended = {partition for partition, end in ends.items() if not end}
        deadline = time.monotonic() + QUIET_SECONDS_MAX
        while len(ended) < len(ends):
            for each in self._consumer.consume(LETTERS_MAX, 1.0):
                deadline = time.monotonic() + QUIET_SECONDS_MAX
                error = each.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                letter = Letter.of(each)
                if error is not None or letter.offset >= ends[letter.partition]:
                    ended.add(letter.partition)
                else:
                    yield letter
            if time.monotonic() > deadline:
                raise Problem(
                    f"the rest of {self._topic!r} could not be read",
                    "A transaction may still be open there: `penstock txn hanging` looks for it.",
                )

    def _wanted(self, letter: Letter, pending: int) -> bool:
        full = self._wish.limit and self._outcome.sent.total() + pending >= self._wish.limit
        return not full and self._pattern.search(letter.reason) is not None

    def _send(self, letters: list[Letter], progress: dict[int, Progress]) -> None:
        """One transaction: the letters, and that they were sent."""
        if not letters:
            return
        targets = [self._target(each) for each in letters]
        if self._producer is not None:
            try:
                places = [
                    TopicPartition(self._topic, each, *way.after(sent))
                    for each, way in progress.items()
                    if (sent := [one.offset for one in letters if one.partition == each])
                ]
            except TooManyGaps:
                raise Problem(
                    "the filter leaves more gaps among the letters than can be remembered",
                    "What was sent is remembered. Send the others first, or use a wider filter.",
                    self._pipeline.place,
                ) from None
            self._commit(self._producer, letters, targets, places)
        self._outcome.sent.update(targets)

    def _commit(
        self,
        producer: Producer,
        letters: Iterable[Letter],
        targets: Iterable[str],
        places: list[TopicPartition],
    ) -> None:
        producer.begin_transaction()
        try:
            for letter, target in zip(letters, targets, strict=True):
                headers: Any = letter.headers_again()
                producer.produce(target, value=letter.value, key=letter.key, headers=headers)
                producer.poll(0)
            producer.send_offsets_to_transaction(
                places, self._consumer.consumer_group_metadata(), ANSWER_SECONDS_MAX
            )
            producer.commit_transaction(ANSWER_SECONDS_MAX)
        except KafkaException as refusal:
            if error_of(refusal).txn_requires_abort():
                producer.abort_transaction(ANSWER_SECONDS_MAX)
            raise

    def _target(self, letter: Letter) -> str:
        target = self._wish.to or letter.topic
        if not target:
            raise Problem(
                f"the letter at {self._topic}-{letter.partition}@{letter.offset} came from "
                f"{letter.file or 'no topic'}",
                "Name a topic for it with --to.",
                self._pipeline.place,
            )
        return target

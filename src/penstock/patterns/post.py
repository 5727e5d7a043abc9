"""Sends retry copies and dead letters, and says when they are safe."""

from __future__ import annotations

import logging
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Record

from penstock.patterns.letters import Letter, dead_letter, retry_copy
from penstock.patterns.settings import Settings
from penstock.patterns.tenure import Bury, Errand, Park
from penstock.patterns.topics import Plan

log = logging.getLogger("penstock.patterns")

COMPLAINT_SECONDS = 30.0
BY_KEY = -1

Answered = Callable[[Errand, KafkaError | None], None]
"""Called with None when the server has it."""


class Post:
    """A producer for what a worker writes in a message's stead."""

    def __init__(self, settings: Settings, plan: Plan, answered: Answered) -> None:
        self._settings = settings
        self._plan = plan
        self._answered = answered
        self._producer = Producer(settings.for_producer())
        self._complained = -COMPLAINT_SECONDS

    def send(self, errand: Errand, now_ms: int) -> None:
        """Send it; the answer comes during a later `serve`, or at once if it is bad."""
        self._produce(errand, self._letter(errand, now_ms))

    def serve(self, seconds: float = 0.0) -> None:
        """Take the server's answers."""
        self._producer.poll(seconds)

    def close(self, seconds: float) -> None:
        """Wait for the answers that are still out."""
        self._producer.flush(seconds)

    def complain(self, errand: Errand, error: KafkaError, now: float) -> None:
        """Tell, now and then, that something does not get through."""
        if now - self._complained < COMPLAINT_SECONDS:
            return
        self._complained = now
        where = "dead-letter" if isinstance(errand, Bury) else "retry"
        log.warning(
            "%s cannot be written to its %s topic (%s); it is tried again until it is there, and"
            " nothing after it is committed: see that the topic exists and may be written",
            errand.job.message, where, error.str(),
        )  # fmt: skip

    def _letter(self, errand: Errand, now_ms: int) -> Letter:
        message = errand.job.message
        if isinstance(errand, Park):
            step = self._plan.step(message.topic, errand.wait)
            delay_ms = round((errand.wait if step.wait is None else step.wait) * 1000)
            by_server = delay_ms if step.wait is None else None
            return retry_copy(step.topic, message, now_ms + delay_ms, by_server)
        assert self._settings.dead_letter is not None, "buried without a dead-letter topic"
        group, topic = self._settings.group, self._settings.dead_letter
        return dead_letter(topic, message, group, errand.reason, errand.told, now_ms)

    def _partition(self, errand: Errand) -> int:
        """Dead letters of one partition lie together, as brokers put them; copies go by key."""
        if isinstance(errand, Park):
            return BY_KEY
        return errand.job.message.partition % self._plan.dead_letter_partitions

    def _produce(self, errand: Errand, letter: Letter, *, bare: bool = False) -> None:
        def delivered(error: KafkaError | None, _: Record) -> None:
            too_large = error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
            if too_large and isinstance(errand, Bury) and not bare:
                self._produce(errand, letter.bare(), bare=True)
            else:
                self._answered(errand, error)

        try:
            self._producer.produce(
                letter.topic,
                partition=self._partition(errand),
                value=letter.value,
                key=letter.key,
                headers=list(letter.headers),
                on_delivery=delivered,
            )
        except BufferError:
            self._answered(errand, KafkaError(KafkaError._QUEUE_FULL))
        except KafkaException as problem:
            self._answered(errand, problem.args[0])

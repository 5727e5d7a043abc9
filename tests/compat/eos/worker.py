"""Read, process, write, exactly once, with confluent-kafka: until SIGTERM, or a kill.

    python worker.py BOOTSTRAP SOURCE SINK GROUP ID NAME HISTORY

ID is the transactional id and the static member of the group, the same over all lives of a worker;
NAME is another one for each life, and HISTORY the file for its notes. A worker that cannot go on
ends with status 3, or by SIGALRM, and whoever started it starts the next. With
GROUP_PROTOCOL=consumer in the environment it joins its group by the new protocol.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.testing.history import Recorder
from penstock.testing.history.confluent import RecordingProducer, offset_of, place_of

BATCH = 50
SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 10_000
TRANSACTION_TIMEOUT_MS = 10_000
CALL_SECONDS_MAX = 6
BATCH_SECONDS_MAX = 8
"""librdkafka may wait for ever for a group's coordinator that comes back, whatever time-out it was
given: SIGALRM ends a worker that is stuck, as a supervisor would."""
IDLE_SECONDS_MAX = 40
"""Nor does it always join again after all nodes were gone at once, or read what it was given. A
worker that got nothing for so long wants another life, and says what it was about; if that does not
help, nothing is copied, and the test says so."""
CANNOT_GO_ON = 3


class Worker:
    """One life."""

    def __init__(self, words: list[str]) -> None:
        bootstrap, self.source, self.sink, self.group, identity, self.name, path = words
        self.stopping = False
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                # Also how long a rebalance waits for a member that may never come back.
                "max.poll.interval.ms": REBALANCE_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 200,
                # A member that stands still is seen to do so later: what it was about is noted.
                "debug": "cgrp",
                "log_level": 7,
                **membership(identity),
            }
        )
        self.producer = RecordingProducer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": identity,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 200,
                "linger.ms": 1,
            },
            Recorder(self.name, path),
        )

    def run(self) -> None:
        """Until told to stop; raises what it cannot live with."""
        signal.alarm(BATCH_SECONDS_MAX)
        self.producer.init_transactions(CALL_SECONDS_MAX)
        self.consumer.subscribe([self.source])
        fed = time.monotonic()
        while not self.stopping:
            signal.alarm(BATCH_SECONDS_MAX)
            batch = [each for each in self.consumer.consume(BATCH, 0.2) if usable(each)]
            if batch:
                self.process(batch)
                fed = time.monotonic()
            elif time.monotonic() - fed > IDLE_SECONDS_MAX:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, self.situation()))
        signal.alarm(BATCH_SECONDS_MAX)
        self.consumer.close()

    def situation(self) -> str:
        """Where it is in what it was given to read, and where that ends."""
        told = []
        for each in self.consumer.position(self.consumer.assignment()):
            end = self.consumer.get_watermark_offsets(each, CALL_SECONDS_MAX / 3)[1]
            told.append(f"at {each.offset} of {end} in {each.topic}-{each.partition}")
        return f"nothing came for {IDLE_SECONDS_MAX} s: {', '.join(told) or 'no partitions'}"

    def process(self, batch: list[Message]) -> None:
        """One transaction: the outputs, and how far the inputs are done."""
        self.producer.begin_transaction()
        try:
            for message in batch:
                value = b"done " + (message.value() or b"")
                self.producer.send(self.sink, place_of(message).partition, value)
            self.producer.send_offsets(
                ends_of(batch),
                self.group,
                self.consumer.consumer_group_metadata(),
                CALL_SECONDS_MAX,
            )
            self.commit()
        except KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                raise
            print(f"{self.name} aborts: {words_of(problem)}", file=sys.stderr)
            self.producer.abort_transaction(CALL_SECONDS_MAX)
            self.rewind()

    def commit(self) -> None:
        """Commit, and ask again if the answer did not come in time."""
        while True:
            try:
                self.producer.commit_transaction(CALL_SECONDS_MAX)
                return
            except KafkaException as problem:
                if not problem.args[0].retriable():
                    raise

    def rewind(self) -> None:
        """What was aborted is read once more."""
        for each in self.consumer.committed(self.consumer.assignment(), CALL_SECONDS_MAX):
            if each.offset < 0:
                each.offset = 0
            self.consumer.seek(each)


def membership(identity: str) -> dict[str, Any]:
    """How to be a member: by name in a classic group, without one in a group of the new protocol.

    There a name stays taken until the session of a killed member has ended, and its next life would
    be refused.
    """
    if os.environ.get("GROUP_PROTOCOL") == "consumer":
        return {"group.protocol": "consumer"}
    return {
        "group.instance.id": identity,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": 500,
    }


def usable(message: Message) -> bool:
    """Whether it is a record; a broken connection is none, and repairs itself.

    A member that was fenced hears of it once, by an error whose code alone says that it is fatal,
    and reads nothing from then on.
    """
    error = message.error()
    if error is not None and (error.fatal() or error.code() == KafkaError._FATAL):
        raise KafkaException(error)
    return error is None


def words_of(problem: KafkaException) -> str:
    error: KafkaError = problem.args[0]
    return f"{error.name()} {error.str()}"


def ends_of(batch: list[Message]) -> list[TopicPartition]:
    ends = {place_of(message): offset_of(message) + 1 for message in batch}
    return [TopicPartition(place.topic, place.partition, end) for place, end in ends.items()]


def main(words: list[str]) -> int:
    worker = Worker(words)

    def stop(*_: object) -> None:
        worker.stopping = True

    signal.signal(signal.SIGTERM, stop)
    try:
        worker.run()
    except KafkaException as problem:
        print(f"{worker.name} cannot go on: {words_of(problem)}", file=sys.stderr)
        return CANNOT_GO_ON
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

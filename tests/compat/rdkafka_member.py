"""A member of a group in a process of its own, which a test can kill: librdkafka underneath.

Told in arguments: its name, a topic, and settings as name=value. It tells in JSON lines what it was
assigned, what it had to give up, what it consumed and which commits were acknowledged; it leaves
in peace when its stdin ends.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

BATCH = 50


class Member:
    """One consumer and its account of what it does."""

    def __init__(self, name: str, topic: str, settings: dict[str, str]) -> None:
        self._name = name
        self._cooperative = (
            "cooperative" in settings.get("partition.assignment.strategy", "")
            or settings.get("group.protocol") == "consumer"
        )
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def tell(self, event: str, **facts: Any) -> None:
        line = {"at": time.monotonic(), "member": self._name, "event": event, **facts}
        print(json.dumps(line), flush=True)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        found = consumer.committed(partitions, timeout=30) if partitions else []
        committed = {it.partition: it.offset for it in found}
        self.tell("assigned", partitions=[it.partition for it in partitions], committed=committed)
        if self._cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.tell("revoked", partitions=[it.partition for it in partitions])
        if self._cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.tell("lost", partitions=[it.partition for it in partitions])

    def run(self, ended: threading.Event) -> None:
        """Consume and commit until told to end."""
        while not ended.is_set():
            messages = [it for it in self._consumer.consume(BATCH, 0.1) if it.error() is None]
            if messages:
                self._take(messages)
        self._consumer.close()
        self.tell("closed")

    def _take(self, messages: list[Message]) -> None:
        self.tell("consumed", values=[int(it.value() or b"") for it in messages])
        offsets = {it.partition(): it.offset() + 1 for it in messages}
        topic = messages[0].topic()
        assert topic is not None
        try:
            self._consumer.commit(
                offsets=[TopicPartition(topic, at, offset) for at, offset in offsets.items()],
                asynchronous=False,
            )
        except KafkaException as refused:
            # A commit may come too late for its generation: the next owner reads again.
            self.tell("refused", why=refused.args[0].name())
        else:
            self.tell("committed", offsets=offsets)


def main() -> None:
    """Consume until stdin ends."""
    name, topic, *settings = sys.argv[1:]
    member = Member(name, topic, dict(it.split("=", 1) for it in settings))
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
    member.run(ended)


def _wait_for_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    main()

"""Progress where Kafka's tools look for it: committed to the pipeline's group.

Spark keeps offsets in its checkpoint and needs no group. Ours is told for those who watch: what
it says has no influence on where the pipeline goes on.
"""

from __future__ import annotations

import time
from typing import Any

from penstock.pipeline.problem import Problem
from penstock.pipeline.running.clients import client_settings
from penstock.pipeline.running.reach import nobody_there
from penstock.pipeline.running.status import Offsets
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.sources import TopicSource

FORGET_SECONDS_MAX = 10
NOT_RESET = "Nothing was reset."
KEEP = "Start the broker, or leave the group alone: --keep-group."
LAST_WAIT_SECONDS = 5.0
"""How long the end of a run waits for its last commit."""


class Group:
    """Commits offsets to the pipeline's group, without being a member of it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._client: Any = None
        self._committed: dict[str, dict[int, int]] = {}
        self._under_way: dict[str, dict[int, int]] | None = None
        self.trouble = ""
        """Why the last commit failed."""

    def commit(self, offsets: Offsets) -> None:
        """Commit what is new of these; what cannot be committed now is tried again next time."""
        if self._client is not None:
            self._client.poll(0)
        if self._under_way is not None or offsets == self._committed or not offsets:
            return
        from confluent_kafka import TopicPartition

        if self._client is None:
            self._client = self._connect()
        self._under_way = {topic: dict(each) for topic, each in offsets.items()}
        places = [
            TopicPartition(topic, number, offset)
            for topic, partitions in offsets.items()
            for number, offset in partitions.items()
        ]
        self._client.commit(offsets=places, asynchronous=True)

    def close(self, offsets: Offsets) -> None:
        """Commit for the last time, as long as it does not take too long."""
        deadline = time.monotonic() + LAST_WAIT_SECONDS
        while offsets and offsets != self._committed and time.monotonic() < deadline:
            self.commit(offsets)
            if self._client is not None:
                self._client.poll(0.05)
        if self._client is not None:
            self._client.close()

    def _connect(self) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                **client_settings(self._pipeline),
                "group.id": self._pipeline.group,
                "enable.auto.commit": False,
                "on_commit": self._answered,
            }
        )

    def _answered(self, error: object, places: list[Any]) -> None:
        told, self._under_way = self._under_way, None
        refused = error or next((each.error for each in places or () if each.error), None)
        self.trouble = str(refused) if refused else ""
        if not refused and told is not None:
            self._committed = told


def forget_group(pipeline: Pipeline) -> None:
    """Delete the group, if there is one."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    if missing := nobody_there(pipeline):
        raise Problem(missing.what, f"{NOT_RESET} {KEEP}", pipeline.place)
    admin = AdminClient(client_settings(pipeline))
    (future,) = admin.delete_consumer_groups(
        [pipeline.group], request_timeout=FORGET_SECONDS_MAX
    ).values()
    try:
        future.result(FORGET_SECONDS_MAX + 1)
    except (KafkaException, TimeoutError) as refusal:
        error = refusal.args[0] if refusal.args else None
        if isinstance(error, KafkaError) and error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return
        raise Problem(
            f"the group {pipeline.group} on {pipeline.bootstrap} could not be deleted: "
            f"{error.str() if isinstance(error, KafkaError) else 'no broker answered'}",
            f"{NOT_RESET} {KEEP}",
            pipeline.place,
        ) from None


def reads_topics(pipeline: Pipeline) -> bool:
    """Whether there are offsets to commit at all."""
    return any(isinstance(each, TopicSource) for each in pipeline.sources.values())

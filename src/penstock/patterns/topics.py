"""The topics beside the ones that are worked on: where retries wait, and where dead letters go.

A Penstock server keeps a message until its time by itself, so one retry topic is enough:
`retry.<group>.<topic>`, with `penstock.delivery.delay.enable=true`. On another server there is one
for each wait, `retry.<group>.<topic>.<wait>` (`60s`, `1500ms`): all messages in it wait equally
long, so the first in line is always the first that is due.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
)

from penstock.model.config.own import DELAY_ENABLE, DELAY_MAX_MS

CALL_SECONDS_MAX = 30.0
NAME_LENGTH_MAX = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
STEPS_MAX = 16
RETENTION = "retention.ms"
WEEK_MS = 7 * 86_400_000


class NotReady(Exception):
    """The topics are not as the worker needs them; the message says what to do."""


class Step(NamedTuple):
    """A retry topic of one wait, or of any wait (None) where the server keeps messages itself."""

    topic: str
    wait: float | None


class Plan(NamedTuple):
    """Which topics to read, and where the messages of each wait for their next try."""

    subscribe: list[str]
    retries: Mapping[str, Sequence[Step]]
    dead_letter_partitions: int = 1

    def step(self, topic: str, wait: float) -> Step:
        """Where a message waits so long, or as nearly so as there is a topic for.

        What somebody else wrote to a retry topic may name any topic, or none.
        """
        steps = self.retries.get(topic) or next(iter(self.retries.values()))
        return min(steps, key=lambda each: abs((each.wait or wait) - wait))

    def is_retry(self, topic: str) -> bool:
        """Whether it is a topic in which messages wait."""
        return any(topic == step.topic for steps in self.retries.values() for step in steps)


def retry_topic(group: str, topic: str, wait: float | None = None) -> str:
    """The name of the topic where the messages of `topic` wait for their next try by `group`."""
    name = f"retry.{group}.{topic}"
    if wait is not None:
        millis = round(wait * 1000)
        name += f".{millis // 1000}s" if millis % 1000 == 0 else f".{millis}ms"
    if len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        raise NotReady(
            f"{name!r} would be the retry topic, and is no name for a topic: use a group.id of at"
            f" most {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-' together with the topic"
        )
    return name


class Topics:
    """Looks at the topics of a server, and makes those that are missing."""

    def __init__(self, settings: Mapping[str, Any], *, create: bool) -> None:
        self._admin = AdminClient(dict(settings))
        self._create = create

    def prepare(
        self, group: str, topics: Sequence[str], waits: Sequence[float], dead_letter: str | None
    ) -> Plan:
        """Find or make what a worker needs; `waits` are those to be spent in retry topics."""
        counts = self._partitions(topics)
        if missing := [topic for topic in topics if topic not in counts]:
            raise NotReady(f"no topic {', '.join(missing)} on the server: create it first")
        dead = 1
        if dead_letter is not None:
            # Until somebody has looked at them.
            dead = self._ensure(dead_letter, max(counts.values()), {RETENTION: "-1"})
        if not waits:
            return Plan(list(topics), {}, dead)
        delays = self._settings(topics[0]).get(DELAY_ENABLE) is not None
        prepare = self._delayed if delays else self._stepped
        retries = {topic: prepare(group, topic, counts[topic], waits) for topic in topics}
        names = [step.topic for steps in retries.values() for step in steps]
        return Plan([*topics, *names], retries, dead)

    def _delayed(
        self, group: str, topic: str, partitions: int, waits: Sequence[float]
    ) -> list[Step]:
        name = retry_topic(group, topic)
        self._ensure(name, partitions, {DELAY_ENABLE: "true", RETENTION: _longer_than(waits)})
        settings = self._settings(name)
        if settings.get(DELAY_ENABLE) != "true":
            raise NotReady(f"topic {name} is there, but without {DELAY_ENABLE}=true: set it")
        longest = int(settings.get(DELAY_MAX_MS) or -1)
        if 0 < longest < max(waits) * 1000:
            raise NotReady(
                f"topic {name} has {DELAY_MAX_MS}={longest}, less than the longest wait of"
                f" {max(waits):g} s: raise it, or wait less"
            )
        return [Step(name, None)]

    def _stepped(
        self, group: str, topic: str, partitions: int, waits: Sequence[float]
    ) -> list[Step]:
        if len(waits) > STEPS_MAX:
            raise NotReady(
                f"{len(waits)} different waits would need as many topics on this server, and"
                f" {STEPS_MAX} are enough: use Backoff.of(...), or a greater multiplier"
            )
        steps = [Step(retry_topic(group, topic, wait), wait) for wait in sorted(waits)]
        for step in steps:
            self._ensure(step.topic, partitions, {RETENTION: _longer_than(waits)})
        return steps

    def _ensure(self, topic: str, partitions: int, config: dict[str, str]) -> int:
        """Find or make a topic; how many partitions it has."""
        if there := self._partitions([topic]):
            return there[topic]
        told = "".join(f" and {key}={value}" for key, value in config.items())
        advice = f"create topic {topic} with {partitions} partitions{told}"
        if not self._create:
            raise NotReady(f"{advice}, or let the worker do it with create_topics=True")
        made = self._admin.create_topics([NewTopic(topic, partitions, config=config)])
        try:
            made[topic].result(CALL_SECONDS_MAX)
        except KafkaException as problem:
            # Another worker of the group may have been quicker.
            if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise NotReady(f"{advice}: the server said {problem.args[0].str()}") from problem
            return self._partitions([topic]).get(topic, partitions)
        return partitions

    def _partitions(self, topics: Iterable[str]) -> dict[str, int]:
        try:
            # All topics, because asking for one by its name may create it.
            known = self._admin.list_topics(timeout=CALL_SECONDS_MAX).topics
        except KafkaException as problem:
            raise NotReady(f"the server does not answer: {problem.args[0].str()}") from problem
        return {each: len(known[each].partitions) for each in topics if each in known}

    def _settings(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            (found,) = self._admin.describe_configs([resource]).values()
            return {key: entry.value for key, entry in found.result(CALL_SECONDS_MAX).items()}
        except KafkaException as problem:
            raise NotReady(
                f"the settings of topic {topic} cannot be read: {problem.args[0].str()}; they tell"
                " how retries can wait: allow DescribeConfigs on it"
            ) from problem


def _longer_than(waits: Sequence[float]) -> str:
    """How long retry topics keep messages: a week longer than they wait."""
    return str(WEEK_MS + round(max(waits) * 1000))

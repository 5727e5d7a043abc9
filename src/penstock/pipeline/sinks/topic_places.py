"""Topics that a sink writes to: which are there, and making those that are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

ANSWER_SECONDS_MAX = 30.0
MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
CLUSTER_DEFAULT = -1


def topics_there(
    clients: Mapping[str, Any], names: Iterable[str], seconds: float = ANSWER_SECONDS_MAX
) -> dict[str, int]:
    """The topics of these that exist, with the number of their partitions."""
    # To ask for a topic would create it otherwise, and not as the file wants it.
    admin = AdminClient({**clients, "allow.auto.create.topics": False})
    found = {}
    for name in names:
        # By name, not all: a user may not see the rest, and there may be very many of them.
        told = admin.list_topics(name, seconds).topics[name]
        if told.error is None:
            found[name] = len(told.partitions)
        elif told.error.code() not in MISSING:
            raise KafkaException(told.error)
    return found


def create_topic(clients: Mapping[str, Any], name: str, partitions: int = 0) -> int:
    """Create a topic, if nobody was faster; the number of its partitions."""
    admin = AdminClient(dict(clients))
    wanted = NewTopic(
        name,
        num_partitions=partitions or CLUSTER_DEFAULT,
        replication_factor=CLUSTER_DEFAULT,
    )
    try:
        admin.create_topics([wanted])[name].result(ANSWER_SECONDS_MAX)
    except KafkaException as refusal:
        if refusal.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    return topics_there(clients, [name]).get(name, partitions or 1)

"""Finding dead-letter topics, and what lies in them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from penstock.cli.dlq_choice import Choice
from penstock.cli.dlq_letter import Letter
from penstock.cli.failure import Failure
from penstock.cli.positions import Kind, Position
from penstock.cli.progress import Progress
from penstock.cli.reading import Reader
from penstock.cli.wire_cluster import Cluster
from penstock.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

ENABLED = "errors.deadletterqueue.group.enable"
TOPIC_RESOURCE = 2


class Access(NamedTuple):
    """How to reach a cluster."""

    bootstrap: str
    settings: list[str] | None
    wait: float

    def cluster(self) -> Cluster:
        return Cluster(*self)


def topics_of(cluster: Cluster, pattern: str | None) -> list[str]:
    """Topics that hold dead letters, by their settings or by their name."""
    there = sorted({place.topic for place in cluster.leaders(None)})
    if pattern in there:
        return [pattern]
    likely = [name for name in there if name.startswith("dlq.") or name.endswith(".dlq")]
    found = sorted({*likely, *_enabled(cluster, there)})
    return [name for name in found if pattern is None or fnmatch.fnmatchcase(name, pattern)]


def _enabled(cluster: Cluster, topics: list[str]) -> list[str]:
    """The topics that may take dead letters of groups; brokers before Kafka 4.4 know of none."""
    resources = [
        DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=[ENABLED]
        )
        for name in topics
    ]
    request = DescribeConfigsRequest(resources=resources)
    told = cluster.anyone.ask(request, DescribeConfigsResponse)
    return [
        result.resource_name
        for result in told.results
        if any(one.name == ENABLED and one.value == "true" for one in result.configs)
    ]


def partitions_of(cluster: Cluster, topic: str) -> list[int]:
    """The partitions of a topic; `Failure` if it is not there."""
    found = sorted(place.partition for place in cluster.leaders([topic]))
    if not found:
        raise Failure(
            f"there is no topic {topic}", "`penstock dlq list` shows the dead-letter topics"
        )
    return found


@contextmanager
def letters(access: Access, topic: str, start: Position) -> Iterator[Iterator[list[Letter]]]:
    """The letters of a topic from a position to the end as it is now, in batches."""
    with Reader(*access) as reader:
        reader.seek(topic, None, start, None, follow=False)
        total = sum((span.end or 0) - span.start for span in reader.spans.values())
        with Progress(f"reading {topic}", total, size=False) as progress:

            def batches() -> Iterator[list[Letter]]:
                for batch in reader.batches():
                    yield [Letter.of(message) for message in batch]
                    progress.advance(len(batch))

            yield batches()


def start_of(choice: Choice) -> Position:
    """Where reading may begin. A letter is not written before its record is given up."""
    return Position(Kind.TIME, choice.since_ms) if choice.since_ms else Position(Kind.START)

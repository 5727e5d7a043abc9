"""Open transactions as partitions see them, and which of them nobody will ever end.

A partition keeps readers of committed data behind the first open transaction. It learns of the end
by a marker from the transaction's coordinator; where the coordinator does not know, or no longer
knows, that the partition takes part, the marker never comes, and the transaction hangs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from penstock.cli import txns
from penstock.cli.durations import age_text
from penstock.cli.output import Table
from penstock.cli.places import Place, Wanted, by_leader, by_topic
from penstock.cli.wire_cluster import Cluster, check
from penstock.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)

ASKED_MAX = 500
"""How many partitions one request asks about."""


class Open(NamedTuple):
    """A transaction that a partition has seen begin and not end."""

    place: Place
    producer: int
    epoch: int
    coordinator_epoch: int
    start: int
    """The offset of its first record."""
    written_ms: int
    """When its last record was written."""


class Hanging(NamedTuple):
    """A transaction that nobody will end, and the transactional id if its producer has one yet."""

    open: Open
    id: str | None


def open_transactions(cluster: Cluster, places: Iterable[Place]) -> list[Open]:
    """The open transactions in some partitions, by partition and place."""
    wanted = list(places)
    return cluster.patiently(lambda: _open_once(cluster, wanted))


def _open_once(cluster: Cluster, places: list[Place]) -> list[Open]:
    leaders = cluster.leaders({place.topic for place in places})
    found: list[Open] = []
    for leader, led in by_leader(leaders, places).items():
        for start in range(0, len(led), ASKED_MAX):
            topics = [
                TopicRequest(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(led[start : start + ASKED_MAX]).items()
            ]
            request = DescribeProducersRequest(topics=topics)
            found += _read(cluster.node(leader).ask(request, DescribeProducersResponse))
    return sorted(found)


def _read(told: DescribeProducersResponse) -> Iterable[Open]:
    for topic in told.topics:
        for partition in topic.partitions:
            place = Place(topic.name, partition.partition_index)
            what = f"the producers of {place} are not known"
            check(partition.error_code, what, partition.error_message)
            for one in partition.active_producers:
                if one.current_txn_start_offset >= 0:
                    yield Open(
                        place,
                        one.producer_id,
                        one.producer_epoch,
                        one.coordinator_epoch,
                        one.current_txn_start_offset,
                        one.last_timestamp,
                    )


def hanging(cluster: Cluster, wanted: Sequence[Wanted], older_than_ms: int) -> list[Hanging]:
    """Transactions that hang and were last written to so long ago, in all topics for none."""
    places = cluster.places(wanted) if wanted else list(cluster.leaders(None))
    before_ms = time.time() * 1000 - older_than_ms
    candidates = [one for one in open_transactions(cluster, places) if one.written_ms <= before_ms]
    if not candidates:
        return []
    held = {one["producer"]: one for one in txns.listing(cluster, (), _producers(candidates), None)}
    stuck = [one for one in candidates if not _will_end(one, held.get(one.producer))]
    # A transaction that ended between the two questions is no longer open: a coordinator forgets
    # a partition only when its marker is written.
    still = set(open_transactions(cluster, {one.place for one in stuck}))
    return [
        Hanging(one, held[one.producer]["id"] if one.producer in held else None)
        for one in stuck
        if one in still
    ]


def _producers(found: Iterable[Open]) -> list[int]:
    return sorted({one.producer for one in found})


def _will_end(one: Open, transaction: dict[str, Any] | None) -> bool:
    """Whether the coordinator is to send this partition a marker."""
    if transaction is None or transaction["state"] not in txns.UNFINISHED:
        return False
    return one.place.partition in transaction["partitions"].get(one.place.topic, ())


def document(one: Hanging) -> dict[str, object]:
    """A hanging transaction, for programs."""
    return {
        **one.open.place._asdict(),
        "producer": one.open.producer,
        "epoch": one.open.epoch,
        "coordinator_epoch": one.open.coordinator_epoch,
        "start": one.open.start,
        "written_ms": one.open.written_ms,
        "id": one.id,
    }


def table(found: Iterable[Hanging]) -> Table:
    """Hanging transactions, for people."""
    now_ms = time.time() * 1000
    rows = [
        [
            *one.open.place,
            one.open.start,
            one.open.producer,
            one.open.epoch,
            age_text(max(0, int(now_ms - one.open.written_ms) // 1000)),
            one.id,
        ]
        for one in found
    ]
    return Table(("topic", "partition", "start", "producer", "epoch", "silent for", "id"), rows)

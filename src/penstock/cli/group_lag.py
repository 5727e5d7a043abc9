"""How far a group is behind: in records, and in the age of the first record that it has not read.

The age comes from the record itself, by a small fetch where the group has committed. One fetch
asks for many partitions; a batch that is cut short tells the time in its head, which is that of
its first record. A place that was seen once is not fetched again while the group stands there.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from typing import Any

from penstock.cli import group_offsets
from penstock.cli.durations import age_text
from penstock.cli.output import Table
from penstock.cli.places import Place, by_leader, by_topic
from penstock.cli.wire_cluster import Cluster
from penstock.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from penstock.records.batch import HEAD_SIZE, MAGIC, batch_end, read_head
from penstock.records.record import iterate

Document = dict[str, Any]

FETCH_SIZE_MAX = 8 * 1024 * 1024
PARTITION_SIZE_MAX = 64 * 1024
FETCH_WAIT_MS_MAX = 100
_FETCH_VERSION_MAX = 12  # the last that calls topics by their names

MEASURED = ("topic", "partition", "committed", "end", "lag", "seconds", "member")


class Gauge:
    """Measures one group, again and again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._times: dict[tuple[Place, int], int | None] = {}

    def measure(self, described: Document, *, ages: bool = True) -> list[Document]:
        """A line for each partition that the group has committed in or was assigned."""
        owners = {
            Place(topic, number): str(member["member"])
            for member in described["members"]
            for topic, numbers in (member["assignment"] or {}).items()
            for number in numbers
        }
        committed = group_offsets.committed(self._cluster, str(described["group"]))
        places = sorted({*committed, *owners})
        ends = group_offsets.offsets_at(self._cluster, places, group_offsets.LATEST)
        behind = {
            place: offset for place, offset in committed.items() if offset < ends.get(place, offset)
        }
        times = self._unread_times(self._readable(behind)) if ages else {}
        now_ms = time.time() * 1000
        return [
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": committed.get(place),
                "end": ends.get(place),
                "lag": lag_of(committed.get(place), ends.get(place)),
                "seconds": seconds_of(
                    lag_of(committed.get(place), ends.get(place)), times.get(place), now_ms
                ),
                "member": owners.get(place),
            }
            for place in places
        ]

    def _readable(self, behind: Mapping[Place, int]) -> dict[Place, int]:
        """Where reading can begin: retention may have taken away what was not read in time."""
        starts = group_offsets.offsets_at(self._cluster, behind, group_offsets.EARLIEST)
        return {place: max(at, starts.get(place, at)) for place, at in behind.items()}

    def _unread_times(self, behind: Mapping[Place, int]) -> dict[Place, int | None]:
        known = {spot: self._times[spot] for spot in behind.items() if spot in self._times}
        unknown = {place: at for place, at in behind.items() if (place, at) not in known}
        self._times = known | {
            (place, unknown[place]): found
            for place, found in _fetch_times(self._cluster, unknown).items()
        }
        return {place: found for (place, _), found in self._times.items()}


def lag_of(committed: int | None, end: int | None) -> int | None:
    """Offsets between where a group stands and the end; none are missing where it is beyond."""
    return None if committed is None or end is None else max(0, end - committed)


def seconds_of(lag: int | None, time_ms: int | None, now_ms: float) -> float | None:
    """The age of the first unread record; 0 where all is read, None where it is not known."""
    if lag == 0:
        return 0.0
    if lag is None or time_ms is None:
        return None
    return round(max(0.0, now_ms - time_ms) / 1000, 1)


def totals(measured: list[Document]) -> Document:
    """All partitions together: the sum of the lags, and the age of the oldest unread record."""
    ages = [one["seconds"] for one in measured if one["seconds"] is not None]
    return {
        "partitions": len(measured),
        "lag": sum(one["lag"] or 0 for one in measured),
        "seconds": max(ages, default=None),
    }


def document(described: Document, measured: list[Document]) -> Document:
    """The lag of a group, for programs."""
    return {
        "group": described["group"],
        "state": described["state"],
        "total": totals(measured),
        "partitions": measured,
    }


def tables(lagging: Document) -> list[Table]:
    """The lag of a group, for people."""
    total = lagging["total"]
    head = ("group", "state", "partitions", "lag", "behind")
    line = [lagging["group"], lagging["state"], total["partitions"], total["lag"]]
    return [Table(head, [[*line, age_text(total["seconds"])]]), rows(lagging["partitions"])]


def rows(measured: list[Document]) -> Table:
    """A line for each partition; ages as far as they were measured."""
    columns = [column for column in MEASURED if all(column in one for one in measured)]
    headings = ["behind" if column == "seconds" else column for column in columns]
    shown = [{**one, "seconds": age_text(one.get("seconds"))} for one in measured]
    return Table(headings, [[one[column] for column in columns] for one in shown])


def _fetch_times(cluster: Cluster, places: Mapping[Place, int]) -> dict[Place, int | None]:
    """The time of the first record at or after each place; None where it cannot be told."""
    if not places:
        return {}
    found: dict[Place, int | None] = dict.fromkeys(places)
    leaders = cluster.leaders({place.topic for place in places})
    for leader, led in by_leader(leaders, places).items():
        left = led
        while left:
            answered = _fetch_some(cluster, leader, {place: places[place] for place in left})
            if not answered:
                break  # what nobody has an answer for now is told as unknown
            found |= answered
            left = [place for place in left if place not in answered]
    return found


def _fetch_some(
    cluster: Cluster, leader: int, places: Mapping[Place, int]
) -> dict[Place, int | None]:
    """Times of as many places as fit into one answer; the first with bytes is always among them."""
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(
                    partition=number,
                    fetch_offset=places[Place(topic, number)],
                    partition_max_bytes=PARTITION_SIZE_MAX,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(places).items()
    ]
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS_MAX,
        min_bytes=1,
        max_bytes=FETCH_SIZE_MAX,
        session_epoch=-1,
        topics=topics,
    )
    told = cluster.node(leader).ask(request, FetchResponse, _FETCH_VERSION_MAX)
    answered: dict[Place, int | None] = {}
    for topic in told.responses:
        for one in topic.partitions:
            place = Place(topic.topic, one.partition_index)
            if one.error_code:
                answered[place] = None
            elif isinstance(one.records, memoryview) and len(one.records) >= HEAD_SIZE:
                answered[place] = first_time(one.records, places[place])
    return answered


def first_time(data: memoryview, offset: int) -> int | None:
    """The time of the first record at or after `offset`; None if there is none that users see."""
    at = 0
    while len(data) - at >= HEAD_SIZE:
        head = read_head(data, at)
        end = batch_end(data, at)
        if head.magic != MAGIC or end <= at:
            return None
        if head.is_control or head.end_offset <= offset or head.count == 0:
            at = end
            continue
        if head.is_append_time:
            return head.max_timestamp
        # Compaction may have put another time where that of the first record was.
        base_time = head.base_timestamp if head.delete_horizon is None else None
        if end > len(data) or (base_time is not None and head.base_offset >= offset):
            return base_time
        try:
            for record in iterate(data, at, head=head):
                if record.offset >= offset:
                    return record.timestamp
        except (ValueError, struct.error):
            return base_time
        at = end
    return None

"""Delayed records as a cluster tells of them, and cancelling them."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import NamedTuple

from penstock.cli.failure import USAGE, Failure
from penstock.cli.output import Table
from penstock.cli.places import Place
from penstock.cli.positions import UNIT_MS
from penstock.cli.wire_cluster import Cluster, Refusal, check
from penstock.model.config.own import DELAY_ENABLE
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.cancel_delayed_records import (
    CancelDelayedPartition,
    CancelDelayedRecord,
    CancelDelayedRecordsRequest,
    CancelDelayedRecordsResponse,
    CancelDelayedTopic,
)
from penstock.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.protocol.generated.describe_delayed_records import (
    DelayedPartition,
    DelayedPartitionRequest,
    DelayedTopicRequest,
    DescribeDelayedRecordsRequest,
    DescribeDelayedRecordsResponse,
)

TOPIC_RESOURCE = 2
PAGE_MAX = 1_000
"""Records that are asked for, and cancelled, at once."""
TIME_MAX = 2**63 - 1
UNKNOWN_TIME = -1
"""Of a record that only its offset is known of."""

_SPAN = re.compile(r"(\d{1,12})(ms|s|m|h|d)")
_FORMS = "a time such as 2026-11-15T09:30, a span from now such as 90s or 2h, or @MILLISECONDS"


class Delayed(NamedTuple):
    """A record that waits: in the order in which records are due."""

    deliver_at: int
    place: Place
    offset: int
    key: bytes | None = None
    size: int = 0


class Window(NamedTuple):
    """Between when records have to be due."""

    start: int = 0
    end: int = TIME_MAX


def time_of(text: str, now_ms: int, option: str) -> int:
    """Milliseconds since 1970 of a time to come, as a user writes it; `Failure` if it is none."""
    word = text.strip()
    if re.fullmatch(r"@\d{1,19}", word):
        return min(int(word[1:]), TIME_MAX)
    if span := _SPAN.fullmatch(word.lower()):
        return min(now_ms + int(span[1]) * UNIT_MS[span[2]], TIME_MAX)
    try:
        return max(round(datetime.fromisoformat(word).timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        raise Failure(f"{option} {text!r} is not a time", f"expected {_FORMS}", USAGE) from None


def refuse_others(cluster: Cluster, topic: str) -> None:
    """`Failure` if the cluster is not of the kind that has delayed records."""
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic)]
    )
    told = cluster.anyone.ask(request, DescribeConfigsResponse).results[0]
    if told.error_code == ErrorCode.NONE and DELAY_ENABLE not in {one.name for one in told.configs}:
        raise Failure(
            "this cluster has no delayed records", "Penstock has them, and Apache Kafka has not"
        )


def find(cluster: Cluster, places: Sequence[Place], window: Window, limit: int) -> list[Delayed]:
    """The first records of some partitions that are due within a time."""
    size = min(limit, PAGE_MAX)
    pages = [_in_partition(cluster, place, window, size) for place in places]
    return list(islice(heapq.merge(*pages), limit))


def count(cluster: Cluster, places: Iterable[Place]) -> int:
    """How many wait in all."""
    return sum(_page(cluster, place, Window(), (-1, -1), 0).total for place in places)


def _in_partition(
    cluster: Cluster, place: Place, window: Window, page_size: int
) -> Iterator[Delayed]:
    after = (-1, -1)
    while True:
        page = _page(cluster, place, window, after, page_size)
        for one in page.records:
            yield Delayed(one.deliver_at, place, one.offset, one.key, one.value_size)
            after = (one.deliver_at, one.offset)
        if not page.has_more or not page.records:
            return


def _page(
    cluster: Cluster, place: Place, window: Window, after: tuple[int, int], size: int
) -> DelayedPartition:
    request = DescribeDelayedRecordsRequest(
        topics=[
            DelayedTopicRequest(
                name=place.topic,
                partitions=[
                    DelayedPartitionRequest(
                        partition_index=place.partition,
                        after_time=after[0],
                        after_offset=after[1],
                    )
                ],
            )
        ],
        from_time=window.start,
        before_time=window.end,
        records_max=size,
    )

    def once() -> DelayedPartition:
        told = cluster.node(_leader(cluster, place)).ask(request, DescribeDelayedRecordsResponse)
        page = told.topics[0].partitions[0]
        check(page.error_code, f"what waits in {place} is not known", page.error_message)
        return page

    return cluster.patiently(once)


def _leader(cluster: Cluster, place: Place) -> int:
    leader = cluster.leaders([place.topic]).get(place, -1)
    if leader < 0:
        raise Refusal(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody leads {place}")
    return leader


def cancel(cluster: Cluster, found: Iterable[Delayed], wait: float) -> list[Delayed]:
    """Cancel records; those of them that still waited."""
    cancelled: list[Delayed] = []
    for place, group in groupby(sorted(found, key=_by_place), key=_by_place):
        records = list(group)
        for at in range(0, len(records), PAGE_MAX):
            cancelled += _cancel_some(cluster, place, records[at : at + PAGE_MAX], wait)
    return sorted(cancelled)


def _by_place(one: Delayed) -> Place:
    return one.place


def _cancel_some(
    cluster: Cluster, place: Place, records: list[Delayed], wait: float
) -> list[Delayed]:
    asked = [CancelDelayedRecord(offset=one.offset, deliver_at=one.deliver_at) for one in records]
    request = CancelDelayedRecordsRequest(
        topics=[
            CancelDelayedTopic(
                name=place.topic,
                partitions=[CancelDelayedPartition(partition_index=place.partition, records=asked)],
            )
        ],
        timeout_ms=round(wait * 1000),
    )

    def once() -> set[int]:
        told = cluster.node(_leader(cluster, place)).ask(request, CancelDelayedRecordsResponse)
        answer = told.topics[0].partitions[0]
        check(answer.error_code, f"{place}: not all are cancelled", answer.error_message)
        return set(answer.offsets)

    done = cluster.patiently(once)
    return [one for one in records if one.offset in done]


def document(one: Delayed) -> dict[str, object]:
    """A delayed record, for programs."""
    return {
        **one.place._asdict(),
        "offset": one.offset,
        "deliver_at": None if one.deliver_at < 0 else one.deliver_at,
        "key": None if one.key is None else one.key.decode(errors="backslashreplace"),
        "value_bytes": one.size,
    }


def table(found: Iterable[Delayed]) -> Table:
    """Delayed records, for people."""
    rows = [
        [
            time_text(one.deliver_at),
            one.place.partition,
            one.offset,
            None if one.key is None else one.key.decode(errors="backslashreplace"),
            one.size,
        ]
        for one in found
    ]
    return Table(("deliver at", "partition", "offset", "key", "value bytes"), rows)


def time_text(time_ms: int) -> str | None:
    """A time as people here read it; None where it is not known."""
    if time_ms < 0:
        return None
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(" ", "milliseconds")

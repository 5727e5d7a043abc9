"""Ending transactions by force: one in a partition with a marker, or all of an id by fencing it."""

from __future__ import annotations

from penstock.cli import txn_producers, txns
from penstock.cli.failure import USAGE, Failure
from penstock.cli.places import Place, Wanted
from penstock.cli.txn_producers import Open
from penstock.cli.wire_cluster import TRANSACTION, Cluster, check
from penstock.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from penstock.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def check_choice(
    name: str | None,
    topic: str | None,
    partition: int | None,
    start: int | None,
    producer: int | None,
) -> None:
    """`Failure` unless the options name one transaction, and in one way."""
    if name is not None and (topic, partition, start, producer) == (None,) * 4:
        return
    if name is None and topic is not None and partition is not None:
        if (start is None) != (producer is None):
            return
        raise Failure(
            f"which transaction in {topic}-{partition}?",
            "choose --start-offset or --producer; `penstock txn hanging` shows both",
            USAGE,
        )
    raise Failure(
        "which transaction?" if name is None else "--id goes with no other choice",
        "choose --id ID, or --topic and --partition with --start-offset or --producer",
        USAGE,
    )


def find(cluster: Cluster, place: Place, start: int | None, producer: int | None) -> Open:
    """The open transaction in a partition that begins at `start` or is that producer's."""
    there = cluster.places([Wanted(place.topic, [place.partition])])
    for one in txn_producers.open_transactions(cluster, there):
        if start in (None, one.start) and producer in (None, one.producer):
            return one
    which = f"producer {producer}" if start is None else f"offset {start}"
    raise Failure(
        f"{place} has no open transaction of {which}"
        if start is None
        else f"{place} has no open transaction that begins at {which}",
        f"`penstock txn hanging --topic {place.topic} --older-than 0s` shows what hangs there",
    )


def mark_aborted(cluster: Cluster, one: Open) -> None:
    """Write the marker that the coordinator never will."""
    marker = WritableTxnMarker(
        producer_id=one.producer,
        producer_epoch=one.epoch,
        transaction_result=False,
        topics=[
            WritableTxnMarkerTopic(name=one.place.topic, partition_indexes=[one.place.partition])
        ],
        # A partition that never had a marker knows no epoch, and takes any from 0 on.
        coordinator_epoch=max(0, one.coordinator_epoch),
    )

    def once() -> None:
        leader = cluster.leaders([one.place.topic]).get(one.place, -1)
        told = cluster.node(leader).ask(
            WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
        )
        for answer in told.markers:
            for topic in answer.topics:
                for partition in topic.partitions:
                    what = f"the transaction in {one.place} was not aborted"
                    check(partition.error_code, what)

    cluster.patiently(once)


def fence(cluster: Cluster, name: str) -> tuple[int, int]:
    """Take an id from its producer, which aborts its transaction; the new producer id and epoch.

    The cluster would make an id that it does not know, so one that is not there is refused first.
    The id keeps its timeout.
    """
    timeout_ms = int(txns.describe(cluster, name)["timeout_ms"])

    def once() -> tuple[int, int]:
        node = cluster.node(cluster.coordinator(TRANSACTION, name).id)
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        told = node.ask(request, InitProducerIdResponse)
        check(told.error_code, f"transactional id {name} was not fenced")
        return told.producer_id, told.producer_epoch

    return cluster.patiently(once)

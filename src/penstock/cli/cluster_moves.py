"""Carrying out a plan: replicas are moved, with a throttle if asked for, and watched until done.

The controller moves; this asks, waits and tells how far it is. Interrupted, nothing is lost: the
moves go on, and the same command later finds what is left to do.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.cli.cluster_plan import Layout, Plan
from penstock.cli.output import Table
from penstock.cli.places import Place
from penstock.cli.progress import Progress
from penstock.cli.wire_cluster import Cluster, check
from penstock.model.errors import ErrorCode
from penstock.protocol.generated import alter_partition_reassignments as moving
from penstock.protocol.generated import describe_log_dirs as directories
from penstock.protocol.generated import elect_leaders as elections
from penstock.protocol.generated import incremental_alter_configs as configs
from penstock.protocol.generated import list_partition_reassignments as moves
from penstock.protocol.generated.metadata import MetadataRequest, MetadataResponse

LOOK_SECONDS = 0.5
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
PREFERRED = 0
_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")

_NOTHING_TO_DO = (
    ErrorCode.NONE,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
)


def layout(cluster: Cluster) -> Layout:
    """Where everything lies now."""
    found = cluster.anyone.ask(MetadataRequest(topics=None), MetadataResponse)
    racks = {broker.node_id: broker.rack for broker in found.brokers}
    replicas = {
        Place(topic.name, partition.partition_index): tuple(partition.replica_nodes)
        for topic in found.topics
        if topic.name is not None
        for partition in topic.partitions
    }
    return Layout(racks, dict(sorted(replicas.items())))


def sizes(cluster: Cluster) -> dict[Place, int]:
    """How many bytes one replica of each partition has, the largest of them."""
    found: dict[Place, int] = defaultdict(int)
    request = directories.DescribeLogDirsRequest(topics=None)
    for _, told in cluster.everyone(request, directories.DescribeLogDirsResponse):
        for directory in told.results:
            for topic in directory.topics:
                for partition in topic.partitions:
                    place = Place(topic.name, partition.partition_index)
                    found[place] = max(found[place], partition.partition_size)
    return found


class Shown(NamedTuple):
    """A plan as people and programs see it."""

    document: list[dict[str, object]]
    bytes: int
    replicas: int

    @property
    def table(self) -> Table:
        columns = ("topic", "partition", "from", "to", "bytes")
        return Table(columns, [[row[column] for column in columns] for row in self.document])


def shown(before: Layout, plan: Plan, size: Mapping[Place, int]) -> Shown:
    """What would move, partition by partition, and how much in all."""
    rows: list[dict[str, object]] = []
    total = count = 0
    for place, new in plan.items():
        arriving = [broker for broker in new if broker not in before.replicas[place]]
        moved = size.get(place, 0) * len(arriving)
        total += moved
        count += len(arriving)
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "from": list(before.replicas[place]),
                "to": list(new),
                "bytes": moved,
            }
        )
    return Shown(rows, total, count)


def carry_out(cluster: Cluster, before: Layout, plan: Plan, throttle: int | None) -> None:
    """Move, wait until all is moved, and let the first of each list lead."""
    if throttle is not None:
        _throttle(cluster, before, plan, throttle)
    try:
        _ask(cluster, plan)
        _watch(cluster, plan)
    finally:
        if throttle is not None:
            _release(cluster, before, plan)
    _elect(cluster, plan)


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for place in places:
        grouped[place.topic].append(place.partition)
    return grouped


def _ask(cluster: Cluster, plan: Plan) -> None:
    request = moving.AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=False,
        topics=[
            moving.ReassignableTopic(
                name=topic,
                partitions=[
                    moving.ReassignablePartition(
                        partition_index=index, replicas=list(plan[Place(topic, index)])
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in _by_topic(plan).items()
        ],
    )
    told = cluster.anyone.ask(request, moving.AlterPartitionReassignmentsResponse)
    check(told.error_code, "nothing was moved", told.error_message)
    for topic in told.responses:
        for one in topic.partitions:
            what = f"{topic.name}-{one.partition_index} was not moved"
            check(one.error_code, what, one.error_message)


def _watch(cluster: Cluster, plan: Plan) -> None:
    with Progress("moving replicas", len(plan), size=False) as progress:
        while left := _under_way(cluster, plan):
            progress.advance(len(plan) - left - progress.done)
            time.sleep(LOOK_SECONDS)
        progress.advance(len(plan) - progress.done)


def _under_way(cluster: Cluster, plan: Plan) -> int:
    told = cluster.anyone.ask(
        moves.ListPartitionReassignmentsRequest(topics=None),
        moves.ListPartitionReassignmentsResponse,
    )
    check(told.error_code, "what is being moved cannot be listed", told.error_message)
    return sum(
        Place(topic.name, one.partition_index) in plan
        for topic in told.topics
        for one in topic.partitions
    )


def _elect(cluster: Cluster, plan: Plan) -> None:
    request = elections.ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=[
            elections.TopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(plan).items()
        ],
    )
    told = cluster.anyone.ask(request, elections.ElectLeadersResponse)
    check(told.error_code, "leaders could not be elected")
    for topic in told.replica_election_results:
        for one in topic.partition_result:
            if one.error_code not in _NOTHING_TO_DO:
                what = f"no leader was elected for {topic.topic}-{one.partition_id}"
                check(one.error_code, what, one.error_message)


# -- throttles ------------------------------------------------------------------------------------


def _throttle(cluster: Cluster, before: Layout, plan: Plan, rate: int) -> None:
    changes = [(BROKER, str(broker), key, str(rate)) for broker in before.racks for key in _RATES]
    for topic, indexes in _by_topic(plan).items():
        places = [Place(topic, index) for index in indexes]
        leading = [f"{p.partition}:{b}" for p in places for b in before.replicas[p]]
        arriving = [
            f"{p.partition}:{b}" for p in places for b in plan[p] if b not in before.replicas[p]
        ]
        changes += [
            (TOPIC, topic, _REPLICAS[0], ",".join(leading)),
            (TOPIC, topic, _REPLICAS[1], ",".join(arriving)),
        ]
    _configure(cluster, changes, SET)


def _release(cluster: Cluster, before: Layout, plan: Plan) -> None:
    changes = [(BROKER, str(broker), key, "") for broker in before.racks for key in _RATES]
    changes += [(TOPIC, topic, key, "") for topic in _by_topic(plan) for key in _REPLICAS]
    _configure(cluster, changes, DELETE)


def _configure(
    cluster: Cluster, changes: Iterable[tuple[int, str, str, str]], operation: int
) -> None:
    grouped: dict[tuple[int, str], list[configs.AlterableConfig]] = defaultdict(list)
    for kind, name, key, value in changes:
        grouped[kind, name].append(
            configs.AlterableConfig(name=key, config_operation=operation, value=value or None)
        )
    for (kind, name), each in grouped.items():
        # A broker is configured by itself, a topic by anyone.
        wire = cluster.node(int(name)) if kind == BROKER else cluster.anyone
        resource = configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=each
        )
        request = configs.IncrementalAlterConfigsRequest(resources=[resource])
        told = wire.ask(request, configs.IncrementalAlterConfigsResponse)
        for one in told.responses:
            check(one.error_code, f"{one.resource_name} was not configured", one.error_message)

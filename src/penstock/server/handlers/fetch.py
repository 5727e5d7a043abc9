"""Fetch, versions 4 to 18.

Sessions from version 7, leader epochs from 9, topic ids from 13, replica state from 15. A fetch
that finds fewer than `min_bytes` parks until more is committed or `max_wait_ms` has passed. A
follower's fetch tells how far it is, reads what is not committed yet, and parks until there is
more of that. A consumer may be sent to a replica in its own rack, and may read from any replica,
from version 11. The first batch comes whole even if it is larger than every limit, or its reader
would never move. Answers carry slices of files: the listener sends them without reading them.

Consumers need a right to read each topic, whenever they fetch from it: a session keeps partitions,
not rights. Who speaks as a follower needs to be one of the cluster, before anything that it says
counts: without that right it opens no session, moves no watermark, and hears nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.fetch import FetchResponse
from penstock.server.fetch_reading import Reading, refuse_all
from penstock.server.fetch_sessions import NO_FOLLOWER
from penstock.server.follower_reading import FollowerReading
from penstock.server.parked_fetches import ParkedFetch, ParkedFollower
from penstock.server.rights import may_cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.fetch import FetchRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: FetchRequest
) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer at once if there is enough to say, or park."""
    state = request.replica_state
    replica_id = request.replica_id if state is None else state.replica_id
    follower = NO_FOLLOWER
    if replica_id >= 0:
        if not may_cluster(broker, call, Operation.CLUSTER_ACTION):
            return refuse_all(call, request)
        follower = replica_id
        call.account = None  # quotas are for clients
    gate = call.connection.gate
    owner = None if gate is None else gate.principal
    now = broker.clock.monotonic()
    plan = broker.fetch_sessions.begin(request, call.version, now, follower, owner)
    if isinstance(plan, ErrorCode):
        return FetchResponse(error_code=plan)
    reading: Reading
    if follower == NO_FOLLOWER:
        reading = Reading(broker, call, request, plan, replica_id)
    else:
        epoch = -1 if state is None else state.replica_epoch
        reading = FollowerReading(broker, call, request, plan, replica_id, epoch)
    reading.collect()
    if reading.urgent or reading.size >= request.min_bytes or request.max_wait_ms <= 0:
        return reading.response()
    limits = broker.limits
    if broker.parked_fetches >= limits.parked_fetches_max:
        return reading.response()  # an empty answer is legal, an endless queue is not
    if isinstance(reading, FollowerReading):
        return ParkedFollower(reading, request.min_bytes, request.max_wait_ms).answer
    if broker.parked_partitions + len(plan.by_key) > limits.parked_partitions_max:
        return reading.response()
    return ParkedFetch(reading, request.min_bytes, request.max_wait_ms).answer

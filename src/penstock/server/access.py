"""Which right each API needs, and who asks for it: one row for every API that Kafka knows.

Where one right covers a whole request, it is asked for here, before the handler is called: through
`guarded`, which wraps every handler in the tables of `server/apis.py`, so there is no way around.
Everywhere else handlers ask, for each resource that a request names (`server/rights.py`); the row
says for what. An API without a row cannot be served: the tables would not be built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.api_keys import ApiKey
from penstock.server.rights import may_cluster

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call

    Handler = Callable[[Broker, Call, Any], Any]


class Access(NamedTuple):
    """What it takes to be answered."""

    of_cluster: tuple[Operation, ...] = ()
    """Asked for by `guarded`: any one of these, on the cluster. None if handlers ask."""
    by_handler: str = ""
    """What the handler asks for, in words."""
    for_all: str = ""
    """Why everybody who is let in may have an answer, if that is so."""


def _cluster(*operations: Operation) -> Access:
    return Access(of_cluster=operations)


def _handler(rights: str) -> Access:
    return Access(by_handler=rights)


def _all(why: str) -> Access:
    return Access(for_all=why)


_ACT = _cluster(Operation.CLUSTER_ACTION)
_ALTER = _cluster(Operation.ALTER)
_DESCRIBE = _cluster(Operation.DESCRIBE)

_ROWS = {
    # -- records
    ApiKey.PRODUCE: _handler("WRITE on each topic; WRITE on the transactional id"),
    ApiKey.FETCH: _handler("READ on each topic; of replicas CLUSTER_ACTION on the cluster"),
    ApiKey.LIST_OFFSETS: _handler("DESCRIBE on each topic"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _handler(
        "DESCRIBE on each topic, or CLUSTER_ACTION on the cluster"
    ),
    ApiKey.DELETE_RECORDS: _handler("DELETE on each topic"),
    ApiKey.DESCRIBE_PRODUCERS: _handler("READ on each topic"),
    ApiKey.DESCRIBE_DELAYED_RECORDS: _handler("READ on each topic"),
    ApiKey.CANCEL_DELAYED_RECORDS: _handler("WRITE on each topic"),
    # -- what there is
    ApiKey.API_VERSIONS: _all("a client must know which versions it may speak"),
    ApiKey.METADATA: _handler(
        "DESCRIBE on each topic; to create one CREATE on it or on the cluster; brokers are told "
        "to all"
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _handler("DESCRIBE on each topic"),
    ApiKey.DESCRIBE_CLUSTER: _all("a client must know whom to ask; rights are told by DESCRIBE"),
    ApiKey.FIND_COORDINATOR: _handler(
        "DESCRIBE on each group or transactional id; for share state CLUSTER_ACTION on the cluster"
    ),
    # -- groups
    ApiKey.JOIN_GROUP: _handler("READ on the group"),
    ApiKey.SYNC_GROUP: _handler("READ on the group"),
    ApiKey.HEARTBEAT: _handler("READ on the group"),
    ApiKey.LEAVE_GROUP: _handler("READ on the group"),
    ApiKey.OFFSET_COMMIT: _handler("READ on the group and on each topic"),
    ApiKey.OFFSET_FETCH: _handler("DESCRIBE on each group and topic"),
    ApiKey.OFFSET_DELETE: _handler("DELETE on the group, READ on each topic"),
    ApiKey.LIST_GROUPS: _handler("DESCRIBE on the cluster or on each group"),
    ApiKey.DESCRIBE_GROUPS: _handler("DESCRIBE on each group"),
    ApiKey.DELETE_GROUPS: _handler("DELETE on each group"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _handler("READ on the group, DESCRIBE on each topic"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _handler("DESCRIBE on each group and all its topics"),
    ApiKey.SHARE_GROUP_HEARTBEAT: _handler("READ on the group, DESCRIBE on each topic"),
    ApiKey.SHARE_GROUP_DESCRIBE: _handler("DESCRIBE on each group and all its topics"),
    ApiKey.SHARE_FETCH: _handler("READ on the group and on each topic"),
    ApiKey.SHARE_ACKNOWLEDGE: _handler("READ on the group and on each topic"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _handler("DESCRIBE on each group and topic"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _handler("READ on the group and on each topic"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _handler("DELETE on the group, READ on each topic"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: _handler(
        "READ on the group, DESCRIBE on each topic; CREATE for internal ones"
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: _handler("DESCRIBE on each group and all its topics"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _ACT,
    ApiKey.READ_SHARE_GROUP_STATE: _ACT,
    ApiKey.WRITE_SHARE_GROUP_STATE: _ACT,
    ApiKey.DELETE_SHARE_GROUP_STATE: _ACT,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _ACT,
    # -- transactions
    ApiKey.INIT_PRODUCER_ID: _handler(
        "WRITE on the transactional id, and TWO_PHASE_COMMIT on it if asked for; without one "
        "IDEMPOTENT_WRITE on the cluster, or WRITE on any topic"
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _handler(
        "WRITE on the transactional id and each topic; of brokers, from version 4 on, "
        "CLUSTER_ACTION on the cluster"
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: _handler("WRITE on the transactional id, READ on the group"),
    ApiKey.TXN_OFFSET_COMMIT: _handler(
        "WRITE on the transactional id, READ on the group and on each topic"
    ),
    ApiKey.END_TXN: _handler("WRITE on the transactional id"),
    ApiKey.WRITE_TXN_MARKERS: _cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
    ApiKey.DESCRIBE_TRANSACTIONS: _handler("DESCRIBE on each transactional id and topic"),
    ApiKey.LIST_TRANSACTIONS: _handler("DESCRIBE on each transactional id"),
    # -- topics and where they lie
    ApiKey.CREATE_TOPICS: _handler(
        "CREATE on the cluster or on each topic; to see its configuration DESCRIBE_CONFIGS"
    ),
    ApiKey.DELETE_TOPICS: _handler("DELETE on the cluster or on each topic"),
    ApiKey.CREATE_PARTITIONS: _handler("ALTER on each topic"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE,
    ApiKey.ELECT_LEADERS: _ALTER,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _ALTER,
    ApiKey.DESCRIBE_LOG_DIRS: _DESCRIBE,
    # -- configuration
    ApiKey.DESCRIBE_CONFIGS: _handler(
        "DESCRIBE_CONFIGS on each topic or group, and on the cluster for all else"
    ),
    ApiKey.ALTER_CONFIGS: _handler(
        "ALTER_CONFIGS on each topic or group, and on the cluster for all else"
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _handler(
        "ALTER_CONFIGS on each topic or group, and on the cluster for all else"
    ),
    ApiKey.LIST_CONFIG_RESOURCES: _cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _cluster(Operation.ALTER_CONFIGS),
    ApiKey.UPDATE_FEATURES: _ALTER,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _all("clients are asked for their metrics"),
    ApiKey.PUSH_TELEMETRY: _all("clients are asked for their metrics"),
    # -- proof and rights
    ApiKey.SASL_HANDSHAKE: _all("who comes has to prove who they are"),
    ApiKey.SASL_AUTHENTICATE: _all("who comes has to prove who they are"),
    ApiKey.DESCRIBE_ACLS: _DESCRIBE,
    ApiKey.CREATE_ACLS: _ALTER,
    ApiKey.DELETE_ACLS: _ALTER,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER,
    ApiKey.CREATE_DELEGATION_TOKEN: _handler(
        "nothing for oneself; CREATE_TOKENS on the user that it is made for"
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: _handler("to be its owner or one of its renewers"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _handler("to be its owner or one of its renewers"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _handler(
        "to be its owner or one of its renewers, or DESCRIBE on the token, or DESCRIBE_TOKENS on "
        "its owner"
    ),
    # -- nodes
    ApiKey.DESCRIBE_QUORUM: _DESCRIBE,
    ApiKey.ADD_RAFT_VOTER: _ALTER,
    ApiKey.REMOVE_RAFT_VOTER: _ALTER,
    ApiKey.UNREGISTER_BROKER: _ALTER,
    ApiKey.VOTE: _ACT,
    ApiKey.BEGIN_QUORUM_EPOCH: _ACT,
    ApiKey.END_QUORUM_EPOCH: _ACT,
    ApiKey.FETCH_SNAPSHOT: _ACT,
    ApiKey.UPDATE_RAFT_VOTER: _ACT,
    ApiKey.ENVELOPE: _ACT,
    ApiKey.BROKER_REGISTRATION: _ACT,
    ApiKey.BROKER_HEARTBEAT: _ACT,
    ApiKey.CONTROLLER_REGISTRATION: _ACT,
    ApiKey.ALTER_PARTITION: _ACT,
    ApiKey.ALLOCATE_PRODUCER_IDS: _ACT,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _ACT,
}

ACCESS = {int(key): access for key, access in _ROWS.items()}
"""On the listeners of brokers."""

CONTROLLER_ACCESS = {
    **ACCESS,
    int(ApiKey.FETCH): _ACT,  # of the metadata log
    int(ApiKey.DESCRIBE_CLUSTER): _ALTER,  # clients have no business here, operators do
}
"""On the listeners of controllers."""


def guarded(handler: Handler, access: Access) -> Handler:
    """The handler behind its right, if one covers the whole request."""
    if not access.of_cluster:
        return handler
    *others, last = access.of_cluster

    def ask_first(broker: Broker, call: Call, request: Any) -> Any:
        if (
            broker.authorizer is None
            or any(may_cluster(broker, call, each, tells=False) for each in others)
            or may_cluster(broker, call, last)
        ):
            return handler(broker, call, request)
        from penstock.server.refusals import refusal  # most nodes never need it

        return refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, call.version)

    return ask_first

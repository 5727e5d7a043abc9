"""Which function answers which API. An API that is not in this table is not advertised."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.registry import API
from penstock.server.access import ACCESS, CONTROLLER_ACCESS, Access, guarded
from penstock.server.dispatch import Handler

_BUILT = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DELETE_RECORDS,
    ApiKey.DESCRIBE_DELAYED_RECORDS,
    ApiKey.CANCEL_DELAYED_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_TOPICS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ELECT_LEADERS,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.FIND_COORDINATOR,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_DELETE,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
)


_QUORUM = (
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.UPDATE_RAFT_VOTER,
)
"""What members of the quorum say to each other."""

_OF_CONTROLLERS = (
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.ALTER_PARTITION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.CONTROLLER_REGISTRATION,
)
"""What brokers and controllers ask of the active controller."""


def _lazy(name: str, access: Access) -> Callable[[], Handler]:
    def load() -> Handler:
        return guarded(import_module(f"penstock.server.handlers.{name}").handle, access)

    return load


MODULES = {int(key): key.name.lower() for key in _BUILT}
"""The module of handlers that answers an API on a broker's listener."""

CONTROLLER_MODULES = {
    **{key: name for key, name in MODULES.items() if "controller" in API[key].listeners},
    **{int(key): key.name.lower() for key in _QUORUM},
    **{int(key): "controller_request" for key in _OF_CONTROLLERS},
    int(ApiKey.FETCH): "fetch_metadata",
    int(ApiKey.ENVELOPE): "envelope",
}
"""The same on a controller's listener: its Fetch is for those who copy the metadata log."""

FORWARDED = frozenset(key for key in MODULES if "controller" in API[key].listeners) - {
    int(key)
    for key in (
        ApiKey.FETCH,
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    )
}
"""What a broker may pass on to the controller for its clients."""

HANDLERS = {key: _lazy(name, ACCESS[key]) for key, name in MODULES.items()}
CONTROLLER_HANDLERS = {
    key: _lazy(name, CONTROLLER_ACCESS[key]) for key, name in CONTROLLER_MODULES.items()
}

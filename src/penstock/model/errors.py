"""Kafka's error codes: every number that may stand in an `error_code` field."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """What a broker answers when it refuses, or fails at, a request or a part of one."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133

    @property
    def retriable(self) -> bool:
        """Whether a client may send the same request again and hope."""
        return self.value in _RETRIABLE

    @property
    def message(self) -> str:
        """One sentence for a person: what was wrong."""
        return _MESSAGES[self.value]


# The codes that Kafka's clients retry without asking the application.
# fmt: off
_RETRIABLE = frozenset((
    2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88,
    89, 100, 103, 106, 122, 123, 133,
))
# fmt: on

_MESSAGES = {
    -1: "The broker failed in a way it did not expect; its log says more.",
    0: "No error.",
    1: "The offset lies outside the partition's log.",
    2: "A batch is damaged: its checksum, size, or a missing key in a compacted topic.",
    3: "No such topic or partition here.",
    4: "The fetch size is not acceptable.",
    5: "The partition has no leader at the moment.",
    6: "This broker neither leads nor, where that would do, follows the partition.",
    7: "The request was not completed in time.",
    8: "That broker cannot be reached.",
    9: "This broker holds no usable replica of the partition.",
    10: "The message is larger than the topic or the broker accepts.",
    11: "The controller epoch is out of date.",
    12: "The metadata string beside the committed offset is too long.",
    13: "The connection was lost before an answer came.",
    14: "The coordinator is still loading its state.",
    15: "No coordinator can be reached at the moment.",
    16: "This broker does not coordinate that group or transactional id.",
    17: "The topic name is not valid, or the operation is not allowed on that topic.",
    18: "The batch is larger than a log segment.",
    19: "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written.",
    20: "Written, but by now fewer replicas are in sync than min.insync.replicas asks for.",
    21: "acks must be 0, 1 or -1 (all).",
    22: "The generation is not the group's current one.",
    23: "The member shares no protocol with the group, or offered none.",
    24: "The group id is not valid.",
    25: "The coordinator does not know this member id.",
    26: "The session timeout is outside the range that the broker allows.",
    27: "The group is rebalancing; join again.",
    28: "The committed offset data is too large.",
    29: "Not authorized for this topic.",
    30: "Not authorized for this group.",
    31: "Not authorized for this cluster operation.",
    32: "The timestamp is outside the range that the topic accepts.",
    33: "That SASL mechanism is not enabled here.",
    34: "The request does not fit the state of the SASL exchange.",
    35: "This version of the API is not supported.",
    36: "A topic of that name exists already.",
    37: "The number of partitions is not valid.",
    38: "The replication factor is below one or above the number of usable brokers.",
    39: "The replica assignment is not valid.",
    40: "The configuration is not valid.",
    41: "This node is not the active controller.",
    42: "The request is malformed, or contradicts itself.",
    43: "The message format does not support this request.",
    44: "A policy of the cluster forbids this.",
    45: "The sequence number does not follow the last one of this producer.",
    46: "A batch with this sequence number was written before.",
    47: "The producer's epoch is older than the one the broker knows.",
    48: "The transaction is not in a state that allows this.",
    49: "The producer id does not belong to that transactional id.",
    50: "The transaction timeout exceeds transaction.max.timeout.ms.",
    51: "Another operation on the same transaction is still under way.",
    52: "A newer transaction coordinator has taken over.",
    53: "Not authorized for this transactional id.",
    54: "No authorizer is configured.",
    55: "Not attempted, because another part of the request failed.",
    56: "The disk that holds the partition failed.",
    57: "No such log directory on this broker.",
    58: "The credentials were refused.",
    59: "The broker holds no state for this producer id.",
    60: "The partition is being reassigned already.",
    61: "Delegation tokens are not enabled.",
    62: "No such delegation token.",
    63: "The principal is neither owner nor renewer of the token.",
    64: "Delegation tokens cannot be handled over this kind of connection.",
    65: "Not authorized for this delegation token.",
    66: "The delegation token has expired.",
    67: "That type of principal is not supported.",
    68: "The group still has members.",
    69: "No such group.",
    70: "No such fetch session; start a new one.",
    71: "The fetch session is at another epoch; start a new one.",
    72: "The leader has no listener of the name this request came in through.",
    73: "Deleting topics is switched off.",
    74: "The leader epoch is older than the broker's.",
    75: "The leader epoch is newer than the broker's.",
    76: "The client's version cannot read the topic's compression type.",
    77: "The broker epoch is out of date.",
    78: "The new leader does not know a safe offset yet.",
    79: "Join again with the member id that came with this answer.",
    80: "The preferred leader is not available.",
    81: "The group is full.",
    82: "Another member has taken over this group.instance.id.",
    83: "No eligible leader is available.",
    84: "The partition already has the leader that was asked for.",
    85: "The partition is not being reassigned.",
    86: "The group is subscribed to that topic.",
    87: "The broker refused a record's content.",
    88: "A transaction that commits these offsets is still open.",
    89: "A quota is used up for now.",
    90: "A newer producer has taken over this transactional id.",
    91: "No such resource.",
    92: "The same resource appears twice.",
    93: "The credential does not meet the rules.",
    94: "Sender or receiver is not in the set of voters.",
    95: "The version to update to is not valid.",
    96: "The features could not be updated.",
    97: "The forwarded principal could not be read.",
    98: "No such snapshot.",
    99: "The position lies outside the snapshot.",
    100: "No topic with that id here.",
    101: "Another live broker has this id.",
    102: "No broker of that id is registered.",
    103: "The partition's log belongs to a topic with another id.",
    104: "The cluster id is not this cluster's.",
    105: "No such transactional id.",
    106: "The fetch session mixes topic names and topic ids.",
    107: "A replica in the proposed set may not be in sync.",
    108: "The change was made, and it elected another leader.",
    109: "The offset is in tiered storage now.",
    110: "The coordinator fenced this member epoch; give up all partitions and join again.",
    111: "Another member still uses this instance id.",
    112: "The group does not support that assignor.",
    113: "The member epoch is out of date; heartbeat first, then retry.",
    114: "That request belongs on another kind of endpoint.",
    115: "That type of endpoint is not supported.",
    116: "No controller of that id.",
    117: "The telemetry subscription is unknown or out of date.",
    118: "The pushed telemetry is too large.",
    119: "The controller refused the registration.",
    120: "The transaction failed; abort it to go on with the same transactional id.",
    121: "The record is not in a state that allows this acknowledgement.",
    122: "No such share session.",
    123: "The share session is at another epoch.",
    124: "The state epoch of the share group is out of date.",
    125: "The voter key is not that of the node that received it.",
    126: "That voter is in the set already.",
    127: "That voter is not in the set.",
    128: "That is not a valid regular expression.",
    129: "The client's metadata is out of date; bootstrap again.",
    130: "The topology is not valid.",
    131: "The topology epoch is not valid.",
    132: "The topology epoch is out of date.",
    133: "There are too many share sessions.",
}

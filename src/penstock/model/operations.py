"""Kafka's numbers for what a principal may do, and the sets of them that answers carry."""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """An operation as ACLs and `authorized_operations` fields name it."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def bits(*operations: Operation) -> int:
    """A set of operations as the bit field that responses carry."""
    return sum(1 << operation for operation in operations)


NOT_ASKED = -(2**31)
"""What an answer holds when the client did not ask for its rights."""

TOPIC_OPERATIONS = bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)

CLUSTER_OPERATIONS = bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)

"""What a member is told about its application besides its tasks; the numbers are Kafka's."""

from __future__ import annotations

from enum import IntEnum

from penstock.protocol.generated.streams_group_heartbeat import Status


class StatusCode(IntEnum):
    """What the matter is."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


def status(code: StatusCode, detail: str) -> Status:
    """As an answer carries it."""
    return Status(status_code=code, status_detail=detail)

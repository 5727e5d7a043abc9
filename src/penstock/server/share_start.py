"""Where a share group begins in a partition that it never read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.config.rules import duration_ms
from penstock.model.errors import ErrorCode
from penstock.records.compression import DecompressionFailed
from penstock.records.varint import InvalidRecord

if TYPE_CHECKING:
    from penstock.replica.partition import Partition

_BY_DURATION = "by_duration:"


def offset_to_begin_at(partition: Partition, reset: str, now: int) -> int | ErrorCode:
    """As `share.auto.offset.reset` says. `latest` is the end of what is committed, transactions or
    not, and so is a duration within which nothing was written."""
    if reset == "earliest":
        return partition.log.start
    # A leader that was elected a moment ago may not know yet how much is committed.
    end = max(partition.high_watermark, partition.leader_start)
    if not reset.startswith(_BY_DURATION):
        return end
    since = max(0, now - (duration_ms(reset.removeprefix(_BY_DURATION)) or 0))
    try:
        found = partition.log.find_timestamp(since)
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    except (InvalidRecord, DecompressionFailed):
        return ErrorCode.CORRUPT_MESSAGE
    return end if found is None else min(found.offset, end)

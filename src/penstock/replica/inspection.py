"""Looking inside a batch, where a topic's configuration asks for more than its head."""

from __future__ import annotations

from penstock.model.errors import ErrorCode
from penstock.records.batch import BatchHead, patch_append_time, read_head
from penstock.records.deep import RecordRules, looks_inside, rules_for, validate
from penstock.records.deep import Refused as RecordsRefused
from penstock.replica.outcomes import Refused
from penstock.storage.log_config import LogConfig


def inspect(
    records: memoryview, head: BatchHead, rules: RecordRules, size_max: int, now: int
) -> tuple[memoryview, BatchHead, int] | Refused:
    """What the topic's configuration makes of a batch, or why it does not take it."""
    if looks_inside(rules, head, now):
        outcome = validate(records, 0, head, rules, now)
        if isinstance(outcome, RecordsRefused):
            return Refused(outcome.code, outcome.message, tuple(outcome.faults))
        if outcome.batch is not None:
            records = memoryview(outcome.batch)
            head = read_head(records)
            if len(records) > size_max:
                return Refused(ErrorCode.MESSAGE_TOO_LARGE)
    if not rules.append_time:
        return records, head, -1
    patch_append_time(records, 0, len(records), now)
    return records, read_head(records), now


def rules_of(config: LogConfig) -> RecordRules:
    """What a topic asks of its records."""
    return rules_for(
        compacted=config.cleanup_compact,
        compression=config.compression_type,
        levels={
            "gzip": config.gzip_level,
            "lz4": config.lz4_level,
            "zstd": config.zstd_level,
        },
        append_time=config.timestamp_append,
        before_max_ms=config.timestamp_before_max_ms,
        after_max_ms=config.timestamp_after_max_ms,
    )


def by_head_only(rules: RecordRules) -> bool:
    """Whether a batch's head is all that the topic ever looks at, but for a clock gone wrong."""
    return rules.codec < 0 and not rules.always and not rules.append_time

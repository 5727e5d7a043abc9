"""Feature levels: what a cluster has agreed to understand, and the record versions that follow.

`metadata.version` decides which version of a metadata record may be written, so that the oldest
node of a cluster that is being upgraded can still read the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"


class LevelRange(NamedTuple):
    """The levels of one feature that a node can work with, both ends included."""

    first: int
    last: int

    def holds(self, level: int) -> bool:
        return self.first <= level <= self.last


NO_LEVELS = LevelRange(0, 0)
"""What a node supports of a feature that it does not know: only its absence."""

SUPPORTED: Mapping[str, LevelRange] = {
    METADATA_VERSION: LevelRange(7, 30),
    KRAFT_VERSION: LevelRange(0, 1),
    ELR_VERSION: LevelRange(0, 1),
    GROUP_VERSION: LevelRange(0, 1),
    SHARE_VERSION: LevelRange(0, 1),
    STREAMS_VERSION: LevelRange(0, 1),
    TRANSACTION_VERSION: LevelRange(0, 2),
}
"""What this release of Penstock can work with; the same as Kafka 4.3."""

DEFAULT_LEVELS: Mapping[str, int] = {
    METADATA_VERSION: 30,
    ELR_VERSION: 1,
    GROUP_VERSION: 1,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""The finalized levels of a new cluster, in the order in which they are written."""

# The first metadata.version with each ability.
MIGRATION_FROM = 8
SCRAM_FROM = 11
METADATA_TRANSACTIONS_FROM = 13
DELEGATION_TOKENS_FROM = 14
CONTROLLER_REGISTRATION_FROM = 15
DIRECTORIES_FROM = 17
ELR_FROM = 23
CORDONED_FROM = 30

RELEASES: Mapping[int, str] = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
"""Each level of metadata.version by the name that Kafka's tools print."""

RECORDS_CHANGED = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""Levels that brought a new record or field: going back below one may lose metadata."""


_BEGINS_WITH: Mapping[str, tuple[int, int]] = {
    KRAFT_VERSION: (21, 1),
    TRANSACTION_VERSION: (24, 2),
    GROUP_VERSION: (22, 1),
    ELR_VERSION: (26, 1),
    SHARE_VERSION: (28, 1),
    STREAMS_VERSION: (29, 1),
}
"""From which metadata.version on a new cluster begins with a feature, and at which level."""


def levels_at(metadata_version: int) -> dict[str, int]:
    """The levels with which a new cluster of a metadata.version begins."""
    others = {
        name: level if metadata_version >= since else 0
        for name, (since, level) in _BEGINS_WITH.items()
    }
    return {METADATA_VERSION: metadata_version, **others}


def release_of(text: str) -> int | None:
    """The metadata.version of a release such as 4.1, 4.1.2 or 4.1-IV0; None if there is none."""
    wanted = ".".join(text.strip().split(".")[:2])
    named = [level for level, name in RELEASES.items() if wanted in (name, name.partition("-")[0])]
    return max(named, default=None)


def loses_metadata(current: int, wanted: int) -> bool:
    """Whether a downgrade of metadata.version crosses a level that changed the records."""
    return any(wanted < level <= current for level in RECORDS_CHANGED)


def partition_record_version(level: int) -> int:
    """The version of PartitionRecord and PartitionChangeRecord at a metadata.version."""
    if level >= ELR_FROM:
        return 2
    return 1 if level >= DIRECTORIES_FROM else 0


def register_broker_version(level: int) -> int:
    if level >= CORDONED_FROM:
        return 4
    if level >= DIRECTORIES_FROM:
        return 3
    return 2 if level >= MIGRATION_FROM else 1


def _registration_change_version(record: Any) -> int:
    # The lowest version that can say it: a reader of an older level may still be about.
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0


REGISTER_BROKER, PARTITION, PARTITION_CHANGE, REGISTRATION_CHANGE = 0, 3, 5, 17


def record_version(record: Any, level: int) -> int:
    """The version in which to write a metadata record when metadata.version is `level`."""
    key: int = record.API_KEY
    if key in (PARTITION, PARTITION_CHANGE):
        return partition_record_version(level)
    if key == REGISTER_BROKER:
        return register_broker_version(level)
    if key == REGISTRATION_CHANGE:
        return _registration_change_version(record)
    return 0

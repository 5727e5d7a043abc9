"""Formatting: what must lie in a directory before a node may start on it.

A directory is formatted once, for one cluster and one node, so that a node that was pointed at
the wrong or an empty disk refuses to start instead of voting with a blank memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from penstock.metadata.levels import DEFAULT_LEVELS, METADATA_VERSION
from penstock.protocol.generated.metadata_records import FeatureLevelRecord
from penstock.raft.snapshots import (
    BOOTSTRAP,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    write_snapshot,
)
from penstock.raft.voters import DYNAMIC_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.platform.disk import Disk
    from penstock.raft.voters import Voters

METADATA_DIRECTORY = "__cluster_metadata-0"


def feature_records(levels: Mapping[str, int] = DEFAULT_LEVELS) -> list[Any]:
    """Levels as records: metadata.version first, since it says how to read the others."""
    first = {METADATA_VERSION: levels[METADATA_VERSION]} if METADATA_VERSION in levels else {}
    return [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in {**first, **dict(sorted(levels.items()))}.items()
        if level
    ]


def write_bootstrap(
    disk: Disk,
    directory: str,
    now: int,
    levels: Mapping[str, int] = DEFAULT_LEVELS,
    voters: Voters | None = None,
) -> None:
    """Leave for the first leader what the cluster shall begin with.

    `voters` are the first ones of a dynamic quorum; static ones are in the configuration.
    """
    level = levels[METADATA_VERSION]
    data = encode_snapshot(feature_records(levels), level, 0, 0, now, None)
    disk.write_atomic(os.path.join(directory, BOOTSTRAP), data)
    if voters is not None and voters.kraft_version >= DYNAMIC_FROM:
        quorum = os.path.join(directory, METADATA_DIRECTORY)
        disk.mkdir(quorum)
        write_snapshot(
            disk, quorum, SnapshotId(0, 0), encode_snapshot([], level, 0, now, now, voters)
        )
        disk.sync_directory(directory)


def read_bootstrap(disk: Disk, directory: str) -> list[Any]:
    """What formatting left for the first leader; this release's levels if it left nothing."""
    path = os.path.join(directory, BOOTSTRAP)
    if not disk.exists(path):
        return feature_records()
    return decode_snapshot(disk.read_bytes(path)).records

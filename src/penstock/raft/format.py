"""Formatting: what must lie in a directory before a node may start on it.

A directory is formatted once, for one cluster and one node, so that a node that was pointed at
the wrong or an empty disk refuses to start instead of voting with a blank memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.metadata.levels import DEFAULT_LEVELS, KRAFT_VERSION, METADATA_VERSION
from penstock.model.ids import uuid_text
from penstock.protocol.generated.metadata_records import FeatureLevelRecord
from penstock.raft.snapshots import (
    BOOTSTRAP,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    write_snapshot,
)
from penstock.raft.voters import DYNAMIC_FROM
from penstock.storage.checkpoints import META_PROPERTIES, format_properties
from penstock.storage.log_directory import read_meta

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.platform.chance import Chance
    from penstock.platform.disk import Disk
    from penstock.protocol.generated.metadata_records import UserScramCredentialRecord
    from penstock.raft.voters import Voters

METADATA_DIRECTORY = "__cluster_metadata-0"


def feature_records(levels: Mapping[str, int] = DEFAULT_LEVELS) -> list[Any]:
    """Levels as records: metadata.version first, since it says how to read the others."""
    first = {METADATA_VERSION: levels[METADATA_VERSION]} if METADATA_VERSION in levels else {}
    return [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in {**first, **dict(sorted(levels.items()))}.items()
        # The quorum's own version stands in the quorum's own records.
        if level and name != KRAFT_VERSION
    ]


def write_bootstrap(
    disk: Disk,
    directory: str,
    now: int,
    levels: Mapping[str, int] = DEFAULT_LEVELS,
    voters: Voters | None = None,
    credentials: Sequence[UserScramCredentialRecord] = (),
) -> None:
    """Leave for the first leader what the cluster shall begin with.

    `voters` are the first ones of a dynamic quorum; static ones are in the configuration.
    `credentials` are those of the first users.
    """
    level = levels[METADATA_VERSION]
    data = encode_snapshot([*feature_records(levels), *credentials], level, 0, 0, now, None)
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


class NotFormatted(ValueError):
    """Nobody has said yet whose a directory is."""


def check_formatted(disk: Disk, directory: str) -> None:
    """NotFormatted unless a directory was made ready for some node."""
    if read_meta(disk, directory) is None:
        raise NotFormatted(
            f"{directory} is not formatted. If its disk is missing, mount it. If the node is new: "
            "penstock storage format -t CLUSTER_ID -c FILE (penstock storage random-uuid prints "
            "an id for a new cluster)"
        )


class CannotFormat(ValueError):
    """What was asked for cannot be; the message says why."""


class Identity(NamedTuple):
    """Whose the directories are to be, and what they are to begin with."""

    cluster_id: str
    node_id: int
    levels: Mapping[str, int] = DEFAULT_LEVELS
    voters: Voters | None = None
    """The first ones of a dynamic quorum, where this node is told of them."""
    credentials: Sequence[UserScramCredentialRecord] = ()
    """Of the first users: who logs in by SCRAM before anybody could add them."""


class Formatter:
    """Formats a node's directories as Kafka's own tool does."""

    def __init__(self, disk: Disk, directories: Sequence[str], metadata_directory: str) -> None:
        self._disk = disk
        self._metadata_directory = metadata_directory
        self.directories = list(dict.fromkeys(sorted((*directories, metadata_directory))))

    def unformatted(self, identity: Identity) -> list[str]:
        """What is still to be formatted; CannotFormat if a directory is somebody else's."""
        found = []
        for directory in self.directories:
            meta = read_meta(self._disk, directory)
            if meta is None:
                found.append(directory)
                continue
            for key, wanted in (
                ("cluster.id", identity.cluster_id),
                ("node.id", str(identity.node_id)),
            ):
                if meta.get(key, wanted) != wanted:
                    raise CannotFormat(
                        f"{directory} belongs to {key} {meta[key]}, and {wanted} was asked for"
                    )
        return found

    def kind(self, directory: str, identity: Identity) -> str:
        """What a directory is for, in a few words."""
        if directory != self._metadata_directory:
            return "data directory"
        if identity.voters is None:
            return "metadata directory"
        votes = identity.node_id in identity.voters.by_id
        return f"dynamic metadata {'voter ' if votes else ''}directory"

    def format(self, directory: str, identity: Identity, now: int, chance: Chance) -> None:
        """Make a directory ready. What says that it is comes last."""
        self._disk.mkdir(directory)
        holds_log = directory == self._metadata_directory
        voters = identity.voters if holds_log else None
        write_bootstrap(self._disk, directory, now, identity.levels, voters, identity.credentials)
        own = None if voters is None else voters.by_id.get(identity.node_id)
        properties = {
            "version": "1",
            "cluster.id": identity.cluster_id,
            "node.id": str(identity.node_id),
            "directory.id": uuid_text(own.directory if own is not None else chance.uuid()),
        }
        path = os.path.join(directory, META_PROPERTIES)
        self._disk.write_atomic(path, format_properties(properties).encode())
        self._disk.sync_directory(os.path.dirname(os.path.abspath(directory)))

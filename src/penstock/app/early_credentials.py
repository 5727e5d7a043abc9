"""Whom a controller believes before there is a leader: electing one takes logins, and what the
metadata says of users counts only once a leader has said up to where it is committed.

Until then a controller goes by all that its own log holds, or, if the cluster has never had a
leader, by the first users that formatting left.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from penstock.metadata.scram import ScramDelta, ScramImage
from penstock.protocol.generated.metadata_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from penstock.raft.batches import decode_records
from penstock.raft.format import read_bootstrap
from penstock.raft.snapshots import decode_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.metadata.image import MetadataImage
    from penstock.raft.driver import RaftDriver
    from penstock.raft.journal import Journal


def early_credentials(raft: RaftDriver, root: str) -> Callable[[MetadataImage], ScramImage | None]:
    """Asked at each login: the users to go by, or None once an image of the metadata can be.

    It reads the log of `raft` in the metadata directory `root`; to be called before the start.
    """
    journal = raft.journal
    delta = ScramDelta(ScramImage())
    known = _take(delta, _of_snapshot(journal))
    for head, data in journal.log.batches(max(journal.snapshot_id.end, journal.log.start)):
        known += _take(delta, decode_records(head, data))
    if not known:
        _take(delta, read_bootstrap(journal.disk, root))
    users, end = delta.apply(), journal.log.end

    def users_before(image: MetadataImage) -> ScramImage | None:
        committed = raft.high_watermark
        # A new cluster's election is committed before the first users are, and an image takes a
        # moment to hold what is committed. Of this log and no further: while a cluster is busy, its
        # image is always behind a little.
        behind = not image.features.levels or image.offset + 1 < min(committed, end)
        return users if committed < 0 or behind else None

    return users_before


def _of_snapshot(journal: Journal) -> list[Any]:
    path = os.path.join(journal.directory, journal.snapshot_id.name)
    return (
        decode_snapshot(journal.disk.read_bytes(path)).records if journal.disk.exists(path) else []
    )


def _take(delta: ScramDelta, records: Iterable[Any]) -> int:
    """Note what records say of users; answers how many records there were."""
    count = 0
    for record in records:
        count += 1
        if isinstance(record, UserScramCredentialRecord):
            delta.credential(record)
        elif isinstance(record, RemoveUserScramCredentialRecord):
            delta.remove(record)
    return count

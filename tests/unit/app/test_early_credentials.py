"""Whom a controller believes before there is a leader."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from penstock.app.early_credentials import early_credentials
from penstock.metadata.image import EMPTY, MetadataImage
from penstock.metadata.loader import folded
from penstock.platform.disk import Disk
from penstock.protocol.generated.metadata_records import (
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from penstock.raft.batches import encode_batch
from penstock.raft.format import feature_records, write_bootstrap
from penstock.raft.journal import Journal
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.snapshots import SnapshotId, encode_snapshot, write_snapshot
from penstock.raft.voters import Voter, static_voters
from penstock.storage.context import LogContext

LEVEL = 30


def user(name: str, salt: bytes = b"first") -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name, mechanism=2, salt=salt, stored_key=b"k", server_key=b"k", iterations=4096
    )


def journal_in(root: Path) -> Journal:
    voters = static_voters(Voter(number) for number in (1, 2, 3))
    return Journal(LogContext(Disk()), str(root), voters, MetadataLogSettings(), 0, sole=False)


def log(journal: Journal, *records: Any) -> None:
    """Append what may be committed, or not: nobody has said so."""
    data = encode_batch(records, LEVEL, journal.log.end, 1, 0)
    journal.log.append_batches(data, 0)


def believed(
    journal: Journal, root: Path, committed: int = -1, image: MetadataImage = EMPTY
) -> dict[str, bytes] | None:
    raft: Any = SimpleNamespace(journal=journal, high_watermark=committed)
    users = early_credentials(raft, str(root))(image)
    return None if users is None else {name: it.salt for (_, name), it in users.users.items()}


def test_a_cluster_that_never_had_a_leader_goes_by_what_formatting_left(tmp_path: Path) -> None:
    assert believed(journal_in(tmp_path), tmp_path) == {}
    write_bootstrap(Disk(), str(tmp_path), 0, credentials=[user("node"), user("admin")])
    assert believed(journal_in(tmp_path), tmp_path) == {"node": b"first", "admin": b"first"}


def test_what_the_log_says_counts_more_than_what_formatting_left(tmp_path: Path) -> None:
    write_bootstrap(Disk(), str(tmp_path), 0, credentials=[user("node"), user("gone")])
    journal = journal_in(tmp_path)
    log(journal, *feature_records(), user("node"), user("gone"))
    log(journal, TopicRecord(name="t", topic_id=b"t" * 16), user("node", b"second"))
    log(journal, RemoveUserScramCredentialRecord(name="gone", mechanism=2))
    assert believed(journal, tmp_path) == {"node": b"second"}


def test_a_snapshot_and_the_log_behind_it_count(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    log(journal, *feature_records(), user("node"), user("gone"))
    image = folded([*feature_records(), user("node"), user("other")], journal.log.end - 1, 1)
    data = encode_snapshot(list(image.records()), LEVEL, 1, 0, 0, None)
    write_snapshot(Disk(), journal.directory, SnapshotId(journal.log.end, 1), data)
    log(journal, user("node", b"second"))
    assert believed(journal_in(tmp_path), tmp_path) == {"node": b"second", "other": b"first"}


def test_the_metadata_takes_over_once_it_holds_what_formatting_left(tmp_path: Path) -> None:
    """A new leader is elected and commits that, before it writes down the first users."""
    write_bootstrap(Disk(), str(tmp_path), 0, credentials=[user("node")])
    elected = folded([], 0, 1)
    assert believed(journal_in(tmp_path), tmp_path, 1, elected) == {"node": b"first"}
    begun = folded([*feature_records(), user("node")], 8, 1)
    assert believed(journal_in(tmp_path), tmp_path, 9, begun) is None


def test_the_metadata_takes_over_once_it_holds_what_is_committed_of_the_log(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    log(journal, *feature_records(), user("node"))
    end = journal.log.end
    log(journal, user("node", b"never committed"))
    behind = folded(feature_records(), end - 2, 1)
    assert believed(journal, tmp_path, end, behind) == {"node": b"never committed"}
    assert believed(journal, tmp_path, end, folded(feature_records(), end - 1, 1)) is None
    later = folded(feature_records(), end + 10, 1)
    assert believed(journal, tmp_path, end + 1000, later) is None, "it is always behind a little"

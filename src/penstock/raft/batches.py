"""Metadata records as batches of the log, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.metadata.levels import record_version
from penstock.protocol.generated import control_records as controls
from penstock.protocol.record_frames import read_frame, write_frame
from penstock.records import control
from penstock.records.batch import CONTROL, BatchHead
from penstock.records.builder import BatchBuilder, control_batch
from penstock.records.record import iterate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.protocol.message import Message
    from penstock.raft.voters import Voters

BATCH_BYTES_MAX = 8 << 20
"""What a follower fetches at least in one piece, so that any batch reaches it."""

_CONTROLS: dict[int, type[Message]] = {
    control.LEADER_CHANGE: controls.LeaderChangeMessage,
    control.SNAPSHOT_HEADER: controls.SnapshotHeaderRecord,
    control.SNAPSHOT_FOOTER: controls.SnapshotFooterRecord,
    control.KRAFT_VERSION: controls.KRaftVersionRecord,
    control.KRAFT_VOTERS: controls.VotersRecord,
}


def encode_batch(
    records: Iterable[Message], level: int, base_offset: int, epoch: int, now: int
) -> bytes:
    """One batch of metadata records, each in the version that metadata.version `level` allows."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    append = builder.append
    for record in records:
        append(None, write_frame(record, record_version(record, level)), now)
    return builder.build()


def encode_batches(
    records: Iterable[Message], level: int, base_offset: int, epoch: int, now: int, size_max: int
) -> Iterable[bytes]:
    """The records in as many batches as they need, none much above `size_max` bytes."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for record in records:
        builder.append(None, write_frame(record, record_version(record, level)), now)
        if builder.size >= size_max:
            yield builder.build()
            builder = BatchBuilder(base_offset=builder.last_offset + 1, leader_epoch=epoch)
    if builder.count:
        yield builder.build()


def encode_controls(
    messages: Sequence[tuple[int, Message]], base_offset: int, epoch: int, now: int
) -> bytes:
    """One control batch of (kind, message) pairs."""
    pairs = [(kind, message.encode(0)) for kind, message in messages]
    return control_batch(pairs, now, base_offset=base_offset, leader_epoch=epoch)


def leader_change(
    leader: int, voters: Voters, granted: Sequence[int]
) -> tuple[int, controls.LeaderChangeMessage]:
    return control.LEADER_CHANGE, controls.LeaderChangeMessage(
        version=0,
        leader_id=leader,
        voters=[controls.LeaderChangeMessageVoter(voter_id=voter) for voter in voters.ids],
        granting_voters=[controls.LeaderChangeMessageVoter(voter_id=voter) for voter in granted],
    )


def decode_records(head: BatchHead, data: bytes | memoryview) -> list[Any]:
    """The metadata records of a batch; none if it is a control batch."""
    if head.attributes & CONTROL:
        return []
    records = []
    for record in iterate(data, head=head):
        if record.value is None:
            raise ValueError(f"the metadata record at offset {record.offset} has no value")
        records.append(read_frame(record.value)[0])
    return records


def decode_controls(head: BatchHead, data: bytes | memoryview) -> list[tuple[int, Any]]:
    """The (kind, message) pairs of a control batch; kinds that are not known are left out."""
    if not head.attributes & CONTROL:
        return []
    found = []
    for record in iterate(data, head=head):
        if record.key is None or record.value is None:
            raise ValueError(f"the control record at offset {record.offset} is not whole")
        kind = control.control_type(record.key)
        message = _CONTROLS.get(kind)
        if message is not None:
            found.append((kind, message.read(record.value, 0)[0]))
    return found

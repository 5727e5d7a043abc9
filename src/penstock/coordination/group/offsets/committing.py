"""Committing offsets, plain and within transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.coordination.group.classic.creating import GROUPS_MAX
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.offsets.committed import NO_EXPIRY
from penstock.coordination.group.offsets.record import OffsetRecord
from penstock.coordination.group.streams.group import StreamsGroup
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated.group_records import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.coordination.effects import Effects, Moment, Producer, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.metadata.topics import TopicImage
    from penstock.model.ids import Millis

VALUE_VERSION = 4
VALUE_VERSION_WITH_EXPIRY = 1
"""The last layout that has room for the expiry that old clients ask for."""

_NOT_FOUND_SINCE = 9
"""OffsetCommit's first version whose clients understand GROUP_ID_NOT_FOUND."""

DEFAULT_RETENTION = -1

_new = tuple.__new__  # a named tuple's own constructor is Python


class Entry(NamedTuple):
    """One offset of a request, of a partition that exists."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    answer: Any
    """Its place in the response, which `Commit.mark` knows how to mark."""


def answers_for(
    topic: TopicImage | None,
    unknown: ErrorCode,
    partitions: Sequence[Any],
    make_answer: Callable[..., Any],
    entries: list[Entry],
    with_id: bool = True,
) -> list[Any]:
    """The answers if the group agrees; partitions that exist are added to `entries`."""
    answers = []
    topic_id = topic.id if topic is not None and with_id else ZERO_UUID
    for asked in partitions:
        index = asked.partition_index
        answer = make_answer(partition_index=index)
        answers.append(answer)
        if topic is None:
            answer.error_code = unknown
        elif index not in topic.partitions:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            offset, epoch = asked.committed_offset, asked.committed_leader_epoch
            fields = topic.name, topic_id, index, offset, epoch, asked.committed_metadata, answer
            entries.append(_new(Entry, fields))
    return answers


class Commit(NamedTuple):
    """What a member, or nobody in particular, wants to commit for a group."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    version: int
    """Of the API that the request came by."""
    entries: Sequence[Entry]
    response: Any
    """The answer if all goes well; entries that do not are marked in it."""
    retention_ms: int = DEFAULT_RETENTION
    producer: Producer | None = None
    """Whose transaction decides whether it counts; None if it counts at once."""

    def mark(self, entry: Entry, error: ErrorCode) -> None:
        """Say in the response what is wrong with one offset."""
        entry.answer.error_code = error

    def refuse(self, error: ErrorCode) -> Any:
        """The answer if nothing is committed. What is wrong with a partition itself goes before."""
        for entry in self.entries:
            self.mark(entry, error)
        return self.response


def commit_offsets(
    shard: GroupShard, at: Moment, out: Effects, ticket: Ticket, commit: Commit
) -> None:
    """Write down what the group may commit, each offset in a record of its own."""
    error = _check(shard, commit, at, out)
    if error:
        out.reply(ticket, commit.refuse(error))
        return
    out.producer = commit.producer
    metadata_max = shard.settings.metadata_bytes_max
    is_old = commit.retention_ms != DEFAULT_RETENTION
    group_id, now, records = commit.group_id, at.wall, out.records
    for entry in commit.entries:
        topic, topic_id, partition, offset, epoch, metadata, _ = entry
        if metadata and _is_too_long(metadata, metadata_max):
            commit.mark(entry, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        elif metadata or is_old or topic_id == ZERO_UUID:
            _record(commit, entry, now, out)
        else:
            fields = group_id, topic, partition, offset, epoch, now, topic_id
            records.append(_new(OffsetRecord, fields))
    out.reply(ticket, commit.response)


def _record(commit: Commit, entry: Entry, now: Millis, out: Effects) -> None:
    """Write down an offset with something to remember, or of a topic whose id is not known."""
    expires, version, topic_id = NO_EXPIRY, VALUE_VERSION, entry.topic_id
    if commit.retention_ms != DEFAULT_RETENTION:
        expires, version = now + commit.retention_ms, VALUE_VERSION_WITH_EXPIRY
        # What that layout cannot hold must not be known until the next restart only.
        topic_id = ZERO_UUID
    out.record(
        OffsetCommitKey(group=commit.group_id, topic=entry.topic, partition=entry.partition),
        OffsetCommitValue(
            offset=entry.offset,
            leader_epoch=entry.leader_epoch,
            metadata=entry.metadata or "",
            commit_timestamp=now,
            expire_timestamp=expires,
            topic_id=topic_id,
        ),
        version,
    )


def _check(shard: GroupShard, commit: Commit, at: Moment, out: Effects) -> ErrorCode:
    group = shard.groups.get(commit.group_id)
    is_transactional = commit.producer is not None
    if group is None:
        if commit.generation >= 0:
            if is_transactional or commit.version < _NOT_FOUND_SINCE:
                return ErrorCode.ILLEGAL_GENERATION
            return ErrorCode.GROUP_ID_NOT_FOUND
        if len(shard.groups) >= GROUPS_MAX:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        # From somebody who only wants a place for offsets. Replaying the record makes the group;
        # if the record is not taken, there is no group.
        return ErrorCode.NONE
    error = group.check_commit(
        commit.member_id,
        commit.instance_id,
        commit.generation,
        is_transactional,
        commit.version,
        at,
        out,
    )
    if not error and isinstance(group, ConsumerGroup | StreamsGroup):
        wanted = ((it.topic, it.partition) for it in commit.entries)
        topics = shard.consumers.image.topics
        error = group.check_partitions(commit.member_id, commit.generation, wanted, topics)
    if is_transactional and error == ErrorCode.STALE_MEMBER_EPOCH:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _is_too_long(metadata: str, length_max: int) -> bool:
    """By the units that Java counts: characters beyond the first 65,536 take two."""
    if 2 * len(metadata) <= length_max or metadata.isascii():
        return len(metadata) > length_max
    return len(metadata.encode("utf-16-le")) // 2 > length_max

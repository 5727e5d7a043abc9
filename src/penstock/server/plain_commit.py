"""The short way for offset commits as consumers send them: partitions with nothing to remember.

A consumer that waits for each commit sends thousands of them, and the objects of a request and of
its answer cost as much as deciding and storing. This reads the few numbers where they stand and
packs the answer before it is known whether the group agrees; if it does not, the errors are put in
their places. It decides nothing: the step is that of every commit, and whatever is not exactly of
that shape, or concerns topics or partitions that may not be committed, is left untouched to
`handlers.offset_commit`.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.offsets.committing import Commit, Entry, commit_offsets

if TYPE_CHECKING:
    from penstock.model.errors import ErrorCode
    from penstock.net.connection import Connection
    from penstock.server.broker import Broker

VERSIONS = range(8, 11)
"""The flexible ones, which have the same outline."""
_FIRST, _LAST = VERSIONS[0], VERSIONS[-1]
BY_ID_FROM = 10

BYTES_MAX = 4096
"""Of a request: in a larger one, what is saved at its ends matters no more."""

_HEAD = Struct(">hhih")  # api key, version, correlation id, length of the client id
_GENERATION = Struct(">iB")  # and the length of the member's id
_PARTITION = Struct(">iqiBB")  # index, offset, leader epoch, length of the metadata, tags
_EPILOGUE = b"\x00"  # no tags of the request

_ANSWER_HEAD = Struct(">iixiB")  # length, correlation id, no tags, no throttling, count of topics
_ANSWER = Struct(">ihx")  # index, error, no tags
_ERROR = Struct(">h")
_ERROR_AT = 4  # in the answer of a partition
_LENGTH = Struct(">i")

_ONE_BYTE = 0x80  # numbers below take one byte
_NO_METADATA = (0, 1)  # null or empty, in compact form

_new = tuple.__new__  # a named tuple's own constructor is Python


class PlainCommit(Commit):
    """A commit whose response is packed already; entries know where in it their errors stand."""

    __slots__ = ()

    def mark(self, entry: Entry, error: ErrorCode) -> None:
        _ERROR.pack_into(self.response, entry.answer, error)


def serve_plain_commit(broker: Broker, connection: Connection, frame: memoryview) -> Any:
    """The reply to a commit of the plain shape, or its future; None leaves it to the long way."""
    if len(frame) > BYTES_MAX:
        return None
    try:
        commit = _read(broker, frame.tobytes())
    except (StructError, IndexError, UnicodeDecodeError):
        return None  # the long way says what is wrong
    if commit is None:
        return None
    gate = connection.gate
    if gate is not None and not _may(gate, connection.last_active, commit):
        return None
    return broker.coordinators.groups.call(
        commit.group_id,
        lambda shard, at, out, ticket: commit_offsets(shard, at, out, ticket, commit),
        commit.refuse,
    )


def _may(gate: Any, now: float, commit: Commit) -> bool:
    """Whether who sent it is known, may read the group, and may read each topic."""
    return (
        now < gate.expires_at
        and gate.may_read_group(commit.group_id)
        and all(gate.may_read(entry.topic) for entry in commit.entries)
    )


def _read(broker: Broker, raw: bytes) -> PlainCommit | None:
    _, version, correlation_id, size = _HEAD.unpack_from(raw)
    at = 10 + size if size > 0 else 10
    size = raw[at + 1]
    if raw[at] or not _FIRST <= version <= _LAST or not 0 < size < _ONE_BYTE:
        return None
    at += 2
    end = at + size - 1
    group_id = raw[at:end].decode()
    generation, size = _GENERATION.unpack_from(raw, end)
    at = end + 5
    end = at + size - 1
    member_id = raw[at:end].decode()
    instance, topics = raw[end], raw[end + 1]
    if not 0 < size < _ONE_BYTE or instance or not 1 < topics < _ONE_BYTE:
        return None
    response = bytearray(_ANSWER_HEAD.pack(0, correlation_id, 0, topics))
    entries: list[Entry] = []
    at = end + 2
    for _ in range(topics - 1):
        end = _read_topic(broker, raw, at, version >= BY_ID_FROM, response, entries)
        if not end:
            return None
        at = end
    if raw[at:] != _EPILOGUE:
        return None
    response.append(0)  # no tags of the response
    _LENGTH.pack_into(response, 0, len(response) - 4)
    return _new(
        PlainCommit,
        (group_id, member_id, None, generation, version, entries, response, -1, None),
    )


def _read_topic(
    broker: Broker, raw: bytes, at: int, by_id: bool, response: bytearray, entries: list[Entry]
) -> int:
    """Where the topic at `at` ends; 0 if it is not plain, or not all of it is there to commit."""
    if by_id:
        end = at + 16
        topic = broker.image.topics.by_id.get(raw[at:end])
    else:
        size = raw[at]
        end = at + size
        if not 1 < size < _ONE_BYTE:
            return 0
        topic = broker.image.topics.by_name.get(raw[at + 1 : end].decode())
    count = raw[end]
    if topic is None or not 1 < count < _ONE_BYTE:
        return 0
    response += raw[at : end + 1]  # the topic is named, and its partitions counted, as in requests
    at = end + 1
    name, topic_id, partitions = topic.name, topic.id, topic.partitions
    for _ in range(count - 1):
        index, offset, epoch, metadata, tags = _PARTITION.unpack_from(raw, at)
        if tags or metadata not in _NO_METADATA or index not in partitions:
            return 0
        place = len(response) + _ERROR_AT
        entries.append(_new(Entry, (name, topic_id, index, offset, epoch, None, place)))
        response += _ANSWER.pack(index, 0)
        at += _PARTITION.size
    response.append(0)  # no tags of the topic
    return 0 if raw[at] else at + 1

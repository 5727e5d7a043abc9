"""What nodes read back from logs and from each other: snapshots, offsets, names of senders."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import SimpleNamespace

from penstock.coordination.group.offsets.table import OffsetTable
from penstock.coordination.group.shard import GroupShard
from penstock.model.config.node import NodeConfig
from penstock.protocol.generated import metadata_records as made
from penstock.protocol.generated.group_records import OffsetCommitKey, OffsetCommitValue
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.record_frames import GROUP
from penstock.raft.snapshots import CorruptSnapshot, decode_snapshot, encode_snapshot
from penstock.raft.voters import first_voters
from penstock.records.batch import HEAD_SIZE, batch_end
from penstock.security.principal import Principal
from penstock.server.senders import packed_host, packed_principal, sender_of
from tests.fuzz.target import Target
from tests.fuzz.targets.records import sealed

LEVEL = 30
VOTERS = "1@localhost:9093:AAAAAAAAAAAAAAAAAAAAAQ,2@localhost:9094:AAAAAAAAAAAAAAAAAAAAAg"
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}


def snapshot(data: bytes) -> None:
    """A snapshot of the metadata, whose batches get true checksums first."""
    try:
        found = decode_snapshot(_with_true_checksums(data))
    except CorruptSnapshot:
        return
    assert isinstance(found.records, list)


def _with_true_checksums(data: bytes) -> bytes:
    out, at = bytearray(), 0
    while len(data) - at >= HEAD_SIZE:
        end = batch_end(data, at)
        if not at + HEAD_SIZE <= end <= len(data):
            break
        out += sealed(data[at:end])
        at = end
    return bytes(out) + data[at:]


def _snapshots() -> Iterator[bytes]:
    records = [
        made.FeatureLevelRecord(name="metadata.version", feature_level=LEVEL),
        made.TopicRecord(name="orders", topic_id=bytes(range(16))),
        made.PartitionRecord(partition_id=0, topic_id=bytes(range(16)), replicas=[1], isr=[1]),
        made.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
    ]
    yield encode_snapshot(records, LEVEL, 1, 5, 7, None)
    yield encode_snapshot(records, LEVEL, 1, 5, 7, first_voters(VOTERS, "CONTROLLER"))
    yield encode_snapshot([], LEVEL, 1, 5, 7, None)


def offsets(data: bytes) -> None:
    """The quick way of replaying a commit and the ordinary one agree on what they both take."""
    if not data:
        return
    end = 1 + data[0]
    key, value = memoryview(data)[1:end], memoryview(data)[end:]
    shard = _shard()
    shard.groups.clear()
    shard.offsets = quick = OffsetTable()
    if not shard.quick_replay().replay(key, value):
        return
    shard.groups.clear()
    shard.offsets = ordinary = OffsetTable()
    named = GROUP.read_key(key)
    shard.replay(0, named, GROUP.read_value(named.API_KEY, value)[0], -1)
    assert quick.by_group == ordinary.by_group


@functools.cache
def _shard() -> GroupShard:
    from penstock.coordination.group.settings import GroupSettings

    return GroupShard(0, GroupSettings.of(NodeConfig.of(NODE)), SimpleNamespace())


def _offsets() -> Iterator[bytes]:
    key = GROUP.write_key(OffsetCommitKey(group="g", topic="t", partition=3))
    for version in OffsetCommitValue.VERSIONS:
        for metadata in ("", "note"):
            value = OffsetCommitValue(offset=9, metadata=metadata, commit_timestamp=5)
            yield bytes((len(key),)) + key + GROUP.write_value(value, version)


def sender(data: bytes) -> None:
    """Who an envelope says it comes from: refused, or the same when it is passed on."""
    if not data:
        return
    end = 1 + data[0]
    try:
        who = sender_of(data[1:end], data[end:])
    except ProtocolError:
        return
    again = sender_of(packed_principal(who.principal), packed_host(who.host))
    assert again.principal == who.principal


def _senders() -> Iterator[bytes]:
    for name, host in (("alice", "127.0.0.1"), ("böb", "::1"), ("", "")):
        principal = packed_principal(Principal(name))
        yield bytes((len(principal),)) + principal + packed_host(host)


TARGETS = [
    Target("snapshots", snapshot, _snapshots, memory_base=4 << 20),
    Target("quick_offsets", offsets, _offsets, size_max=300),
    Target("senders", sender, _senders, size_max=300),
]

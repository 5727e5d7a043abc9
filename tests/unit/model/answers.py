"""Apache Kafka's own answers about configuration, to hold Penstock's against.

`data/described.json` holds what Kafka 4.3.0 described for NODE with the dynamic settings SETTINGS,
and `data/verdicts.json` what it said of each change in CHANGES. Both were recorded from a fresh
node that ran from `data/node.properties`, by

    python -m tests.unit.model.answers HOST:PORT
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from typing import Any

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
NODE = os.path.join(DATA, "node.properties")

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32

# (resource type, name) to what is set for it when it is described.
SETTINGS: dict[tuple[int, str], dict[str, str]] = {
    (BROKER, "1"): {
        "log.retention.ms": "7200000",
        "log.cleaner.threads": "2",
        "unknown.foo": "bar",
        "follower.replication.throttled.rate": "1000",
        "listener.name.plaintext.max.connections": "400",
        "listener.name.plaintext.ssl.keystore.password": "s3",
    },
    (BROKER, ""): {
        "log.retention.ms": "10800000",
        "log.segment.bytes": "2097152",
        "log.roll.ms": "1800000",
        "min.insync.replicas": "1",
        "log.flush.interval.ms": "1000",
    },
    (TOPIC, "described"): {
        "retention.ms": "3600000",
        "cleanup.policy": "compact,delete",
        "internal.segment.bytes": "1000",
    },
    (TOPIC, "plain"): {},
    (GROUP, "g"): {"consumer.session.timeout.ms": "50000", "share.auto.offset.reset": "earliest"},
    (CLIENT_METRICS, "m"): {"interval.ms": "1000", "match": "client_id=a.*,client_source_port=9"},
}

_TOPIC_CHANGES = {
    "retention.ms": "abc -2 -1 0 | ' 5 ' +5 5.0 9223372036854775807 9223372036854775808 0x10",
    "segment.bytes": "1000 1048576 2147483647 2147483648",
    "segment.ms": "0 1",
    "segment.jitter.ms": "-1 0",
    "segment.index.bytes": "3 4",
    "cleanup.policy": "| compact,compact compact, nope 'compact , delete' COMPACT ,",
    "compression.type": "GZIP gzip none producer uncompressed |",
    "compression.gzip.level": "0 -1 1 9 10",
    "compression.lz4.level": "0 1 17 18",
    "compression.zstd.level": "-131073 -131072 22 23",
    "min.cleanable.dirty.ratio": "1.1 -0.1 0 1 .5f 0x1p-1 5e-1 1e 5. 1d x",
    "preallocate": "TRUE yes 1 | ' true '",
    "message.timestamp.type": "createtime CreateTime LogAppendTime",
    "message.timestamp.before.max.ms": "-1 0",
    "message.timestamp.after.max.ms": "-1 0",
    "min.insync.replicas": "0 1",
    "min.compaction.lag.ms": "-1 0",
    "max.compaction.lag.ms": "0 1",
    "unknown": "1",
    "retention.mss": "1",
    "leader.replication.throttled.replicas": "* 1:1,2:2 1:a | 1:1,,2:2 *,1:1",
    "follower.replication.throttled.replicas": "*",
    "remote.storage.enable": "true false",
    "remote.log.copy.disable": "true",
    "local.retention.ms": "-3 -2 -1 99999999999",
    "local.retention.bytes": "-3 -2 -1",
    "internal.segment.bytes": "0 |",
    "max.message.bytes": "-1 0 2147483648",
    "flush.messages": "0 1",
    "flush.ms": "-1 0",
    "index.interval.bytes": "-1 0",
    "file.delete.delay.ms": "-1 0",
    "delete.retention.ms": "-1 0",
    "retention.bytes": "-5 x",
    "unclean.leader.election.enable": "1 true",
}
_GROUP_CHANGES = {
    "consumer.session.timeout.ms": "44999 45000 60000 60001",
    "consumer.heartbeat.interval.ms": "4999 5000 15000 15001",
    "consumer.assignment.interval.ms": "-1 0 15000 15001",
    "share.session.timeout.ms": "44999 60001",
    "share.heartbeat.interval.ms": "4999 15001",
    "share.assignment.interval.ms": "15001",
    "share.record.lock.duration.ms": "14999 15000 60000 60001",
    "share.delivery.count.limit": "1 2 10 11",
    "share.partition.max.record.locks": "99 100 4000 4001",
    "share.auto.offset.reset": "latest LATEST none by_duration:PT1H by_duration:P1D by_duration: "
    "by_duration:-PT1H by_duration:1h by_duration:PT by_duration:P BY_DURATION:PT1S "
    "by_duration:P1DT2H3M4.5S by_duration:PT-1S by_duration:P-1DT48H by_duration:pt1h "
    "by_duration:P1W by_duration:PT1S1H",
    "share.isolation.level": "READ_COMMITTED read_committed read_uncommitted",
    "share.renew.acknowledge.enable": "0 false",
    "streams.session.timeout.ms": "44999 60001 70000",
    "streams.heartbeat.interval.ms": "4999 15001",
    "streams.assignment.interval.ms": "15001",
    "streams.num.standby.replicas": "-1 0 2 3",
    "streams.initial.rebalance.delay.ms": "-1 0",
    "zzz": "1",
}
_METRICS_CHANGES = {
    "interval.ms": "99 100 3600000 3600001 x",
    "metrics": "a,a a,,b | *",
    "match": "client_id client_id=a=b nope=a client_id= client_id=[ ' client_id = a ' |",
    "zzz": "1",
}
_BROKER_CHANGES = {
    "num.partitions": "2",
    "log.retention.ms": "0 -5 x 1",
    "log.roll.ms": "0 1",
    "log.retention.hours": "1",
    "ssl.keystore.location": "/x",
    "num.io.threads": "0 3 4 16 17",
    "background.threads": "100",
    "log.cleaner.threads": "0",
    "log.cleaner.dedupe.buffer.size": "1000",
    "whatever": "x",
    "max.connections.per.ip": "0",
    "max.connections.per.ip.overrides": "127.0.0.1 127.0.0.1:5",
    "compression.type": "nope gzip",
    "log.cleanup.policy": "nope compact",
    "log.local.retention.ms": "999999999999",
    "message.max.bytes": "-1 0",
    "listeners": "FOO://x:1",
    "advertised.listeners": "x",
    "cordoned.log.dirs": "/nope",
    "leader.replication.throttled.rate": "-1 0",
    "connections.max.idle.ms": "5",
    "log.segment.bytes": "5",
    "unclean.leader.election.enable": "maybe",
    "producer.id.expiration.ms": "0 1",
    "listener.name.external.ssl.keystore.type": "PEM",
    "listener.name.plaintext.max.connections": "x 10",
}


def _changes() -> list[tuple[int, str, dict[str, str]]]:
    tables = (
        (TOPIC, "plain", _TOPIC_CHANGES),
        (GROUP, "other", _GROUP_CHANGES),
        (CLIENT_METRICS, "other", _METRICS_CHANGES),
        (BROKER, "1", _BROKER_CHANGES),
        (BROKER, "", _BROKER_CHANGES),
    )
    import shlex

    listed = [
        (kind, name, {key: "" if text == "|" else text})
        for kind, name, table in tables
        for key, texts in table.items()
        for text in shlex.split(texts)
    ]
    together = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    return [*listed, (TOPIC, "plain", together)]


CHANGES = _changes()
"""(resource type, name, settings): each alone, in place of everything set before."""


def described() -> dict[str, Any]:
    """What Kafka described: "TYPE NAME" to key to value, source, secrecy and so on."""
    with open(os.path.join(DATA, "described.json"), encoding="utf-8") as file:
        answers: dict[str, Any] = json.load(file)
        return answers


def verdicts() -> list[int]:
    """The error code of each of CHANGES, in order."""
    with open(os.path.join(DATA, "verdicts.json"), encoding="utf-8") as file:
        codes: list[int] = json.load(file)
        return codes


# -- recording ------------------------------------------------------------------------------------


class _Client:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._stream = socket.create_connection((host, int(port))).makefile("rwb")

    def ask(self, request: Any, version: int) -> Any:
        from penstock.protocol.registry import API

        spec = API[request.API_KEY]
        out = bytearray(struct.pack(">hhih", request.API_KEY, version, 1, -1))
        if spec.request_header_version(version) >= 2:
            out.append(0)
        request.write(version, out)
        self._stream.write(struct.pack(">i", len(out)) + out)
        self._stream.flush()
        (size,) = struct.unpack(">i", self._stream.read(4))
        at = 5 if spec.response_header_version(version) >= 1 else 4
        return spec.response_class.read(self._stream.read(size), version, at)[0]

    def alter(self, kind: int, name: str, settings: dict[str, str], validate_only: bool) -> int:
        from penstock.protocol.generated import incremental_alter_configs as api

        configs = [api.AlterableConfig(name=k, value=v) for k, v in settings.items()]
        resource = api.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = api.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=validate_only
        )
        return int(self.ask(request, 1).responses[0].error_code)

    def describe(self, kind: int, name: str) -> dict[str, Any]:
        from penstock.protocol.generated import describe_configs as api

        resource = api.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        request = api.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        return {
            e.name: [e.value, e.config_source, e.is_sensitive, e.read_only, e.config_type,
                     [[s.name, s.value, s.source] for s in e.synonyms]]
            for e in sorted(self.ask(request, 4).results[0].configs, key=lambda e: e.name)
        }  # fmt: skip

    def create(self, topic: str) -> None:
        from penstock.protocol.generated import create_topics as api

        creatable = api.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        self.ask(api.CreateTopicsRequest(topics=[creatable], timeout_ms=5000), 7)


def record(address: str) -> None:
    """Write both files from the answers of a fresh node that runs from `node.properties`."""
    client = _Client(address)
    for kind, name in SETTINGS:
        if kind == TOPIC:
            client.create(name)
    codes = [client.alter(*change, True) for change in CHANGES]
    for (kind, name), settings in SETTINGS.items():
        if settings and client.alter(kind, name, settings, False):
            raise SystemExit(f"refused: {settings}")
    answers = {f"{kind} {name}": client.describe(kind, name) for kind, name in SETTINGS}
    for file_name, content in (("described.json", answers), ("verdicts.json", codes)):
        text = json.dumps(content)
        if isinstance(content, dict):
            text = text.replace("]], ", "]],\n").replace("[]], ", "[]],\n").replace("}, ", "},\n")
        with open(os.path.join(DATA, file_name), "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    record(sys.argv[1])

"""Texts that people and programs write: settings of nodes and topics, pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from penstock.model.config import ConfigProblems, NodeConfig
from penstock.model.config.sources import properties_entries, toml_entries
from penstock.model.config.topics import validate_topic_config
from penstock.pipeline.problem import Problems
from penstock.pipeline.spec.read import pipeline_of
from tests.fuzz.target import Target
from tests.fuzz.targets.replays import NODE

EXAMPLES = Path(__file__).parents[3] / "examples"


def properties(data: bytes) -> None:
    """server.properties: read, or refused with the place; so is the node that it describes."""
    text = data.decode(errors="replace")
    try:
        entries = list(properties_entries(text))
        NodeConfig.of(NODE | {entry.key: entry.text for entry in entries})
    except ConfigProblems as refusal:
        assert refusal.problems


def toml(data: bytes) -> None:
    try:
        entries = toml_entries(data.decode(errors="replace"))
    except ConfigProblems as refusal:
        assert refusal.problems
        return
    assert all(isinstance(entry.text, str) for entry in entries)


def topic_settings(data: bytes) -> None:
    """One setting in each line, as CreateTopics and AlterConfigs carry them."""
    lines = (line.partition("=") for line in data.decode(errors="replace").split("\n"))
    problem = validate_topic_config({key: value for key, _, value in lines}, _NODE)
    assert problem is None or problem.error in ("INVALID_CONFIG", "INVALID_REQUEST")


_NODE = NodeConfig.of(NODE)


def pipeline(data: bytes) -> None:
    try:
        pipeline_of("/nowhere/pipeline.yaml", data, {"USER": "somebody"})
    except Problems as refusal:
        assert str(refusal)


def _pipelines() -> Iterator[bytes]:
    yield from (path.read_bytes() for path in sorted(EXAMPLES.rglob("*.yml")))
    yield b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n"
    yield b"[" * 3000
    yield b"name: ${USER}\nsources: {a: {topic: ${file:/etc/hostname}}}\n"
    yield b"!!python/object/apply:os.system ['true']\n"


def _given(*data: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: data


TARGETS = [
    Target(
        "properties",
        properties,
        _given(
            b"# a node\nlog.retention.hours=1\nlisteners=PLAINTEXT://:9092,\\\n  CONTROLLER://:9093\n",
            b"num.partitions = 3\nlog.dirs:/a,/b\n\\u0041=\\u00e9\n",
            b"listener.security.protocol.map=A:SSL,B:SASL_PLAINTEXT\nlisteners=A://:1,B://:2\n",
            b"super.users=User:a;User:b\nauthorizer.class.name=x\nssl.principal.mapping.rules=DEFAULT",
            b"a\\\n" * 500,
            b"max.connections.per.ip.overrides=a:1,b:2\n" + b"\\" * 999,
        ),
    ),
    Target(
        "toml",
        toml,
        _given(
            b'"log.dir" = "/a"\nnum.partitions = 3\n[log]\nretention.hours = 1\ndirs = ["a"]\n',
            b"a = " + b"[" * 2000,
            b".".join([b"a"] * 2000) + b" = 1",
            b"a = '''\n" + b"a" * 60 + b"\n'''",
            b"a = " + b"9" * 5000,
            b"a = 0x" + b"f" * 5000,
            b"a = 1979-05-27T07:32:00Z\nb = {c = 1e999, d = nan}",
        ),
        memory_base=64 << 20,  # the parser of Python takes the square of a key's parts
    ),
    Target(
        "topic_settings",
        topic_settings,
        _given(
            b"cleanup.policy=compact,delete\nretention.ms=1000\nmin.insync.replicas=2",
            b"follower.replication.throttled.replicas=0:1,1:2\ncompression.type=zstd",
            b"retention.ms=" + b"9" * 5000,
        ),
    ),
    Target("pipelines", pipeline, _pipelines, memory_base=8 << 20),
]

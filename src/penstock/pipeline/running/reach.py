"""Whether a pipeline's brokers and topics are there, before Spark is started to find out."""

from __future__ import annotations

import glob
import os
import socket

from penstock.pipeline.checkpoint import checkpoint_root, is_remote
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.needs import needs_of
from penstock.pipeline.spec.sinks import TopicSink
from penstock.pipeline.spec.sources import TopicSource

KNOCK_SECONDS_MAX = 3.0
TOPIC_SECONDS_MAX = 5.0
PORT_DEFAULT = 9092


def nobody_there(pipeline: Pipeline) -> Problem | None:
    """What to tell if none of the brokers takes a connection; None if one does, or none is used."""
    if "kafka" not in needs_of(pipeline):
        return None
    reasons = []
    for server in pipeline.bootstrap.split(","):
        host, port = address_of(server)
        try:
            socket.create_connection((host, port), KNOCK_SECONDS_MAX).close()
            return None
        except OSError as refusal:
            reasons.append(f"{host}:{port}: {refusal.strerror or refusal}")
    return Problem(
        f"no broker answers ({'; '.join(reasons)})",
        "`penstock up` starts one on this machine; `bootstrap` in the file says where others are. "
        "With on_error: retry a pipeline waits for them.",
        pipeline.place,
    )


def topic_missing(pipeline: Pipeline) -> Problem | None:
    """What to tell if a topic that the pipeline reads is not there yet; None if nobody can say.

    Nobody asks once a batch was begun: that records are gone, and which, is told by who reads.
    """
    read = {
        name.strip(): source.place
        for source in pipeline.sources.values()
        if isinstance(source, TopicSource)
        for name in source.topic.split(",")
        if name.strip()
    }
    for sink in pipeline.sinks.values():
        if isinstance(sink, TopicSink):
            read.pop(sink.topic, None)  # it will be made
    if not read or _has_begun(pipeline):
        return None
    from confluent_kafka import KafkaException

    from penstock.pipeline.running.clients import client_settings
    from penstock.pipeline.sinks.topic_places import topics_there

    try:
        there = topics_there(client_settings(pipeline), read, TOPIC_SECONDS_MAX)
    except (KafkaException, Problem):
        return None  # no answer for us: Spark's own client may know why
    for name, place in read.items():
        if name not in there:
            return Problem(
                f"there is no topic {name!r} at {pipeline.bootstrap}",
                f"`penstock topic list` shows those that there are, `penstock topic create {name}` "
                "makes it. With on_error: retry a pipeline waits for it.",
                place,
            )
    return None


def _has_begun(pipeline: Pipeline) -> bool:
    """Whether Spark has written down a batch, as far as can be seen without it."""
    root = checkpoint_root(pipeline)
    return is_remote(root) or bool(
        glob.glob(f"{glob.escape(root)}{os.sep}queries/*/offsets/[0-9]*")
    )


def address_of(server: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[::1]:9092` or a host alone."""
    host, colon, port = server.strip().rpartition(":")
    if not colon or not port.isdigit():
        return server.strip().strip("[]"), PORT_DEFAULT
    return host.strip("[]"), int(port)

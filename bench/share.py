"""The case of share groups: Apache's own share consumer takes records and acknowledges them all."""

from __future__ import annotations

import re
import subprocess
from datetime import datetime
from itertools import pairwise

from bench import topics
from bench.model import Case, Measures, Scale, cpu, throughput
from bench.process import Spent
from bench.rdkafka import ClientFailed, Payload, Producer
from penstock.cli.wire_cluster import Cluster
from penstock.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.oracle import apache
from tests.oracle.nodes import Node

PARTITIONS = 4
SECONDS_MAX = 600
PATIENCE_MS = 60_000
REPORT_MS = 100
LARGE_BATCHES = {"batch_size": "1000000", "linger_ms": "100"}

_GROUP, _SET = 32, 0
_TIME = "%Y-%m-%d %H:%M:%S:%f"
_LINE = re.compile(r"^([\d-]+ [\d:]+), ([\d-]+ [\d:]+), [\d.]+, [\d.]+, [\d.]+, (\d+), \d+", re.M)


def share(node: Node, scale: Scale) -> Measures:
    """Read what was just written with ShareConsumerPerformance, in a JVM of its own.

    The time counts from its first record on: joining takes as long as the group's heartbeats are
    apart, which both brokers tell their clients.
    """
    count = scale.records // 3
    topic = topics.create(node, PARTITIONS)
    _begin_at_the_start(node, topic)
    payload = Payload(100)
    with Producer(node.bootstrap, **LARGE_BATCHES) as producer:
        producer.send(topic, payload, count)
        producer.flush(SECONDS_MAX)
    spent = Spent.now(node.pid)
    ran = subprocess.run(
        [*apache.java(), "org.apache.kafka.tools.ShareConsumerPerformance", "--topic", topic,
         "--group", topic, "--num-records", str(count), "--timeout", str(PATIENCE_MS),
         "--show-detailed-stats", "--reporting-interval", str(REPORT_MS),
         "--bootstrap-server", node.bootstrap],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    used = spent.since()
    topics.delete(node, topic)
    return {"cpu": used, "rate": rate_of(ran.stdout, count)}


def rate_of(printed: str, count: int) -> float:
    """Records a second, from the first to the last; `ClientFailed` unless all of them came.

    The tool prints a line with each interval's end and all records up to it, the first of them when
    the first record is there, and at last one with the whole time in it.
    """
    lines = [
        (datetime.strptime(end, _TIME), int(total)) for _, end, total in _LINE.findall(printed)
    ]
    if len(lines) < 3 or lines[-1][1] < count or any(b[1] < a[1] for a, b in pairwise(lines)):
        raise ClientFailed(f"ShareConsumerPerformance printed {printed!r}")
    (began, first), (ended, last) = lines[0], lines[-1]
    return (last - first) / max((ended - began).total_seconds(), 1e-3)


def _begin_at_the_start(node: Node, group: str) -> None:
    """A share group begins at the end of a topic, unless it is told otherwise."""
    setting = AlterableConfig(
        name="share.auto.offset.reset", config_operation=_SET, value="earliest"
    )
    resource = AlterConfigsResource(resource_type=_GROUP, resource_name=group, configs=[setting])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    with Cluster(node.bootstrap, None, 30) as cluster:
        told = cluster.anyone.ask(request, IncrementalAlterConfigsResponse)
    if told.responses[0].error_code:
        raise ClientFailed(f"no settings for the group: {told.responses[0]}")


CASES = [
    Case(
        "share", "share group, Apache's share consumer with its defaults", share,
        (cpu(1 / 2), throughput()),
    ),
]  # fmt: skip

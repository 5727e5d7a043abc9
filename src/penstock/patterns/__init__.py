"""Retry, dead letters, order and idempotence for ordinary consumer groups, over confluent-kafka.

Owns what a worker decides and does between a consumer and a handler: which message runs, which
waits, what is committed, where failures go. Works against Penstock and against any Kafka, through
the wire, like any client; imports none of the broker's rooms but `model`. Enter at `Worker` and
`AsyncWorker`:

    Worker(
        {"bootstrap.servers": "localhost:9092", "group.id": "billing"},
        "orders",
        bill,
        retry=Backoff(first=1, multiplier=2, tries=5),
        dead_letter="dlq.orders",
    ).run()

What is promised, whatever is killed in between:

| with | a message is handled | in which order |
| --- | --- | --- |
| nothing more | at least once | per key, one after another |
| `keep_order=False` | at least once | any; long waits are spent in retry topics |
| `once=Once(MemoryStore())` | once, as long as the process lives | as without |
| `once=Once(SqliteStore(path))` | once, but for a crash between its end and its mark | as without |
| `SqliteStore.mark_within` | once: what it did and its mark count together | as without |

Handled means that the handler returned, or that the message stands in the dead-letter topic with
the reason. An offset is committed when it and everything before it in its partition is done; what
was not committed before a crash is handled again, in its order.
"""

from __future__ import annotations

from penstock.patterns.backoff import Backoff
from penstock.patterns.engine import Counts, GaveUp, WorkerFailed
from penstock.patterns.message import Message
from penstock.patterns.once import Once, Reject, by_header, by_key, by_position
from penstock.patterns.stores import (
    AlreadyHandled,
    AsyncStore,
    MemoryStore,
    SqliteStore,
    Store,
)
from penstock.patterns.topics import NotReady, retry_topic
from penstock.patterns.worker import AsyncWorker, Worker

__all__ = [
    "AlreadyHandled",
    "AsyncStore",
    "AsyncWorker",
    "Backoff",
    "Counts",
    "GaveUp",
    "MemoryStore",
    "Message",
    "NotReady",
    "Once",
    "Reject",
    "SqliteStore",
    "Store",
    "Worker",
    "WorkerFailed",
    "by_header",
    "by_key",
    "by_position",
    "retry_topic",
]

"""Did the broker keep its promises? Record what clients do, and check it afterwards.

Owns the notes that clients take, the files that hold them, and the checks. It never talks to a
broker by itself and knows nothing of its inside: any Kafka may stand behind the clients. Enter at
`Recorder` (or `RecordingProducer` and `RecordingConsumer` around confluent-kafka's), then `check`:

    recorder = Recorder("producer", "producer.jsonl")
    ...
    check(History.read("producer.jsonl", "consumer.jsonl"))

`check` raises `Unsound`, an AssertionError whose text shows what went wrong and where.
`python -m penstock.testing.history FILE...` does the same for files of programs in any language.
"""

from __future__ import annotations

from penstock.testing.history.checking import Unsound, check, find
from penstock.testing.history.checks import ALL
from penstock.testing.history.checks.marks import last_stable_moves_on
from penstock.testing.history.checks.processing import exactly_once
from penstock.testing.history.checks.shares import deliveries_count_up, shared_out
from penstock.testing.history.history import History
from penstock.testing.history.operations import (
    Commit,
    Committed,
    Deliver,
    End,
    Generation,
    Init,
    Marks,
    Operation,
    Outcome,
    Place,
    Poll,
    Seek,
    Send,
    Settle,
    text_of,
)
from penstock.testing.history.recorder import Recorder
from penstock.testing.history.report import report
from penstock.testing.history.verdict import Check, Verdict

__all__ = [
    "ALL",
    "Check",
    "Commit",
    "Committed",
    "Deliver",
    "End",
    "Generation",
    "History",
    "Init",
    "Marks",
    "Operation",
    "Outcome",
    "Place",
    "Poll",
    "Recorder",
    "Seek",
    "Send",
    "Settle",
    "Unsound",
    "Verdict",
    "check",
    "deliveries_count_up",
    "exactly_once",
    "find",
    "last_stable_moves_on",
    "report",
    "shared_out",
    "text_of",
]

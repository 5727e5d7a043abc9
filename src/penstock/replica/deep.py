"""When a topic's configuration makes the broker look inside batches.

Four settings do: compaction (every record needs a key), a compression other than the producer's,
the broker's own timestamps, and a bound on how old a record may be. All other topics never pay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.model.errors import ErrorCode
from penstock.records.batch import BatchHead
from penstock.records.deep import DeepPolicy, validate
from penstock.storage.log_config import FOREVER, LogConfig


class Rewritten(NamedTuple):
    """A batch as it will stand in the log, with the time of append if the broker sets it."""

    records: memoryview
    head: BatchHead
    append_time: int


Failure = tuple[ErrorCode, str | None, tuple[tuple[int, str], ...]]
Checker = Callable[[memoryview, BatchHead, int], Rewritten | Failure]

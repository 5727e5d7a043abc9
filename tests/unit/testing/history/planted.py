"""A broker with a bug in it, planted on purpose: brokers like it are what the checker is for.

    python planted.py BUG HOST PORT DATA KEEP [KEY=VALUE...]

Each bug is one change to one component, of the kind that a hurried afternoon brings about. It is
made in the broker's own process, before it starts; `none` makes none. Internal topics are spared
where a bug there would only keep the broker from working at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.shard import GroupShard
from penstock.coordination.runtime import Runtime
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.group_records import OffsetCommitKey
from penstock.replica.partition import Appended, Partition
from penstock.replica.transactions import Guards
from penstock.server import fetch_reading
from penstock.storage.producers import Duplicate, Producers
from penstock.testing import child

BUGS: dict[str, Callable[[], None]] = {}


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    BUGS[plant.__name__] = plant
    return plant


def replace(owner: Any, name: str, new: Any) -> None:
    """Put something else in the place of a method or a function."""
    getattr(owner, name)  # a bug that is planted nowhere would be found by nobody
    setattr(owner, name, new)


def after(owner: type, name: str, change: Callable[..., Any]) -> None:
    """Replace a method by one that first does the same: change(result, self, *arguments)."""
    original = getattr(owner, name)

    def changed(self: Any, *arguments: Any, **options: Any) -> Any:
        return change(original(self, *arguments, **options), self, *arguments)

    replace(owner, name, changed)


# -- the log --------------------------------------------------------------------------------------


@bug
def answers_without_appending() -> None:
    """Every third batch is acknowledged and not written."""
    original = Partition.append
    count = 0

    def append(self: Partition, records: memoryview, *rest: Any) -> Any:
        nonlocal count
        count += not self.internal
        if self.internal or count % 3:
            return original(self, records, *rest)
        end = self.log.end
        return Appended(end, end, -1, self.log.start)

    replace(Partition, "append", append)


@bug
def forgets_producers_on_restart() -> None:
    """The sequences of idempotent producers are not read back."""

    def forget(_: None, self: Partition, *__: Any) -> None:
        self.log.producers.clear()

    after(Partition, "__init__", forget)


@bug
def takes_a_retry_for_new() -> None:
    """A batch that is in the log already is appended again."""

    def renew(verdict: Any, *_: Any) -> Any:
        return None if isinstance(verdict, Duplicate) else verdict

    after(Producers, "check", renew)


@bug
def takes_batches_out_of_order() -> None:
    """A gap in the sequences is nobody's concern."""

    def forgive(verdict: Any, *_: Any) -> Any:
        return None if verdict is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER else verdict

    after(Producers, "check", forgive)


@bug
def reuses_offsets_after_restart() -> None:
    """What a crash left at the end of a log is cut off, acknowledged or not."""
    original = Partition.__init__

    def init(self: Partition, node_id: Any, log: Any, *rest: Any) -> None:
        if not log.topic.startswith("__") and log.end > log.start:
            log.truncate_to(log.end - 1)
        original(self, node_id, log, *rest)

    replace(Partition, "__init__", init)


@bug
def takes_back_what_was_visible() -> None:
    """Every other reader is told of a watermark that is behind."""
    count = 0

    def lower(readable: Any, *_: Any) -> Any:
        nonlocal count
        count += 1
        if isinstance(readable, ErrorCode) or count % 2:
            return readable
        return readable._replace(high_watermark=max(readable.high_watermark - 1, 0))

    after(Partition, "read", lower)


# -- transactions ---------------------------------------------------------------------------------


@bug
def shows_open_transactions() -> None:
    """The last stable offset is the high watermark, whatever is open."""
    replace(Partition, "last_stable", Partition.high_watermark)


@bug
def shows_aborted_transactions() -> None:
    """Readers are not told what was aborted."""
    replace(fetch_reading, "_aborted", lambda *_: [])


@bug
def loses_a_marker() -> None:
    """One partition never hears how transactions end."""
    original = Partition.append_marker

    def append_marker(self: Partition, *rest: Any, **options: Any) -> Any:
        if self.internal or self.index != 1:
            return original(self, *rest, **options)
        return Appended(self.log.end, self.log.end, -1, self.log.start)

    replace(Partition, "append_marker", append_marker)


@bug
def tears_transactions() -> None:
    """One partition aborts what the others commit."""
    original = Partition.append_marker

    def append_marker(self: Partition, *rest: Any, **options: Any) -> Any:
        producer_id, epoch, coordinator_epoch, is_commit, *others = rest
        if not self.internal and self.index == 1:
            is_commit = False
        return original(self, producer_id, epoch, coordinator_epoch, is_commit, *others, **options)

    replace(Partition, "append_marker", append_marker)


@bug
def lets_zombies_write() -> None:
    """A partition takes old epochs, and asks no coordinator about them."""
    original = Producers.check

    def check(self: Producers, producer_id: int, epoch: int, *rest: Any) -> Any:
        verdict = original(self, producer_id, epoch, *rest)
        return None if verdict is ErrorCode.INVALID_PRODUCER_EPOCH else verdict

    replace(Producers, "check", check)
    replace(Guards, "admit", lambda *_: None)


# -- groups ---------------------------------------------------------------------------------------


@bug
def takes_commits_of_old_generations() -> None:
    """Whoever was a member once may commit for ever."""
    replace(ClassicGroup, "check_commit", lambda *_: ErrorCode.NONE)


@bug
def forgets_commits() -> None:
    """A commit is written down and answered, and not remembered."""
    original = GroupShard.replay

    def replay(self: GroupShard, offset: int, key: Any, *rest: Any) -> None:
        if not isinstance(key, OffsetCommitKey):
            original(self, offset, key, *rest)

    replace(GroupShard, "replay", replay)


@bug
def commits_positions_of_aborted_transactions() -> None:
    """A group takes every end of a transaction for a commit."""
    original = Runtime.end_transaction

    def end_transaction(self: Any, index: int, append: Any, ended: Any) -> Any:
        return original(self, index, append, (*ended[:2], True))

    replace(Runtime, "end_transaction", end_transaction)


def main(words: list[str]) -> int:
    name, *rest = words
    if name != "none":
        BUGS[name]()
    return child.main(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

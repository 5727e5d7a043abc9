"""Where a worker remembers what it has handled, so that a second copy is not handled again."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable
from os import PathLike
from typing import Protocol, runtime_checkable

PRUNE_EVERY = 1_000
BUSY_SECONDS_MAX = 30.0


class AlreadyHandled(Exception):
    """Raised by `SqliteStore.mark_within`: this message has been handled before."""


@runtime_checkable
class Store(Protocol):
    """A memory of handled messages; yours may be Redis, or a table in the database you write to.

    Both are called from several threads. An error that either raises counts as a failed try.
    """

    def seen(self, identity: str) -> bool:
        """Whether a message with this identity was handled."""

    def mark(self, identity: str) -> None:
        """It was handled. To mark it again changes nothing."""


@runtime_checkable
class AsyncStore(Protocol):
    """A `Store` for an `AsyncWorker`, which takes both kinds."""

    def seen(self, identity: str) -> Awaitable[bool]:
        """Whether a message with this identity was handled."""

    def mark(self, identity: str) -> Awaitable[None]:
        """It was handled. To mark it again changes nothing."""


class MemoryStore:
    """Remembers the last `count_max` messages, until the process ends.

    It knows the duplicates that a producer sends and those of a rebalance, not those that follow a
    crash.
    """

    def __init__(self, count_max: int = 100_000) -> None:
        if count_max < 1:
            raise ValueError(f"count_max is {count_max}, expected at least 1")
        self._count_max = count_max
        self._handled: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def seen(self, identity: str) -> bool:
        """Whether it is among those remembered."""
        with self._lock:
            return identity in self._handled

    def mark(self, identity: str) -> None:
        """Remember it, and forget the oldest if there are too many."""
        with self._lock:
            self._handled[identity] = None
            self._handled.move_to_end(identity)
            if len(self._handled) > self._count_max:
                self._handled.popitem(last=False)

    def __len__(self) -> int:
        return len(self._handled)


class SqliteStore:
    """Remembers in a file, over crashes, for `keep_seconds`; several processes may share it.

    What a handler does and that it did it are two steps, and a crash may come between them. A
    handler that writes to the same SQLite file closes that gap:

        def bill(message):
            with sqlite3.connect("bills.db") as db:
                store.mark_within(db, message.identity)
                db.execute("insert into bills values (?)", [message.value])
    """

    _TABLE = (
        "create table if not exists penstock_handled"
        " (identity text primary key, at real not null) without rowid"
    )
    _MARK = "insert or ignore into penstock_handled values (?, ?)"

    def __init__(self, path: str | PathLike[str], *, keep_seconds: float = 7 * 86_400) -> None:
        if keep_seconds <= 0:
            raise ValueError(f"keep_seconds is {keep_seconds}, expected more than 0")
        self._keep_seconds = keep_seconds
        self._lock = threading.Lock()
        self._marks = 0
        # Isolation None: each statement is a transaction by itself, on disk when it returns.
        self._db = sqlite3.connect(
            path, timeout=BUSY_SECONDS_MAX, isolation_level=None, check_same_thread=False
        )
        self._db.execute("pragma journal_mode=wal")
        self._db.execute("pragma synchronous=full")
        self._db.execute(self._TABLE)
        self._db.execute("create index if not exists penstock_handled_at on penstock_handled (at)")
        self._prune()

    def seen(self, identity: str) -> bool:
        """Whether it stands in the file."""
        query = "select 1 from penstock_handled where identity = ?"
        with self._lock:
            return self._db.execute(query, [identity]).fetchone() is not None

    def mark(self, identity: str) -> None:
        """Write it, and every thousandth time drop what is too old."""
        with self._lock:
            self._db.execute(self._MARK, [identity, time.time()])
            self._marks += 1
            if self._marks % PRUNE_EVERY == 0:
                self._prune()

    def mark_within(self, connection: sqlite3.Connection, identity: str) -> None:
        """Mark it in a transaction of your own on the same file: what you do there and the mark
        count together, or neither does. Raises `AlreadyHandled` if it is marked."""
        if connection.execute(self._MARK, [identity, time.time()]).rowcount == 0:
            raise AlreadyHandled(identity)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _prune(self) -> None:
        oldest = time.time() - self._keep_seconds
        self._db.execute("delete from penstock_handled where at < ?", [oldest])

"""A worker in a process of its own, to be killed: `python -m tests.system.pattern_worker WHAT ...`.

Each call of its handler leaves a line in a file, written by one call of the system, so that it is
there whatever happens to the process next.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time

from penstock.patterns import Backoff, Message, Once, SqliteStore, Worker


def client(bootstrap: str, group: str, member: str) -> dict[str, str]:
    """One that takes its own place again after a crash, without waiting for a time-out."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.instance.id": member,
        "log_level": "0",
    }


def lines(bootstrap: str, topic: str, group: str, member: str, path: str) -> Worker:
    """At least once, in order: every handled message is a line. Some fail at first; the message
    `poison` ends the process."""
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def handle(message: Message) -> None:
        assert message.value is not None and message.key is not None
        if message.value == b"poison":
            os._exit(9)
        if hash((message.offset, message.partition)) % 50 == 0 and message.attempt == 1:
            raise ConnectionError("fails at first")
        time.sleep(0.001)
        os.write(out, b"%d %d %s\n" % (message.partition, message.offset, message.key))

    return Worker(
        client(bootstrap, group, member),
        topic,
        handle,
        retry=Backoff(first=0.05, tries=3),
        dead_letter=f"dlq.{topic}",
        commit_seconds=0.2,
        in_flight_max=100,
        crashes_max=1,
    )


def bills(bootstrap: str, topic: str, group: str, member: str, path: str) -> Worker:
    """Once: a bill and the mark that it is written belong to one transaction."""
    store = SqliteStore(path)
    with sqlite3.connect(path) as db:
        db.execute("create table if not exists bills (value text)")

    def handle(message: Message) -> None:
        assert message.value is not None
        with sqlite3.connect(path, timeout=30) as db:
            store.mark_within(db, message.identity)
            db.execute("insert into bills values (?)", [message.value.decode()])

    return Worker(
        client(bootstrap, group, member),
        topic,
        handle,
        once=Once(store),
        workers=2,  # a file has one writer at a time
        commit_seconds=0.5,
    )


if __name__ == "__main__":
    {"lines": lines, "bills": bills}[sys.argv[1]](*sys.argv[2:]).run()

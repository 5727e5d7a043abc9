"""What was handled is remembered."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from penstock.patterns import AlreadyHandled, MemoryStore, SqliteStore, Store, stores


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "handled.db")


def test_a_store_knows_what_was_marked(store: Store) -> None:
    assert not store.seen("a")
    store.mark("a")
    store.mark("a")
    assert store.seen("a")
    assert not store.seen("b")


def test_a_store_may_be_asked_by_many_threads(store: Store) -> None:
    def mark(start: int) -> None:
        for number in range(start, start + 50):
            store.mark(str(number))

    threads = [threading.Thread(target=mark, args=[start]) for start in range(0, 200, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(store.seen(str(number)) for number in range(200))


def test_a_memory_forgets_the_oldest_when_it_is_full() -> None:
    store = MemoryStore(count_max=2)
    for identity in ("a", "b", "a", "c"):
        store.mark(identity)
    assert (store.seen("a"), store.seen("b"), store.seen("c")) == (True, False, True)
    assert len(store) == 2


def test_a_file_remembers_over_restarts(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "handled.db")
    first.mark("a")
    first.close()
    assert SqliteStore(tmp_path / "handled.db").seen("a")


def test_a_file_forgets_what_is_older_than_it_has_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(stores, "PRUNE_EVERY", 10)
    store = SqliteStore(tmp_path / "handled.db", keep_seconds=60)
    store.mark("old")
    now += 61
    for number in range(stores.PRUNE_EVERY):
        store.mark(str(number))
    assert not store.seen("old")
    assert store.seen("0")


def test_an_effect_and_its_mark_count_together_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "bills.db"
    store = SqliteStore(path)
    with sqlite3.connect(path) as db:
        db.execute("create table bills (value text)")

    def bill(fails: bool) -> None:
        with sqlite3.connect(path) as db:
            store.mark_within(db, "order 1")
            db.execute("insert into bills values ('one')")
            if fails:
                raise OSError("in between")

    with pytest.raises(OSError, match="in between"):
        bill(fails=True)
    assert not store.seen("order 1")
    bill(fails=False)
    assert store.seen("order 1")
    with pytest.raises(AlreadyHandled):
        bill(fails=False)
    with sqlite3.connect(path) as db:
        assert db.execute("select count(*) from bills").fetchone() == (1,)


def test_stores_without_room_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        MemoryStore(0)
    with pytest.raises(ValueError, match="more than 0"):
        SqliteStore(tmp_path / "x.db", keep_seconds=0)

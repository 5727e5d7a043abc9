"""A leader's snapshot, on its way here: fetched in pieces, then read and written by a worker."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.raft.peers import fetch_snapshot
from penstock.raft.snapshots import CorruptSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.platform.workers import Workers
    from penstock.raft.journal import Journal, Prepared
    from penstock.raft.messages import FetchSnapshot
    from penstock.raft.peers import Peers

log = logging.getLogger("penstock.raft")

BUSY_SECONDS = 0.25
"""How often the machine hears that the leader is not to be missed while a worker reads."""


class SnapshotTaker:
    """Takes snapshots from leaders, up to where they can replace the log in one step."""

    def __init__(self, journal: Journal, peers: Peers, workers: Workers) -> None:
        self._journal = journal
        self._peers = peers
        self._workers = workers

    async def take(
        self, ask: FetchSnapshot, leader: int, on_progress: Callable[[], None]
    ) -> Prepared | None:
        """The snapshot, or None if the leader did not give it, or not whole: to be asked for again.

        OSError if the disk does not take it, UnsupportedLevel and other ValueErrors if it is whole
        and this release cannot read it: then there is no way on.
        """
        try:
            data = await fetch_snapshot(self._peers, ask, leader, on_progress)
        except OSError as problem:
            log.warning("snapshot %s of node %d: %s", ask.snapshot.name, leader, problem)
            return None
        work = self._workers.submit(lambda: self._journal.prepare(ask.snapshot, data))
        while not work.done():
            await asyncio.wait([work], timeout=BUSY_SECONDS)
            on_progress()
        try:
            return work.result()
        except CorruptSnapshot as problem:
            log.error("snapshot %s of node %d: %s", ask.snapshot.name, leader, problem)
            return None

"""Which records of one log wait for their time: a machine that is fed each batch as it is appended.

The log is the truth, and this can be made anew from it at any time, on leaders and followers alike.
What is delivered is so because the log says it, not because somebody remembers to have done it.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.records.batch import CONTROL, TRANSACTIONAL, Bytes, Fields, read_head
from penstock.records.control import read_marker
from penstock.records.varint import InvalidRecord
from penstock.storage.delay_batches import (
    CANCELLED,
    DELIVERED,
    MOVED,
    PARKED,
    RawRow,
    Row,
    kind_of,
    raw_rows,
    read_notice,
)
from penstock.storage.delay_rows import NEVER, WaitingRows


class _Claim(NamedTuple):
    """What a batch said that counts only if the right one follows."""

    said_at: int
    target: int
    crc: int
    is_delivery: bool
    rows: list[RawRow]


class DelayIndex:
    """The delayed records of one log."""

    __slots__ = (
        "_claims",
        "_held",
        "_held_until",
        "changed_at",
        "snapshots",
        "undecided",
        "unsaved",
        "waiting",
    )

    def __init__(self) -> None:
        self.waiting = WaitingRows()
        """Those whose time will come."""
        self.undecided: dict[int, list[Row]] = {}
        """Those of open transactions, by producer: a commit lets them wait, an abort ends them."""
        self.changed_at = -1
        """The offset of the last batch that changed anything here."""
        self.snapshots: list[int] = []
        """The offsets of the files that hold a former state, ascending."""
        self.unsaved = 0
        """Bytes of segments that were sealed since the last of these."""
        self._claims: list[_Claim] = []
        self._held = NEVER
        self._held_until = 0

    def __len__(self) -> int:
        """All that may be delivered one day."""
        return len(self.waiting) + sum(map(len, self.undecided.values()))

    @property
    def earliest(self) -> int:
        """When the next one is due."""
        return self.waiting.earliest

    @property
    def settled_to(self) -> int | None:
        """The offset below which all is told; None: all that was appended is."""
        return self._claims[0].said_at if self._claims else None

    # ── what the log says ───────────────────────────────────────────────────────────────────────

    def note(self, head: Fields, base_offset: int, batch: Bytes) -> None:
        """Take note of a batch; its bytes are looked at only if it is a control batch."""
        if self._claims:
            self._settle(head, base_offset)
        if head[5] & CONTROL:
            if head[9] >= 0:
                self._decide(head[9], base_offset, batch)
            elif kind_of(batch) is not None:
                self._heed(base_offset, batch)

    def _settle(self, head: Fields, base_offset: int) -> None:
        """See whether this is the batch that others before it spoke of."""
        claims, self._claims = self._claims, []
        for claim in claims:
            if claim.target > base_offset:
                self._claims.append(claim)
                continue
            # Also if it comes to nothing: this batch may be cut off, and the right one come.
            self.changed_at = base_offset
            if claim.target == base_offset and claim.crc == head[4]:
                if claim.is_delivery:
                    self._remove(claim.rows)
                elif head[5] & TRANSACTIONAL:
                    rows = self.undecided.setdefault(head[9], [])
                    rows += [Row(due, id_, claim.said_at) for due, id_, _, _ in claim.rows]
                else:
                    self._put(claim.rows, claim.said_at)

    def _decide(self, producer_id: int, offset: int, batch: Bytes) -> None:
        rows = self.undecided.get(producer_id)
        if rows is None:
            return
        marker = read_marker(batch, 0, read_head(batch))
        if marker is not None:
            self.changed_at = offset
            del self.undecided[producer_id]
            if marker.is_commit:
                for row in rows:
                    self.waiting.put(row.due, row.id, row.place)

    def _heed(self, offset: int, batch: Bytes) -> None:
        try:
            notice = read_notice(batch)
            rows = raw_rows(batch, notice)
        except InvalidRecord:
            return  # of a version that is not known here: whoever wrote it will lead again
        if notice.kind in (PARKED, DELIVERED):
            is_delivery = notice.kind == DELIVERED
            self._claims.append(_Claim(offset, notice.target, notice.crc, is_delivery, rows))
            return
        self.changed_at = offset
        if notice.kind == CANCELLED:
            self._remove(rows)
        elif notice.kind == MOVED:
            self._held = min((place for _, _, place, _ in rows), default=self._held)
            self._held_until = offset + 1
            self._put(rows, offset)

    def _put(self, rows: list[RawRow], place: int) -> None:
        put = self.waiting.put
        for due, id_, _, _ in rows:
            put(due, id_, place)

    def _remove(self, rows: list[RawRow]) -> None:
        for due, id_, _, _ in rows:
            self.waiting.remove(due, id_)

    # ── what is deleted ─────────────────────────────────────────────────────────────────────────

    def floor(self, high_watermark: int) -> int:
        """The offset from which on the log must be kept for what waits.

        What was moved counts at its old place until the move is committed: if another leader took
        it back, the old place would be the only one.
        """
        held = self._held if high_watermark < self._held_until else NEVER
        undecided = (row.place for rows in self.undecided.values() for row in rows)
        return min(self.waiting.lowest_place, held, min(undecided, default=NEVER))

    def hold(self, start: int, end: int) -> None:
        """Keep all from `start` on until what was said below `end` is committed: moves among it,
        perhaps, of which nobody knows any more where from."""
        self._held, self._held_until = start, end

    def drop_below(self, start: int) -> None:
        """The log begins at `start` now: what lay below is deleted."""
        self.waiting.drop_below(start)
        self._claims = [each for each in self._claims if each.is_delivery or each.said_at >= start]
        for producer_id, rows in list(self.undecided.items()):
            kept = [row for row in rows if row.place >= start]
            if kept:
                self.undecided[producer_id] = kept
            else:
                del self.undecided[producer_id]

    def forget_claims(self, end: int) -> None:
        """The log was cut at `end`, above all that changed anything: only what was said for a
        batch to come may be gone."""
        self._claims = [claim for claim in self._claims if claim.said_at < end]

"""Delayed records: what their producers wish for, and what a log may not do with them.

- Whoever reads sees a record at one offset, and never before its time. Leaders go by their own
  clocks, so it may be early by as much as clocks were apart; the world says how much that is.
- What was acknowledged is delivered in the end; what belongs to a transaction if that is committed,
  and never to readers of committed records if it is not. All of a transaction's records, or none.
- What is due earlier is delivered earlier; what is due at one time, in the order of arrival.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from penstock.model.delays import DELAY_MS, DELIVER_AT
from penstock.records.record import Header
from penstock.testing.history import History, Poll, Recorder, Send
from penstock.testing.history.transactions import Fate, Transaction
from penstock.testing.sim.clients.violation import Violation

AHEAD_MS_MAX = 2_500
STEP_MS = 500
"""Times of delivery are multiples of it, so that many records have the same."""

Millis = Callable[[], int]


class Wish(NamedTuple):
    """When a record is to be delivered."""

    not_before: int
    """By a clock that is right."""
    due: int | None
    """The time that it names; None if it names none, or says how long it is to wait."""
    headers: Sequence[Header]


class Parked(NamedTuple):
    """A record that had to wait."""

    place: int
    """The offset at which it was delivered."""
    due: int
    told: int
    """The offset that its producer was told, at which it came into the log."""
    value: str


class Wishes:
    """What each record wishes for, and which of them came true: where it was read."""

    def __init__(self, dice: random.Random, now_ms: Millis, apart_ms: Millis) -> None:
        self.read: dict[str, int] = {}
        """The offsets of all values that were read, by anybody."""
        self.read_committed: set[str] = set()
        """Those that a reader of committed records has read."""
        self._dice = dice
        self._now_ms = now_ms
        self._apart_ms = apart_ms
        self._wishes: dict[str, Wish] = {}

    def headers_of(self, value: str) -> Sequence[Header]:
        """A wish for a new value; the same one as before for one that is sent again."""
        wish = self._wishes.get(value)
        if wish is None:
            wish = self._wishes[value] = self._make()
        return wish.headers

    def _make(self) -> Wish:
        dice, now = self._dice, self._now_ms()
        ahead, kind = dice.randint(0, AHEAD_MS_MAX), dice.random()
        if kind < 0.1:
            return Wish(now, None, ())
        if kind < 0.4:
            return Wish(now + ahead, None, [(DELAY_MS, b"%d" % ahead)])
        due = (now + ahead) // STEP_MS * STEP_MS
        return Wish(due, due, [(DELIVER_AT, b"%d" % due)])

    def see(self, poll: Poll) -> None:
        """Somebody has read records."""
        now, apart = self._now_ms(), self._apart_ms()
        for offset, value in poll.records:
            wish = self._wishes.get(value)
            if wish is None:
                raise Violation(f"nobody sent {value}, which was read at {offset}")
            if self.read.setdefault(value, offset) != offset:
                raise Violation(f"{value} was delivered at {self.read[value]} and at {offset}")
            if now < wish.not_before - apart:
                early = wish.not_before - now
                raise Violation(
                    f"{value} was read {early} ms too early, with clocks {apart} ms apart"
                )
        if poll.committed:
            self.read_committed.update(value for _, value in poll.records)

    # -- the end ------------------------------------------------------------------------------

    def missing(self, history: History) -> list[str]:
        """What was acknowledged, and committed, and not read yet."""
        transactions = history.transactions
        return [
            send.value
            for send in history.sends
            if send.is_ok and send.value not in self.read_committed
            if not send.transaction or transactions[send.transaction].fate is Fate.COMMITTED
        ]

    def judge(self, history: History) -> None:
        """All has been delivered that will ever be, and has been read."""
        lost = self.missing(history)
        if lost:
            raise Violation(f"{len(lost)} records were acknowledged and not delivered: {lost[:5]}")
        for transaction in history.transactions.values():
            self._judge_transaction(transaction)
        told: dict[int, str] = {}
        for send in history.sends:
            if send.is_ok and told.setdefault(send.offset, send.value) != send.value:
                other = told[send.offset]
                raise Violation(f"{send.value} and {other} were both told to be at {send.offset}")
        self._judge_order([send for send in history.sends if not send.transaction])
        for transaction in history.transactions.values():
            self._judge_order(transaction.sends)

    def _judge_transaction(self, transaction: Transaction) -> None:
        read = [send.value for send in transaction.sends if send.value in self.read_committed]
        if read and transaction.fate is Fate.ABORTED:
            raise Violation(f"{transaction.label} was aborted, and {read} were delivered")
        unread = [send.value for send in transaction.sends if send.is_ok and send.value not in read]
        if read and unread:
            raise Violation(f"of {transaction.label}, {read} were delivered and {unread} were not")

    def _judge_order(self, sends: Sequence[Send]) -> None:
        """What waited when another was delivered was not due before it."""
        for first, second in combinations(sorted(self._parked(sends)), 2):
            if (second.due, second.told) < (first.due, first.told) and second.told < first.place:
                raise Violation(f"{first} overtook {second}")

    def _parked(self, sends: Sequence[Send]) -> Iterator[Parked]:
        """Records that were delivered elsewhere than their producer was told: they had to wait."""
        for send in sends:
            place, wish = self.read.get(send.value), self._wishes.get(send.value)
            if place is None or wish is None or wish.due is None or not send.is_ok:
                continue
            if place != send.offset:
                yield Parked(place, wish.due, send.offset, send.value)


class Witness(Recorder):
    """A reader's notes, judged as they are taken."""

    def __init__(self, client: str, clock: Callable[[], int], wishes: Wishes) -> None:
        super().__init__(client, clock=clock)
        self._wishes = wishes

    def note(self, operation: Poll, began: int | None = None) -> Poll:  # type: ignore[override]
        """What a reader found."""
        super().note(operation, began)
        self._wishes.see(operation)
        return operation

"""Transactions: all of one is visible, or nothing."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.testing.history.history import History
from penstock.testing.history.operations import Operation, Send
from penstock.testing.history.transactions import Fate, Transaction
from penstock.testing.history.verdict import Verdict

TORN = "transactions are all or nothing"
ABORTED = "aborted transactions are never visible"
MISSING = "committed transactions are visible"


def all_or_nothing(history: History) -> Iterator[Verdict]:
    """If one record of a transaction is visible, all of them are, in every partition."""
    for transaction in history.transactions.values():
        shown, hidden = _split(history, transaction)
        if shown and hidden:
            says = (
                f"of transaction {transaction.label} ({transaction.fate.value}), "
                f"{len(shown)} records are visible and {len(hidden)} are not"
            )
            yield _verdict(TORN, says, shown[0], hidden[0], *transaction.ends)


def aborted_is_invisible(history: History) -> Iterator[Verdict]:
    """No reader of committed transactions sees a record of an aborted one."""
    for transaction in history.transactions.values():
        if transaction.fate is not Fate.ABORTED:
            continue
        shown, _ = _split(history, transaction)
        if shown:
            says = (
                f"transaction {transaction.label} was aborted, and {shown[0].value!r} is visible "
                f"in {shown[0].place}"
            )
            yield _verdict(ABORTED, says, shown[0], *transaction.ends)


def committed_is_visible(history: History) -> Iterator[Verdict]:
    """Readers of committed transactions see all that was committed where they look."""
    for transaction in history.transactions.values():
        if transaction.fate is not Fate.COMMITTED:
            continue
        shown, hidden = _split(history, transaction)
        if hidden and not shown:  # both: `all_or_nothing` tells it
            says = (
                f"transaction {transaction.label} was committed, but readers went over "
                f"{hidden[0].value!r} in {hidden[0].place} and did not see it"
            )
            yield _verdict(MISSING, says, hidden[0], *transaction.ends)


def _split(history: History, transaction: Transaction) -> tuple[list[Send], list[Send]]:
    """The records that readers saw, and the acknowledged ones that they went over without."""
    shown: list[Send] = []
    hidden: list[Send] = []
    for send in transaction.sends:
        seen = history.was_seen(send, committed=True)
        if seen:
            shown.append(send)
        elif seen is False and send.is_ok:
            hidden.append(send)
    return shown, hidden


def _verdict(name: str, says: str, send: Send, *others: Operation) -> Verdict:
    return Verdict(name, says, (send, *others), send.place, send.offset)

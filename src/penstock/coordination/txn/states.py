"""The states of a transactional id, and all ways from one to another."""

from __future__ import annotations

from enum import Enum, IntEnum


class TxnState(IntEnum):
    """As `__transaction_state` numbers them."""

    EMPTY = 0
    """Initialised; nothing was written under the current epoch."""
    ONGOING = 1
    """Partitions have joined; readers of committed records wait for the outcome."""
    PREPARE_COMMIT = 2
    """Committed for good; the markers that say so are on their way."""
    PREPARE_ABORT = 3
    """Aborted for good; the markers that say so are on their way."""
    COMPLETE_COMMIT = 4
    """Committed, and every partition knows it: the next transaction may begin."""
    COMPLETE_ABORT = 5
    """Aborted, and every partition knows it: the next transaction may begin."""
    DEAD = 6
    """Forgotten: a tombstone, never a record of its own."""
    PREPARE_EPOCH_FENCE = 7
    """Known by number and name only. Fencing and aborting are one step here, so no transaction is
    ever seen in between."""

    @property
    def title(self) -> str:
        """As DescribeTransactions and ListTransactions spell it."""
        return _TITLES[self]


_TITLES = {state: state.name.title().replace("_", "") for state in TxnState}
BY_TITLE = {title: state for state, title in _TITLES.items()}


class Event(Enum):
    """What can happen to a transactional id."""

    INIT = "a producer introduces itself"
    ADD = "a partition joins the transaction"
    COMMIT = "the producer commits"
    ABORT = "the producer aborts"
    FENCE = "another producer or the clock ends it"
    COMPLETE = "all markers are written"
    EXPIRE = "nobody used the id for long"


NEXT = {
    (TxnState.EMPTY, Event.INIT): TxnState.EMPTY,
    (TxnState.COMPLETE_COMMIT, Event.INIT): TxnState.EMPTY,
    (TxnState.COMPLETE_ABORT, Event.INIT): TxnState.EMPTY,
    (TxnState.EMPTY, Event.ADD): TxnState.ONGOING,
    (TxnState.ONGOING, Event.ADD): TxnState.ONGOING,
    (TxnState.COMPLETE_COMMIT, Event.ADD): TxnState.ONGOING,
    (TxnState.COMPLETE_ABORT, Event.ADD): TxnState.ONGOING,
    (TxnState.ONGOING, Event.COMMIT): TxnState.PREPARE_COMMIT,
    (TxnState.ONGOING, Event.ABORT): TxnState.PREPARE_ABORT,
    (TxnState.ONGOING, Event.FENCE): TxnState.PREPARE_ABORT,
    # From transaction version 2 on a producer may abort what has not reached the coordinator:
    # its epoch rises, and whatever is still on its way is fenced.
    (TxnState.EMPTY, Event.ABORT): TxnState.PREPARE_ABORT,
    (TxnState.COMPLETE_COMMIT, Event.ABORT): TxnState.PREPARE_ABORT,
    (TxnState.COMPLETE_ABORT, Event.ABORT): TxnState.PREPARE_ABORT,
    (TxnState.PREPARE_COMMIT, Event.COMPLETE): TxnState.COMPLETE_COMMIT,
    (TxnState.PREPARE_ABORT, Event.COMPLETE): TxnState.COMPLETE_ABORT,
    (TxnState.EMPTY, Event.EXPIRE): TxnState.DEAD,
    (TxnState.COMPLETE_COMMIT, Event.EXPIRE): TxnState.DEAD,
    (TxnState.COMPLETE_ABORT, Event.EXPIRE): TxnState.DEAD,
}
"""All that may happen; any other pair is a request out of turn, which is refused, or our fault."""

ENDING = frozenset((TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT))
"""Decided, and not everywhere known: nothing else may happen until all markers are written."""

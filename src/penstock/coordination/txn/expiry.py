"""Transactional ids that nobody has used for long are forgotten."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from penstock.coordination.txn.ending import also_if_refused
from penstock.coordination.txn.shard import EXPIRY
from penstock.coordination.txn.states import NEXT, Event
from penstock.model.ids import Millis
from penstock.protocol.generated.transaction_records import TransactionLogKey

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.txn.shard import TxnShard

TOMBSTONES_PER_STEP = 1000


def expire(shard: TxnShard, at: Moment, out: Effects) -> None:
    """Write tombstones, some at a time."""
    before = at.wall - shard.settings.expiration_ms
    idle = (
        name
        for name, transaction in shard.transactions.items()
        if transaction.updated <= before and (transaction.state, Event.EXPIRE) in NEXT
    )
    found = list(islice(idle, TOMBSTONES_PER_STEP))
    out.atomic = False
    for name in found:
        out.record(TransactionLogKey(transactional_id=name), None)
    more = len(found) == TOMBSTONES_PER_STEP
    delay = 0 if more else shard.settings.expiration_check_ms
    due = Millis(at.mono + delay)
    out.timer(EXPIRY, due)
    also_if_refused(out, lambda _, amends: amends.timer(EXPIRY, max(due, Millis(at.mono + 1000))))

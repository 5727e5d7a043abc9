"""What a log holds, against what its producers were told."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.testing.history.history import History
from penstock.testing.history.operations import UNSET, Operation, Place, Send
from penstock.testing.history.transactions import Fate
from penstock.testing.history.verdict import Verdict

LOST = "nothing acknowledged is lost"
UNREAD = "everything acknowledged was read"
ONE_VALUE = "one value per offset"
DUPLICATE = "no duplicates from an idempotent producer"
NOWHERE = "nothing comes from nowhere"


def acknowledged_is_kept(history: History) -> Iterator[Verdict]:
    """An acknowledged record stands where its producer was told, for everyone who looks there."""
    for send in history.sends:
        if not send.is_ok:
            continue
        if send.offset == UNSET:
            yield from _found_nowhere(history, send)
            continue
        # A transaction's records may be hidden from readers of committed ones: see `transactions`.
        isolations = (False,) if send.transaction else (False, True)
        views = [history.view(send.place, committed=each) for each in isolations]
        if any(send.offset in view.records for view in views):
            continue  # if it is another record, `one_value_per_offset` tells it
        if any(send.offset in view.covered for view in views):
            told = f"readers went over offset {send.offset} of {send.place} and it was not there"
            yield Verdict(LOST, told, (send,), send.place, send.offset)
            continue
        for poll in views[0].polls:
            if poll.at_end and poll.began > send.ended and poll.end <= send.offset:
                told = (
                    f"{send.place} ended at {poll.end} when offset {send.offset} had been "
                    "acknowledged already"
                )
                yield Verdict(LOST, told, (send, poll), send.place, send.offset)
                break


def _found_nowhere(history: History, send: Send) -> Iterator[Verdict]:
    """A retry may be confirmed without an offset: who reads everything afterwards must find it."""
    view = history.view(send.place, committed=False)
    if send.value in view.offsets:
        return
    for poll in view.polls:
        if poll.at_end and poll.began > send.ended and view.covered.reaches(poll.end):
            told = (
                f"readers went over all of {send.place} up to {poll.end} after {send.value!r} "
                "had been acknowledged, and it was not there"
            )
            yield Verdict(LOST, told, (send, poll), send.place, poll.end)
            return


def acknowledged_was_read(history: History) -> Iterator[Verdict]:
    """Somebody looked at every acknowledged record: or all other checks would say little.

    Where there are readers of committed transactions, they must have come to what is committed: if
    they could not, a marker is missing.
    """
    ends: dict[Place, list[Send]] = {}
    for send in history.sends:
        if not send.is_ok or send.offset == UNSET:
            continue
        if send.transaction and history.transactions[send.transaction].fate is not Fate.COMMITTED:
            continue
        views = [history.view(send.place, committed=each) for each in (True, False)]
        if send.transaction and views[0].polls:
            views.pop()
        if not any(send.offset in view.covered for view in views):
            ends.setdefault(send.place, []).append(send)
    for place, unread in ends.items():
        furthest = max(history.view(place, committed=each).covered.end for each in (False, True))
        first = min(unread, key=lambda send: send.offset)
        told = (
            f"{len(unread)} acknowledged records of {place} were never read, the first at "
            f"{first.offset}; readers came to {furthest}. If they could not go on, the last stable "
            "offset is stuck; if nobody tried, read the partition to its end"
        )
        yield Verdict(UNREAD, told, (first,), place, first.offset)


def one_value_per_offset(history: History) -> Iterator[Verdict]:
    """Whoever speaks of an offset speaks of the same record: producers and readers, for ever."""
    known: dict[Place, dict[int, tuple[str, Operation]]] = {place: {} for place in history.places}
    told: set[tuple[Place, int]] = set()
    for place, offset, value, operation in _claims(history):
        first, witness = known[place].setdefault(offset, (value, operation))
        if first != value and (place, offset) not in told:
            told.add((place, offset))
            says = f"offset {offset} of {place} is {first!r} to one and {value!r} to another"
            yield Verdict(ONE_VALUE, says, (witness, operation), place, offset)


def _claims(history: History) -> Iterator[tuple[Place, int, str, Operation]]:
    for send in history.sends:
        if send.is_ok and send.offset != UNSET:
            yield send.place, send.offset, send.value, send
    for poll in history.polls:
        place = poll.place
        for offset, value in poll.records:
            yield place, offset, value, poll


def no_duplicates(history: History) -> Iterator[Verdict]:
    """An idempotent producer's record stands at one offset, however often it was retried."""
    for (place, value), sends in history.sends_of.items():
        possible = [send for send in sends if send.may_have_happened]
        if not possible or not all(send.idempotent for send in possible):
            continue
        offsets = history.offsets_of(place, value)
        if len(offsets) > len(possible):
            at = sorted(offsets)
            times = "once" if len(possible) == 1 else f"{len(possible)} times"
            says = f"{value!r} was sent {times} and stands at offsets {at} of {place}"
            yield Verdict(DUPLICATE, says, tuple(possible), place, at[-1])


def nothing_from_nowhere(history: History) -> Iterator[Verdict]:
    """What is read was sent, and its sending did not fail.

    Topics that no recorded producer wrote to are left alone: their producers keep no history.
    """
    written = {send.topic for send in history.sends}
    told: set[tuple[Place, str]] = set()
    for poll in history.polls:
        if poll.topic not in written:
            continue
        place = poll.place
        for offset, value in poll.records:
            sends = history.sends_of.get((place, value), [])
            if (place, value) in told or any(send.may_have_happened for send in sends):
                continue
            told.add((place, value))
            why = "its sending failed" if sends else "nobody sent it"
            says = f"{value!r} was read at offset {offset} of {place}, but {why}"
            yield Verdict(NOWHERE, says, (*sends, poll), place, offset)

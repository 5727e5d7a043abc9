"""Share groups: what is done with stays done with, and everybody gets something that was there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from penstock.testing.history.history import History
from penstock.testing.history.operations import UNSET, Deliver, Place, Settle
from penstock.testing.history.verdict import Check, Verdict

SETTLED = "what a share group is done with is not delivered again"
DELIVERED = "a share group delivers what was sent, where it was sent"
MISSING = "a share group is done with every record"
COUNTED = "deliveries are counted one by one"
LIMITED = "no record is delivered more often than the group allows"

FINAL = ("accept", "reject")

Key = tuple[str, Place, int]
"""A group, and a record by its place."""


def settled_stays_settled(history: History) -> Iterator[Verdict]:
    """Once the broker said that an accept or a reject counts, nobody gets the record again.

    A poll that began before may have been answered before. But whoever got the record for the
    third time got it after all who had it for the second time had lost it: their word cannot have
    counted any more. Unless somebody else was done with the record by then, and any word is fine,
    or the one who speaks of the second time had asked before, and been given it for the third time
    without knowing.
    """
    final = _final(history)
    spoken = _final(history, unknown_too=True)
    for delivery in history.deliveries:
        for settled in final.get(_key(delivery), ()):
            later = delivery.began > settled.ended
            again = UNSET < settled.deliveries < delivery.deliveries
            unknowing = settled.client == delivery.client and delivery.began < settled.began
            excused = unknowing or _came_late(settled, spoken[_key(settled)])
            if later or (again and not excused):
                says = (
                    f"{delivery.value!r} was delivered to {delivery.client} although "
                    f"{settled.client} had said {settled.word} and was heard"
                )
                yield Verdict(SETTLED, says, (settled, delivery), delivery.place, delivery.offset)


def deliveries_are_what_was_sent(history: History) -> Iterator[Verdict]:
    """A delivered record is one that somebody may have sent, at the offset that they were told."""
    sent = {(send.place, send.value): send for send in history.sends if send.may_have_happened}
    topics = {send.topic for send in history.sends}
    for delivery in history.deliveries:
        if delivery.topic not in topics:
            continue
        send = sent.get((delivery.place, delivery.value))
        if send is None:
            says = f"{delivery.value!r} was delivered, and nobody sent it to {delivery.place}"
            yield Verdict(DELIVERED, says, (delivery,), delivery.place, delivery.offset)
        elif send.offset not in (UNSET, delivery.offset):
            says = f"{delivery.value!r} was stored at {send.offset} and delivered as another"
            yield Verdict(DELIVERED, says, (send, delivery), delivery.place, delivery.offset)


def shared_out(group: str, topic: str, deliveries_max: int = 0) -> Check:
    """Make a check: the group is done with all that was sent to the topic, when it is over.

    With `deliveries_max`, a record that was delivered so often may have been given up.
    """

    def check(history: History) -> Iterator[Verdict]:
        final = {key for key, settled in _final(history, unknown_too=True).items() if settled}
        most: defaultdict[Key, int] = defaultdict(int)
        for each in history.deliveries:
            most[_key(each)] = max(most[_key(each)], each.deliveries)
        for send in history.sends:
            if not send.is_ok or send.topic != topic or send.offset == UNSET:
                continue
            key = (group, send.place, send.offset)
            given_up = 0 < deliveries_max <= most[key]
            if key not in final and not given_up:
                says = f"{send.value!r} was sent, and {group} never was done with it"
                yield Verdict(MISSING, says, (send,), send.place, send.offset)
        for key, count in most.items():
            if 0 < deliveries_max < count:
                says = f"offset {key[2]} was delivered {count} times; {deliveries_max} are allowed"
                yield Verdict(LIMITED, says, (), key[1], key[2])

    return check


def deliveries_count_up(history: History) -> Iterator[Verdict]:
    """Each delivery of a record has the next number: for histories in which no broker died.

    One that takes over does not know of deliveries of which it has heard nothing.
    """
    known: dict[Key, Deliver] = {}
    for delivery in sorted(history.deliveries, key=lambda each: each.ended):
        before = known.get(_key(delivery))
        expected = 1 if before is None else before.deliveries + 1
        if delivery.deliveries != expected:
            says = f"delivery {delivery.deliveries} of {delivery.value!r}, where {expected} was due"
            shown = (delivery,) if before is None else (before, delivery)
            yield Verdict(COUNTED, says, shown, delivery.place, delivery.offset)
        known[_key(delivery)] = delivery


def _final(history: History, unknown_too: bool = False) -> dict[Key, list[Settle]]:
    final: defaultdict[Key, list[Settle]] = defaultdict(list)
    for each in history.settlements:
        if each.word in FINAL and (each.is_ok or (unknown_too and each.may_have_happened)):
            final[_key(each)].append(each)
    return final


def _came_late(settled: Settle, spoken: list[Settle]) -> bool:
    """Whether one of a later delivery may have been done with the record before this was heard."""
    return any(
        other.deliveries > settled.deliveries and other.began < settled.ended for other in spoken
    )


def _key(each: Deliver | Settle) -> Key:
    return each.group, each.place, each.offset

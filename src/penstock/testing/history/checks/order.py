"""The order of records, against the order in which they were sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from penstock.testing.history.history import History
from penstock.testing.history.operations import Place, Send
from penstock.testing.history.verdict import Verdict

PRODUCER_ORDER = "order per producer and partition"
REAL_TIME = "a later send lands above"


def producers_keep_order(history: History) -> Iterator[Verdict]:
    """An idempotent producer's records stand in the order in which it sent them."""
    by_producer: dict[tuple[str, Place], list[Send]] = defaultdict(list)
    for send in history.sends:
        if send.idempotent:
            by_producer[send.client, send.place].append(send)
    for (client, place), sends in by_producer.items():
        sends.sort(key=lambda send: send.number)
        before: tuple[int, Send] | None = None
        for send in sends:
            offset = history.offset_of(send)
            if offset is None:
                continue
            if before is not None and offset <= before[0]:
                says = (
                    f"{client} sent {before[1].value!r} before {send.value!r}; in {place} they "
                    f"stand at {before[0]} and {offset}"
                )
                yield Verdict(PRODUCER_ORDER, says, (before[1], send), place, offset)
            else:
                before = offset, send


def later_sends_land_above(history: History) -> Iterator[Verdict]:
    """A send that begins after an acknowledgement was received lands above what it confirmed."""
    by_place: dict[Place, list[Send]] = defaultdict(list)
    for send in history.sends:
        if history.offset_of(send) is not None:
            by_place[send.place].append(send)
    for place, sends in by_place.items():
        acknowledged = sorted((send for send in sends if send.is_ok), key=lambda send: send.ended)
        highest: tuple[int, Send] | None = None
        at = 0
        for send in sends:  # in the order in which they began
            while at < len(acknowledged) and acknowledged[at].ended < send.began:
                offset = acknowledged[at].offset
                if highest is None or offset > highest[0]:
                    highest = offset, acknowledged[at]
                at += 1
            landed = history.offset_of(send)
            if highest is not None and landed is not None and landed <= highest[0]:
                says = (
                    f"{send.value!r} landed at {landed} of {place}, but {highest[0]} had been "
                    "acknowledged before it was sent"
                )
                yield Verdict(REAL_TIME, says, (highest[1], send), place, landed)

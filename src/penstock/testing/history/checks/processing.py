"""Read, process, write: each input once in the output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from penstock.testing.history.history import History
from penstock.testing.history.operations import Operation
from penstock.testing.history.verdict import Check, Verdict

MISSING = "every input is in the output"
DOUBLED = "no input is in the output twice"


def exactly_once(
    source: str, sink: str, origin: Callable[[str], str] = lambda value: value
) -> Check:
    """Make a check: each record sent to topic `source` is in topic `sink` exactly once.

    `origin` tells from an output's value which input it was made of. Read the sink to its end
    with readers of committed transactions.
    """

    def check(history: History) -> Iterator[Verdict]:
        inputs = {send.value: send for send in history.sends if send.topic == source}
        times: Counter[str] = Counter()
        witness: dict[str, Operation] = {}
        for place in history.places:
            if place.topic != sink:
                continue
            for sighting in history.view(place, committed=True).records.values():
                times[origin(sighting.value)] += 1
                witness[origin(sighting.value)] = sighting.poll
        for value, send in inputs.items():
            if send.is_ok and not times[value]:
                says = f"{value!r} was sent to {source} and nothing in {sink} was made of it"
                yield Verdict(MISSING, says, (send,), send.place, send.offset)
        for value, count in times.items():
            if count > 1:
                says = f"{value!r} of {source} is in {sink} {count} times"
                yield Verdict(DOUBLED, says, (witness[value],))

    return check

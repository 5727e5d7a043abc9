"""A game: faults by chance, one after another, until time is up."""

from __future__ import annotations

import random
import subprocess
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from confluent_kafka import KafkaException

from penstock.testing.history import History, Place
from tests.system.chaos.faults import UNSERVED, Fault, possible
from tests.system.chaos.load import SINK, Load
from tests.system.chaos.trio import Trio

PROGRESS_SECONDS_MAX = 60.0
STALLED_SECONDS_MAX = 120.0
"""A copier may be taken for dead, and its transaction time out, and fault follow upon fault."""
LASTS_SECONDS = (1.0, 6.0)
QUIET_SECONDS = (0.5, 2.0)
_NS = 1_000_000_000


@dataclass(slots=True)
class Played:
    """A fault, and when it began, was put right, and was over."""

    kind: str
    what: str
    began: int
    healed: int = 0
    over: int = 0

    def silence(self, acknowledged: dict[Place, list[int]]) -> float:
        """The longest time, in seconds, without an acknowledgement in some partition."""
        worst = 0
        for times in acknowledged.values():
            before = self.began
            for at in times[bisect_right(times, self.began) : bisect_right(times, self.over)]:
                worst = max(worst, at - before)
                before = at
        return worst / _NS


class Game:
    """Plays faults on nodes that are at work. `tell` hears what happens."""

    def __init__(
        self, trio: Trio, load: Load, seed: int, tell: Callable[[str], None] = print
    ) -> None:
        self.trio = trio
        self.load = load
        self.chance = random.Random(seed)
        self.tell = tell
        self.played: list[Played] = []
        self.problems: list[str] = []
        self._places = [place for place in load.places if place.topic != SINK]

    def play(self, seconds: float) -> None:
        """Until time is up, or something is so wrong that nothing more can be learnt."""
        deadline = time.monotonic() + seconds
        self.wait_progress(time.time_ns())
        for kind, fault in self._deck():
            if time.monotonic() >= deadline or self.problems:
                break
            time.sleep(self.chance.uniform(*QUIET_SECONDS))
            self.play_one(kind, fault, self.chance.uniform(*LASTS_SECONDS))

    def play_one(self, kind: str, fault: Fault, lasts_seconds: float) -> Played:
        """Begin a fault, let it last, put it right, and wait until all is well."""
        played = Played(kind, "", time.time_ns())
        self.played.append(played)
        try:
            harm = fault(self.trio, self._places, self.chance)
            played.what = next(harm)
            try:
                time.sleep(lasts_seconds)
                if kind not in UNSERVED:
                    self.wait_progress(time.time_ns(), "while it lasted")
            finally:
                next(harm, None)
            played.healed = time.time_ns()
            self.wait_progress(played.healed, "when all was put right")
            self.trio.wait_settled()
            stalled = self.load.stalled_seconds
            assert stalled < STALLED_SECONDS_MAX, f"nothing was copied for {stalled:.0f} s"
        except (AssertionError, KafkaException, subprocess.TimeoutExpired) as problem:
            self.problems.append(f"{kind} ({played.what}): {problem}")
        played.healed = played.healed or time.time_ns()
        played.over = time.time_ns()
        self.tell(
            f"{kind}: {played.what}; well again {(played.over - played.healed) / _NS:.1f} s "
            f"after it was put right; {self.load.acknowledged} acknowledged"
        )
        return played

    def wait_progress(self, since: int, when: str = "") -> None:
        """Until something that was sent since then is acknowledged in every partition."""
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while silent := self.load.silent_since(since):
            assert time.monotonic() < deadline, (
                f"nothing sent to {', '.join(map(str, silent))} was acknowledged in "
                f"{PROGRESS_SECONDS_MAX:g} s {when}"
            )
            time.sleep(0.05)

    def _deck(self) -> Iterator[tuple[str, Fault]]:
        """All kinds in an order by chance, and again: a short game meets as many as it can."""
        kinds = list(possible(self.trio).items())
        while True:
            self.chance.shuffle(kinds)
            yield from kinds


def acknowledgements(history: History) -> dict[Place, list[int]]:
    """When sends outside of transactions were acknowledged, in each partition."""
    found: dict[Place, list[int]] = {}
    for send in history.sends:
        if send.is_ok and not send.transaction:
            found.setdefault(send.place, []).append(send.ended)
    return {place: sorted(times) for place, times in found.items()}

"""A game in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.testing.history import History, Outcome
from tests.system.chaos.run import Played, acknowledgements


@dataclass(slots=True)
class Game:
    """What there is to tell."""

    seed: int
    minutes: float
    played: Sequence[Played]
    history: History
    wrong: Sequence[str]


def markdown(game: Game) -> str:
    """The whole page."""
    return "\n".join([*_head(game), *_faults(game), *_operations(game), *_violations(game)]) + "\n"


def _head(game: Game) -> Iterator[str]:
    verdict = f"{len(game.wrong)} violations" if game.wrong else "No violations"
    sends = [each for each in game.history.sends if each.is_ok]
    yield "# Chaos over three nodes"
    yield ""
    yield (
        f"{verdict}. {game.minutes:.1f} minutes, seed {game.seed}: {len(game.played)} faults, "
        f"{len(game.history)} operations, {len(sends)} records acknowledged."
    )
    yield ""
    yield (
        "Three combined nodes, three replicas, min.insync.replicas 2, acks=all. Idempotent "
        "producers, a copier in transactions, readers of both isolations and a member of a group "
        "were at work all the while."
    )
    yield ""


def _faults(game: Game) -> Iterator[str]:
    times = acknowledgements(game.history)
    by_kind: dict[str, list[Played]] = {}
    for each in game.played:
        by_kind.setdefault(each.kind, []).append(each)
    yield "## Faults"
    yield ""
    yield (
        "Silence: the longest time without an acknowledgement in any one partition, while the "
        "fault lasted and until all replicas were in sync again. A fault lasts one to six seconds "
        "by choice; pauses last beyond the session's end."
    )
    yield ""
    yield "| fault | played | worst silence, s | typical silence, s | worst recovery, s |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for kind, played in sorted(by_kind.items()):
        silences = sorted(each.silence(times) for each in played)
        recovery = max((each.over - each.healed) / 1e9 for each in played)
        yield (
            f"| {kind} | {len(played)} | {silences[-1]:.1f} | "
            f"{silences[len(silences) // 2]:.1f} | {recovery:.1f} |"
        )
    yield ""


def _operations(game: Game) -> Iterator[str]:
    counts = Counter((each.NAME, each.outcome) for each in game.history.operations)
    yield "## Operations"
    yield ""
    yield "| operation | ok | failed | unknown |"
    yield "| --- | ---: | ---: | ---: |"
    for name in sorted({name for name, _ in counts}):
        row = " | ".join(str(counts[name, each]) for each in Outcome)
        yield f"| {name} | {row} |"
    yield ""


def _violations(game: Game) -> Iterator[str]:
    yield "## Violations"
    yield ""
    if not game.wrong:
        yield (
            "None: nothing acknowledged is missing, nothing stands twice, every producer's order "
            "is kept, no offset has had two values, what readers could see stayed visible, "
            "transactions are whole, each input was copied once, groups' positions are as "
            "committed, and the replicas are equal byte by byte."
        )
    for wrong in game.wrong:
        yield "```"
        yield wrong.rstrip()
        yield "```"

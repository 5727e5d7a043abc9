"""Dead letters as documents and tables: how many of which kind, and one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from penstock.cli.dlq_choice import Choice
from penstock.cli.dlq_letter import Letter
from penstock.cli.dlq_memory import was_sent
from penstock.cli.dlq_topics import Access, letters, start_of
from penstock.cli.failure import say
from penstock.cli.lines import field_json, header_json
from penstock.cli.output import Table
from penstock.cli.positions import Kind, Position
from penstock.pipeline.redrive_progress import Progress as Redriven

Document = dict[str, Any]

CELL_CHARACTERS_MAX = 60
"""How much of a key or a message a table shows; JSON has it all."""


class Kin(NamedTuple):
    """What the letters of one line have in common."""

    group: str
    source: str
    reason: str


def count(
    access: Access,
    topic: str,
    partitions: int,
    choice: Choice,
    sent: Mapping[int, Redriven] | None,
    read_max: int,
) -> list[Document]:
    """How many letters of a topic there are of each kind; of very many, the newest are read."""
    totals: Counter[Kin] = Counter()
    waiting: Counter[Kin] = Counter()
    times: dict[Kin, tuple[int, int]] = {}
    seen = 0
    start = start_of(choice)
    newest = Position(Kind.BEFORE_END, max(1, read_max // partitions))
    with letters(access, topic, newest if start.kind is Kind.START else start) as batches:
        for batch in batches:
            seen += len(batch)
            for letter in batch:
                if not choice.takes(letter):
                    continue
                kin = Kin(letter.group, letter.source.topic, letter.reason)
                totals[kin] += 1
                waiting[kin] += not was_sent(letter, sent or {})
                first, last = times.get(kin, (letter.time_ms, letter.time_ms))
                times[kin] = min(first, letter.time_ms), max(last, letter.time_ms)
            if seen >= read_max:
                say(f"of {topic} no more than {seen:,} letters were read; --read N reads more")
                break
    return [
        {
            "topic": topic,
            **kin._asdict(),
            "letters": number,
            "waiting": None if sent is None else waiting[kin],
            "oldest": time_text(times[kin][0]),
            "newest": time_text(times[kin][1]),
        }
        for kin, number in sorted(totals.items(), key=lambda one: (-one[1], one[0]))
    ]


def document(letter: Letter, sent: bool | None) -> Document:
    """All about a letter, for programs; what is not text is in base64."""
    own = [one for one in letter.headers if one[0] not in letter.told]
    return {
        "partition": letter.partition,
        "offset": letter.offset,
        "time": time_text(letter.time_ms),
        "reason": letter.reason,
        "message": letter.message or None,
        "group": letter.group or None,
        "source": letter.source._asdict() if letter.source.topic else None,
        "deliveries": letter.deliveries,
        "redrives": letter.redrives,
        "sent": sent,
        **field_json("key", letter.key),
        **field_json("value", letter.value),
        "copy": letter.is_copy,
        "headers": [[name, header_json(value)] for name, value in own],
        "told": letter.told,
    }


def table(found: list[tuple[Letter, bool | None]]) -> Table:
    """Letters, and whether they were sent if that is known, for people."""
    headings = ("at", "time", "group", "source", "deliveries", "sent", "key", "reason", "message")
    return Table(
        headings,
        [
            [
                f"{one.partition}:{one.offset}",
                time_text(one.time_ms),
                one.group,
                str(one.source) if one.source.topic else None,
                one.deliveries,
                sent,
                _short(None if one.key is None else one.key.decode("utf-8", "backslashreplace")),
                _short(one.reason),
                _short(one.message),
            ]
            for one, sent in found
        ],
    )


def _short(text: str | None) -> str | None:
    if text is None or len(text) <= CELL_CHARACTERS_MAX:
        return text
    return text[: CELL_CHARACTERS_MAX - 1] + "…"


def time_text(time_ms: int) -> str:
    """A time as people write it, in UTC and to the millisecond."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"@{time_ms}"  # anybody can write a header, and not every number is a date
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

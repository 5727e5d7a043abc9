"""Deleting dead letters: all below a point, which is the only way in which a log can shrink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from penstock.cli import client
from penstock.cli.dlq_choice import Choice
from penstock.cli.dlq_letter import Letter
from penstock.cli.dlq_memory import was_sent
from penstock.cli.dlq_topics import Access
from penstock.cli.failure import Failure, Failures
from penstock.pipeline.redrive_progress import Progress as Redriven


@dataclass(slots=True)
class Plan:
    """Where each partition would begin, and how many letters would be gone."""

    points: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    kept: dict[int, Letter] = field(default_factory=dict)
    """The first letter of a partition that is not meant."""
    stranded: dict[int, Letter] = field(default_factory=dict)
    """The first letter of a partition that is meant and lies behind one that is not."""

    def add(self, letter: Letter, *, meant: bool) -> None:
        """The next letter of a partition, in the order of offsets."""
        number = letter.partition
        if not meant:
            self.kept.setdefault(number, letter)
        elif number in self.kept:
            self.stranded.setdefault(number, letter)
        else:
            self.points[number] = letter.offset + 1
            self.counts[number] = self.counts.get(number, 0) + 1


def plan(
    batches: Iterable[Iterable[Letter]],
    choice: Choice,
    *,
    sent_only: bool,
    sent: Mapping[int, Redriven],
) -> Plan:
    """What would be deleted; `Failure` where letters that are not meant would have to go along."""
    made = Plan()
    for batch in batches:
        for letter in batch:
            meant = choice.takes(letter) and (not sent_only or was_sent(letter, sent))
            made.add(letter, meant=meant)
    for number, letter in made.stranded.items():
        kept = made.kept[number]
        raise Failure(
            f"the letter at {number}:{letter.offset} cannot be deleted and the one before it, "
            f"at {number}:{kept.offset} ({kept.reason}), be kept",
            "a log loses records from its beginning only: choose by --until, redrive what is to "
            "be kept first, or let retention take them",
        )
    return made


def purge(access: Access, topic: str, points: Mapping[int, int]) -> None:
    """Delete all letters below a point in each partition."""
    admin = client.admin(access.bootstrap, access.settings)
    asked = [TopicPartition(topic, number, offset) for number, offset in points.items()]
    futures = admin.delete_records(asked, request_timeout=access.wait)
    failures = Failures()
    for place, future in futures.items():
        try:
            client.result(
                future, f"letters of {topic}-{place.partition} were not deleted", access.wait
            )
        except Failure as failure:
            failures.add(failure)
    failures.raise_any()

"""Sending dead letters back to where they came from, each of them once.

Letters go out in transactions that also commit how far this has come, to a group of the topic's
own. Whoever is killed in between has sent a transaction's letters and remembers it, or neither.
Letters that a choice leaves out wait for another time: the offset committed is that of the first
one that waits, and the metadata beside it names those behind it that were sent.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from penstock.cli import client
from penstock.cli.dlq_choice import Choice
from penstock.cli.dlq_letter import Header, Letter
from penstock.cli.dlq_memory import group_of, keep, redriven, was_sent
from penstock.cli.dlq_originals import Originals
from penstock.cli.dlq_topics import Access, partitions_of
from penstock.cli.failure import Failure
from penstock.cli.progress import Progress
from penstock.cli.reading import Reader
from penstock.cli.wire_cluster import Cluster
from penstock.pipeline.redrive_progress import Progress as Redriven
from penstock.pipeline.redrive_progress import TooManyGaps

LETTERS_MAX = 1_000
BYTES_MAX = 16 * 1024 * 1024
"""At most so many letters in one transaction, and not many more bytes."""

TWINS_MAX = 100_000
"""How many letters are remembered, to know a second one of the same record."""

LOOK_BACK = 10_000
"""How many letters are read that were sent before: the twin of one of them may follow."""

PRODUCER = {
    "partitioner": "murmur2_random",  # where Kafka's Java clients would put a key
    "linger.ms": 20,
    "compression.type": "zstd",
}

_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

AGAIN = "what was sent is remembered: run it again to send the rest"


@dataclass(slots=True)
class Outcome:
    """What a redrive has done, or would do."""

    sent: Counter[str] = field(default_factory=Counter)
    """Letters by the topic that they went to."""
    twins: int = 0
    """Letters of records that another letter had brought back already."""
    left: Counter[str] = field(default_factory=Counter)
    """Letters that wait, by their reason."""
    gone: list[Letter] = field(default_factory=list)
    """Letters without a copy, whose records are no longer at their source."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which letters to send, and where."""

    choice: Choice
    to: str = ""
    """The topic for all of them; empty for the one that each came from."""
    limit: int = 0
    """At most so many; 0 is no limit."""


class Redrive:
    """Sends letters of one topic. In a dry run nothing is written, and nobody is shut out."""

    def __init__(self, access: Access, topic: str, wish: Wish, *, dry_run: bool) -> None:
        self.outcome = Outcome()
        self._access = access
        self._topic = topic
        self._wish = wish
        self._dry_run = dry_run
        self._producer: Producer | None = None
        self._targets: dict[str, int] = {}
        self._twins: OrderedDict[bytes, None] = OrderedDict()

    def run(self) -> Outcome:
        """Send all that is wanted and is there now."""
        with (
            self._access.cluster() as cluster,
            Reader(*self._access, group_of(self._topic)) as reader,
            Originals(self._access) as originals,
        ):
            partitions = partitions_of(cluster, self._topic)
            try:
                if not self._dry_run:
                    self._producer = self._open()
                way = {number: Redriven() for number in partitions}
                way |= redriven(cluster, self._topic)
                starts = {number: max(0, one.start - LOOK_BACK) for number, one in way.items()}
                reader.seek_offsets(self._topic, starts)
                total = sum((span.end or 0) - span.start for span in reader.spans.values())
                with Progress("redriving", total, size=False) as progress:
                    for chosen in self._chunks(reader, way, progress):
                        self._send(cluster, reader, originals, chosen, way)
                if not self._dry_run:
                    keep(cluster, self._topic, group_of(self._topic))
            except KafkaException as refusal:
                raise self._failure(refusal) from None
        return self.outcome

    def _failure(self, refusal: KafkaException) -> Failure:
        failure = client.failure_of(refusal, f"letters of {self._topic} were not sent")
        if client.code_of(refusal) in _RIGHTS:
            failure.hint = (
                "ask for WRITE on the topics that they came from, READ on the group "
                f"{group_of(self._topic)} and WRITE on the transactional id of the same name"
            )
        failure.hint = failure.hint or AGAIN
        return failure

    def _open(self) -> Producer:
        """A producer that shuts out whoever redrives the same topic, before we look how far that
        has come."""
        bootstrap, settings, wait = self._access
        mine = {**PRODUCER, "transactional.id": group_of(self._topic)}
        producer = client.producer(bootstrap, settings, mine)
        producer.init_transactions(wait)
        return producer

    def _chunks(
        self, reader: Reader, way: Mapping[int, Redriven], progress: Progress
    ) -> Iterator[list[Letter]]:
        """Letters to send, as many as go into one transaction.

        Reading ends where the topic ended when it began: a letter that is sent, and dies again at
        once, would be met once more, and so on.
        """
        chosen: list[Letter] = []
        taken = size = 0
        for batch in reader.batches():
            for message in batch:
                letter = Letter.of(message)
                if was_sent(letter, way):
                    self._remember(letter)
                    continue
                full = self._wish.limit and taken >= self._wish.limit
                if full or not self._wish.choice.takes(letter):
                    way[letter.partition].leave(letter.offset)
                    self.outcome.left[letter.reason] += 1
                    continue
                taken += 1
                size += len(letter.key or b"") + len(letter.value or b"")
                chosen.append(letter)
                if len(chosen) == LETTERS_MAX or size >= BYTES_MAX:
                    yield chosen
                    chosen, size = [], 0
            progress.advance(len(batch))
        if chosen:
            yield chosen

    def _send(
        self,
        cluster: Cluster,
        reader: Reader,
        originals: Originals,
        letters: Sequence[Letter],
        way: dict[int, Redriven],
    ) -> None:
        """One transaction: the letters' records, and that they were sent."""
        done: list[Letter] = []
        records: list[tuple[str, dict[str, Any]]] = []
        for letter in letters:
            if self._is_twin(letter):
                self.outcome.twins += 1
                done.append(letter)
                continue
            target = self._target(cluster, letter)
            record = self._record(originals, letter, target)
            if record is None:
                self.outcome.gone.append(letter)
                # Not at the end: letters behind it may have been left before we looked.
                insort(way[letter.partition].left, letter.offset)
                continue
            records.append((target, record))
            done.append(letter)
            self._remember(letter)
        if self._producer is not None and done:
            self._commit(self._producer, reader, records, self._places(done, way))
        self.outcome.sent.update(target for target, _ in records)

    def _is_twin(self, letter: Letter) -> bool:
        """Whether the record is back already. Who names a letter by its place means that one."""
        known = letter.source.topic and letter.identity in self._twins
        return bool(known) and not self._wish.choice.places

    def _remember(self, letter: Letter) -> None:
        self._twins[letter.identity] = None
        if len(self._twins) > TWINS_MAX:
            self._twins.popitem(last=False)

    def _target(self, cluster: Cluster, letter: Letter) -> str:
        """Where a letter goes; `Failure` if that is nowhere."""
        place = f"{self._topic}-{letter.partition}@{letter.offset}"
        if letter.pipeline:
            raise Failure(
                f"the letter at {place} is of pipeline {letter.pipeline}, which keeps count itself",
                "`penstock pipeline redrive` sends its letters through again",
            )
        target = self._wish.to or letter.source.topic
        if not target:
            raise Failure(f"the letter at {place} does not say where it came from", "use --to")
        if target not in self._targets:
            # Asked for, not tried: a cluster may make a topic of whatever is written to.
            self._targets[target] = len(cluster.leaders([target]))
        if not self._targets[target]:
            raise Failure(
                f"there is no topic {target} for the letter at {place}",
                "create it, or name another with --to",
            )
        return target

    def _record(self, originals: Originals, letter: Letter, target: str) -> dict[str, Any] | None:
        """What to produce; None if it is nowhere to be found."""
        key, value = letter.key, letter.value
        headers: Sequence[Header] = letter.headers
        if not letter.is_copy:
            original = originals.find(letter.source)
            if original is None:
                return None
            key, value, headers = original
        record: dict[str, Any] = {
            "key": key,
            "value": value,
            "headers": letter.headers_again(headers),
        }
        source = letter.source
        if target == source.topic and 0 <= source.partition < self._targets[target]:
            # Beside the other records of its key, whichever way its producer went about it.
            record["partition"] = source.partition
        return record

    def _places(
        self, letters: Sequence[Letter], way: Mapping[int, Redriven]
    ) -> list[TopicPartition]:
        sent: dict[int, list[int]] = {}
        for letter in letters:
            sent.setdefault(letter.partition, []).append(letter.offset)
        try:
            return [
                TopicPartition(self._topic, number, *way[number].after(offsets))
                for number, offsets in sent.items()
            ]
        except TooManyGaps:
            raise Failure(
                "the choice leaves more gaps among the letters than can be remembered",
                f"{AGAIN}, or choose more of them at a time",
            ) from None

    def _commit(
        self,
        producer: Producer,
        reader: Reader,
        records: Sequence[tuple[str, dict[str, Any]]],
        places: list[TopicPartition],
    ) -> None:
        producer.begin_transaction()
        try:
            for target, record in records:
                self._produce(producer, target, record)
            producer.send_offsets_to_transaction(places, reader.membership, self._access.wait)
            producer.commit_transaction(self._access.wait)
        except KafkaException as refusal:
            if refusal.args[0].txn_requires_abort():
                producer.abort_transaction(self._access.wait)
            raise

    @staticmethod
    def _produce(producer: Producer, target: str, record: dict[str, Any]) -> None:
        while True:
            try:
                producer.produce(target, **record)
                producer.poll(0)
                return
            except BufferError:
                producer.poll(0.1)  # records of which there was no copy may be many megabytes

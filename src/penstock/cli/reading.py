"""Reading spans of partitions, and writing what they hold to standard output."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.cli import client
from penstock.cli.failure import UNREACHABLE, Failure, say
from penstock.cli.lines import Form, line_of
from penstock.cli.positions import Kind, Position, offset_at
from penstock.cli.progress import Progress

POLL_SECONDS = 0.2
"""How long Ctrl-C may have to wait for a poll to return."""

BATCH_MAX = 2000


class Span(NamedTuple):
    """The part of a partition to read: from `start` up to, not including, `end` if there is one."""

    start: int
    end: int | None
    seek: int
    """Where the client begins: `start`, or the partition's end while `start` lies beyond it."""


class Reader:
    """Reads assigned partitions of one topic, without a group."""

    def __init__(
        self, bootstrap: str, words: Sequence[str] | None, wait: float, group: str = "penstock-cli"
    ) -> None:
        """The client wants a `group`; nothing joins it, and nothing is committed by itself."""
        self._wait = wait
        self._spans: dict[int, Span] = {}
        self._consumer = client.consumer(
            bootstrap,
            words,
            {
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "error_cb": _tell_of_outage,
            },
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def seek(
        self,
        topic: str,
        wanted: Sequence[int] | None,
        start: Position,
        end: Position | None,
        *,
        follow: bool,
    ) -> None:
        """Find out which offsets the positions mean, and begin there."""
        try:
            partitions = self._partitions(topic, wanted)
            starts = self._by_time(topic, partitions, start)
            ends = self._by_time(topic, partitions, end)
            for number in partitions:
                low, high = self._consumer.get_watermark_offsets(
                    TopicPartition(topic, number), self._wait
                )
                first = offset_at(start, low, high, starts.get(number, -1))
                last = None if follow else high
                if end is not None:
                    last = min(high, offset_at(end, low, high, ends.get(number, -1)))
                if last is None or first < last:
                    self._spans[number] = Span(first, last, min(first, high))
        except KafkaException as refusal:
            raise client.failure_of(refusal, f"topic {topic} cannot be read") from None
        self._consumer.assign(
            [TopicPartition(topic, number, span.seek) for number, span in self._spans.items()]
        )

    def seek_offsets(self, topic: str, starts: Mapping[int, int]) -> None:
        """Begin in some partitions at these offsets, or at what is left of them."""
        try:
            for number, start in starts.items():
                place = TopicPartition(topic, number)
                low, high = self._consumer.get_watermark_offsets(place, self._wait)
                if max(low, start) < high:
                    self._spans[number] = Span(max(low, start), high, max(low, start))
        except KafkaException as refusal:
            raise client.failure_of(refusal, f"topic {topic} cannot be read") from None
        self._consumer.assign(
            [TopicPartition(topic, number, span.seek) for number, span in self._spans.items()]
        )

    @property
    def membership(self) -> Any:
        """What a transaction wants to know of the group that its offsets are for."""
        return self._consumer.consumer_group_metadata()

    @property
    def spans(self) -> Mapping[int, Span]:
        """What is to be read, by partition; those with nothing to read are left out."""
        return self._spans

    def _partitions(self, topic: str, wanted: Sequence[int] | None) -> list[int]:
        found = self._consumer.list_topics(topic, timeout=self._wait).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        missing = sorted(set(wanted or ()) - set(found.partitions))
        if missing:
            raise Failure(
                f"topic {topic} has no partition {missing[0]}",
                f"its partitions are 0 to {len(found.partitions) - 1}",
            )
        return sorted(wanted or found.partitions)

    def _by_time(
        self, topic: str, partitions: Sequence[int], position: Position | None
    ) -> dict[int, int]:
        if position is None or position.kind is not Kind.TIME:
            return {}
        asked = [TopicPartition(topic, number, position.number) for number in partitions]
        found = self._consumer.offsets_for_times(asked, self._wait)
        return {one.partition: one.offset for one in found}

    def write(self, form: Form, separator: bytes | None, count_max: int | None) -> None:
        """Write what the spans hold to standard output, at most `count_max` records."""
        out = sys.stdout.buffer
        left = sys.maxsize if count_max is None else count_max
        with Progress(
            "consuming", self._total(count_max), size=False, shown=not sys.stdout.isatty()
        ) as progress:
            if left == 0:
                return
            for messages in self.batches():
                taken = messages[:left]
                out.write(b"".join([line_of(message, form, separator) for message in taken]))
                out.flush()  # a reader at the other end of a pipe sees records as they come
                progress.advance(len(taken))
                left -= len(taken)
                if left == 0:
                    return

    def _total(self, count_max: int | None) -> int | None:
        total = 0
        for span in self._spans.values():
            if span.end is None:
                return count_max
            total += span.end - span.start
        return total if count_max is None else min(total, count_max)

    def batches(self) -> Iterator[list[Any]]:
        """What arrives, in batches, until every span is read to its end."""
        open_spans = dict(self._spans)
        heard = time.monotonic()
        while open_spans:
            first = self._consumer.poll(POLL_SECONDS)
            if first is None:
                self._check_patience(open_spans, heard)
                continue
            heard = time.monotonic()
            arrived: list[Any] = [first, *self._consumer.consume(BATCH_MAX, 0)]
            batch = []
            for message in arrived:
                if _is_about_groups(message):
                    continue
                span = open_spans.get(message.partition())
                if span is None:
                    self._check(message)
                elif self._ends(message, span):
                    del open_spans[message.partition()]
                if span is not None and _belongs(message, span):
                    batch.append(message)
            if batch:
                yield batch

    def _check_patience(self, open_spans: Mapping[int, Span], heard: float) -> None:
        """What is there comes at once, or the broker is gone; what is to come may take for ever."""
        waits_for_more = any(span.end is None for span in open_spans.values())
        if not waits_for_more and time.monotonic() - heard > self._wait:
            raise Failure(
                f"nothing came for {self._wait:g} s, though partitions "
                f"{', '.join(map(str, open_spans))} have records left",
                "the broker may be gone; `penstock cluster describe` shows who is there",
                UNREACHABLE,
            )

    def _ends(self, message: Any, span: Span) -> bool:
        """Whether nothing of the span comes after this message."""
        if span.end is None:
            self._check(message)
            return False
        if message.error() is not None:
            # The end of the partition ends the span as well: the records up to it may be gaps,
            # left by compaction, or markers of transactions, which no reader ever sees.
            self._check(message)
            return True
        return bool(message.offset() >= span.end - 1)

    @staticmethod
    def _check(message: Any) -> None:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise client.failure_of(
                KafkaException(error),
                f"reading stopped at partition {message.partition()}",
            )


def _tell_of_outage(error: KafkaError) -> None:
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        say("no broker can be reached; trying again")


def _is_about_groups(message: Any) -> bool:
    """librdkafka looks for a coordinator though no group is joined; who may read topics alone must
    not fail for that."""
    error = message.error()
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def _belongs(message: Any, span: Span) -> bool:
    if message.error() is not None or message.offset() < span.start:
        return False
    return span.end is None or message.offset() < span.end

"""Reading records from files and sending them, with an account of what was not delivered."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from penstock.cli import client
from penstock.cli.failure import Failure, complain, say
from penstock.cli.lines import LINE_BYTES_MAX, BadLine, Form, Headers, Record, record_of
from penstock.cli.progress import Progress

COMPLAINTS_MAX = 10
ADVANCE_EVERY = 1000


class Common(NamedTuple):
    """What every record of one run shares, unless its line says otherwise."""

    key: bytes | None = None
    headers: Headers = []
    partition: int | None = None
    tombstones: bool = False


class Sender:
    """Sends records to one topic, and counts those that fail."""

    def __init__(
        self,
        topic: str,
        common: Common,
        bootstrap: str,
        words: Sequence[str] | None,
        defaults: Mapping[str, Any],
    ) -> None:
        self._topic = topic
        self._common = common
        self._producer = client.producer(bootstrap, words, defaults)
        self.sent = 0
        self.failed = 0

    def send(self, record: Record) -> None:
        """Hand one record to the client, waiting while its queue is full."""
        common = self._common
        value = None if common.tombstones and not record.value else record.value
        partition = common.partition if record.partition is None else record.partition
        optional: dict[str, Any] = {}
        if partition is not None:
            optional["partition"] = partition
        if record.timestamp is not None:
            optional["timestamp"] = record.timestamp
        headers = record.headers + common.headers
        if headers:
            optional["headers"] = headers
        key = common.key if record.key is None else record.key
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, on_delivery=self._on_failure, **optional
                )
                break
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as refusal:
                self._count(refusal.args[0])
                break
        self.sent += 1

    def serve(self) -> None:
        """Let the client tell of what failed meanwhile."""
        self._producer.poll(0)

    def _on_failure(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._count(error)

    def _count(self, error: KafkaError) -> None:
        self.failed += 1
        if self.failed <= COMPLAINTS_MAX:
            complain(f"a record was not delivered: {client.reason_of(error)}")
        elif self.failed == COMPLAINTS_MAX + 1:
            complain("more records were not delivered")

    def finish(self) -> None:
        """Wait until every record is delivered or has failed, and tell the sum."""
        while self._producer.flush(0.5):
            pass  # bounded by message.timeout.ms; short steps let Ctrl-C through
        delivered = self.sent - self.failed
        say(f"delivered {delivered:,} record{'' if delivered == 1 else 's'} to {self._topic}")
        if self.failed:
            raise Failure(
                f"{self.failed:,} of {self.sent:,} records were not delivered",
                "see above why; what was delivered stays",
            )


def send_files(
    sender: Sender, names: Sequence[str], form: Form, separator: bytes | None, *, whole: bool
) -> None:
    """Send what the files hold, in their order; `-` is standard input."""
    total = _total_size(names)
    mistake: Failure | KeyboardInterrupt | None = None
    with Progress("producing", total, size=total is not None) as progress:
        try:
            for name in names:
                with _opened(name) as file:
                    if whole:
                        sender.send(Record(_decode_whole(name, file, form)))
                        progress.advance(1 if total is None else file.tell())
                    else:
                        _send_lines(sender, name, file, form, separator, progress, total is None)
        except (Failure, KeyboardInterrupt) as ended:
            mistake = ended  # what came before it is on its way, and is accounted for first
        sender.finish()
    if mistake is not None:
        raise mistake


def _send_lines(
    sender: Sender,
    name: str,
    file: BinaryIO,
    form: Form,
    separator: bytes | None,
    progress: Progress,
    by_count: bool,
) -> None:
    if file.isatty():
        say("type records, a line each; Ctrl-D ends")
    size = 0
    for number, line in enumerate(_lines(name, file), 1):
        try:
            sender.send(record_of(line, form, separator))
        except BadLine as mistake:
            raise Failure(
                f"{_shown(name)}, line {number}: {mistake}",
                f"{number - 1:,} lines before it were sent; this one and all after it were not",
            ) from None
        sender.serve()
        size += len(line) + 1
        if number % ADVANCE_EVERY == 0:
            progress.advance(ADVANCE_EVERY if by_count else size)
            size = 0


def _lines(name: str, file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES_MAX + 1):
        if len(line) > LINE_BYTES_MAX:
            raise Failure(
                f"{_shown(name)} has a line of more than {LINE_BYTES_MAX:,} bytes",
                "pass --whole if the file is one record",
            )
        yield line.removesuffix(b"\n")


def _decode_whole(name: str, file: BinaryIO, form: Form) -> bytes | None:
    data = file.read(LINE_BYTES_MAX + 1)
    if len(data) > LINE_BYTES_MAX:
        raise Failure(f"{_shown(name)} is larger than {LINE_BYTES_MAX:,} bytes")
    try:
        return record_of(data, form, None).value
    except BadLine as mistake:
        raise Failure(f"{_shown(name)}: {mistake}") from None


def _opened(name: str) -> BinaryIO:
    if name == "-":
        # A duplicate, so that leaving the `with` block closes nothing that others use.
        return open(os.dup(sys.stdin.fileno()), "rb")
    try:
        return open(name, "rb")
    except OSError as error:
        raise Failure(f"cannot read {name}: {error.strerror}") from None


def _total_size(names: Sequence[str]) -> int | None:
    """The bytes in all files; None if one of them is a pipe or a terminal."""
    total = 0
    for name in names:
        try:
            status = os.fstat(sys.stdin.fileno()) if name == "-" else os.stat(name)
        except OSError:
            return None  # opening it will tell
        if not stat.S_ISREG(status.st_mode):
            return None
        total += status.st_size
    return total


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name

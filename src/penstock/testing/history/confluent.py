"""confluent-kafka's clients, taking notes of all they do."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from penstock.testing.history.operations import (
    UNSET,
    Commit,
    Committed,
    End,
    Init,
    Marks,
    Place,
    Poll,
    Seek,
    Send,
    text_of,
)
from penstock.testing.history.recorder import Recorder

BUFFER_FULL_WAIT = 0.1
READ_SECONDS_MAX = 60.0
ASK_SECONDS_MAX = 10.0
WAIT_MS = 50
"""Long enough to wait for more records when most have been read."""

SURELY_NOT_WRITTEN = frozenset(
    (
        KafkaError._PURGE_QUEUE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )
)
"""What a delivery report can say that leaves no doubt. All else may have reached a log."""


class RecordingProducer:
    """A producer of confluent-kafka whose sends and transactions are noted.

    Idempotent unless the configuration says otherwise. `producer` is the client itself.
    """

    def __init__(self, config: Mapping[str, Any], recorder: Recorder) -> None:
        settings = {"enable.idempotence": True, "log_level": 0, **config}
        self.recorder = recorder
        self.producer = Producer(settings)
        self.failures: list[KafkaError] = []
        """What was not delivered, and why."""
        self.acknowledged = 0
        self.transaction = ""
        """The label of the transaction that is open."""
        self._idempotent = bool(settings["enable.idempotence"])
        self._transactional_id = settings.get("transactional.id", "")
        self._begun = 0

    def send(self, topic: str, partition: int, value: bytes, **options: Any) -> None:
        """Send a record; its place has to be chosen here, so that the notes can name it."""
        send = self.recorder.begin(
            Send(
                topic=topic,
                partition=partition,
                value=text_of(value),
                transaction=self.transaction,
                idempotent=self._idempotent,
            )
        )

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._delivered(send, error, message)

        while True:
            try:
                self.producer.produce(
                    topic, value, partition=partition, on_delivery=delivered, **options
                )
                break
            except BufferError:
                self.producer.poll(BUFFER_FULL_WAIT)
            except KafkaException as refusal:
                self.recorder.failed(send, refusal)
                raise

    def _delivered(self, send: Send, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged += 1
            # A retry of what is written already is confirmed without an offset.
            offset = message.offset()
            self.recorder.ok(send, offset=UNSET if offset is None else offset)
            return
        self.failures.append(error)
        if error.code() in SURELY_NOT_WRITTEN:
            self.recorder.failed(send, error)
        else:
            self.recorder.unknown(send, error)

    def poll(self, seconds: float = 0) -> None:
        """Let delivery reports come in."""
        self.producer.poll(seconds)

    def flush(self, seconds_max: float) -> int:
        """Wait for deliveries; answers how many are missing still."""
        return self.producer.flush(seconds_max)

    def init_transactions(self, seconds_max: float = 30) -> None:
        """Take the transactional id over."""
        init = self.recorder.begin(Init(transactional_id=self._transactional_id))
        self._do(init, self.producer.init_transactions, seconds_max)

    def begin_transaction(self) -> str:
        """Begin, and answer the label under which the notes have it."""
        self.producer.begin_transaction()
        self._begun += 1
        self.transaction = f"{self.recorder.client}/{self._begun}"
        return self.transaction

    def send_offsets(
        self,
        offsets: Iterable[TopicPartition],
        group: str,
        metadata: object,
        seconds_max: float = 30,
    ) -> None:
        """Commit a consumer's positions with the transaction."""
        offsets = list(offsets)
        commits = [
            self.recorder.begin(
                Commit(
                    topic=each.topic,
                    partition=each.partition,
                    group=group,
                    offset=each.offset,
                    transaction=self.transaction,
                )
            )
            for each in offsets
        ]
        try:
            self.producer.send_offsets_to_transaction(offsets, metadata, seconds_max)
        except KafkaException as problem:
            for commit in commits:
                self.recorder.unknown(commit, problem)
            raise
        for commit in commits:
            self.recorder.ok(commit)

    def commit_transaction(self, seconds_max: float = 30) -> None:
        """Commit; on an exception the transaction may be committed or not, until it is aborted."""
        end = self.recorder.begin(End(transaction=self.transaction, commit=True))
        self._do(end, self.producer.commit_transaction, seconds_max)
        self.transaction = ""

    def abort_transaction(self, seconds_max: float = 30) -> None:
        """Abort."""
        end = self.recorder.begin(End(transaction=self.transaction, commit=False))
        self._do(end, self.producer.abort_transaction, seconds_max)
        self.transaction = ""

    def _do(self, operation: Init | End, call: Any, seconds_max: float) -> None:
        try:
            call(seconds_max)
        except KafkaException as problem:
            self.recorder.unknown(operation, problem)
            raise
        self.recorder.ok(operation)


class RecordingConsumer:
    """A consumer of confluent-kafka whose polls are noted. `consumer` is the client itself.

    It fetches ahead of its reader, at any time after the assignment. That is therefore when all of
    its polls are said to have begun: nothing more is known.
    """

    def __init__(self, config: Mapping[str, Any], recorder: Recorder) -> None:
        settings = {
            "group.id": recorder.client,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
            **config,
        }
        self.recorder = recorder
        self.consumer = Consumer(settings)
        # librdkafka's own default, unlike Java's, is to read committed transactions only.
        isolation = settings.get("isolation.level", "read_committed")
        self.committed = isolation == "read_committed"
        self.group = str(settings["group.id"])
        self._positions: dict[Place, int] = {}
        self._assigned_at = 0
        self._trouble: KafkaException | None = None

    def assign(self, positions: Mapping[Place, int]) -> None:
        """Read these partitions from these offsets on."""
        self._assigned_at = self.recorder.now()
        self._positions = dict(positions)
        for (topic, partition), offset in positions.items():
            self.recorder.note(Seek(topic=topic, partition=partition, offset=offset))
        self.consumer.assign(_partitions(positions))

    def subscribe(self, topics: list[str], **options: Any) -> None:
        """Join a group; wherever an assignment begins, the notes begin anew."""
        told = options.pop("on_assign", None)

        def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self._assigned_at = self.recorder.now()
            for each in partitions:
                self._positions.pop(Place(each.topic, each.partition), None)
                self.recorder.note(Seek(topic=each.topic, partition=each.partition))
            if told is not None:
                told(consumer, partitions)

        self.consumer.subscribe(topics, on_assign=on_assign, **options)

    def consume(self, count: int = 10_000, seconds: float = 0.5) -> list[Message]:
        """Messages without errors; the ends of partitions are noted and left out.

        Trouble that does not pass by itself is raised at the next call, so that nothing is lost of
        what came with it.
        """
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        found: dict[Place, list[Message]] = defaultdict(list)
        ends: dict[Place, int] = {}
        for message in self.consumer.consume(count, seconds):
            error = message.error()
            if error is None:
                place = place_of(message)
                found[place].append(message)
                ends.pop(place, None)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[place_of(message)] = offset_of(message)
            elif not error.retriable():
                self._trouble = KafkaException(error)
        for place in found.keys() | ends.keys():
            self._note(place, found[place], ends.get(place))
        return [message for messages in found.values() for message in messages]

    def _note(self, place: Place, messages: list[Message], at_end: int | None) -> None:
        first = offset_of(messages[0]) if messages else at_end
        assert first is not None
        start = self._positions.get(place, first)
        end = at_end if at_end is not None else offset_of(messages[-1]) + 1
        self._positions[place] = end
        self.recorder.note(
            Poll(
                topic=place.topic,
                partition=place.partition,
                start=start if start != OFFSET_BEGINNING else first,
                end=end,
                records=[(offset_of(each), text_of(each.value() or b"")) for each in messages],
                committed=self.committed,
                at_end=at_end is not None,
            ),
            began=self._assigned_at,
        )

    def commit(self, positions: Mapping[Place, int]) -> None:
        """Commit positions for the group, and wait for the answer."""
        commits = {
            place: self.recorder.begin(
                Commit(topic=place.topic, partition=place.partition, group=self.group, offset=at)
            )
            for place, at in positions.items()
        }
        try:
            answers = self.consumer.commit(offsets=_partitions(positions), asynchronous=False)
        except KafkaException as problem:
            for commit in commits.values():
                self.recorder.unknown(commit, problem)
            raise
        for answer in answers or ():
            commit = commits[Place(answer.topic, answer.partition)]
            if answer.error is None:
                self.recorder.ok(commit)
            else:
                self.recorder.unknown(commit, answer.error)

    def ask_committed(self, places: Iterable[Place]) -> dict[Place, int]:
        """Where the group is, as its coordinator says; -1 where it has not committed anything."""
        began = self.recorder.now()
        asked = [TopicPartition(place.topic, place.partition) for place in places]
        found: dict[Place, int] = {}
        for each in self.consumer.committed(asked, ASK_SECONDS_MAX):
            offset = max(each.offset, UNSET)
            found[Place(each.topic, each.partition)] = offset
            self.recorder.note(
                Committed(
                    topic=each.topic,
                    partition=each.partition,
                    group=self.group,
                    offset=offset,
                    stable=self.committed,
                ),
                began,
            )
        return found

    def position(self, place: Place) -> int:
        """How far the notes have come in a partition."""
        return self._positions.get(place, 0)

    def marks(self, place: Place) -> int:
        """Ask how far a partition has come for a reader of this isolation, and note it."""
        began = self.recorder.now()
        _, end = self.consumer.get_watermark_offsets(
            TopicPartition(place.topic, place.partition), timeout=ASK_SECONDS_MAX
        )
        marks = Marks(topic=place.topic, partition=place.partition)
        if self.committed:
            marks.last_stable = end
        else:
            marks.high_watermark = end
        self.recorder.note(marks, began)
        return end

    def close(self) -> None:
        """Leave."""
        self.consumer.close()


def _partitions(positions: Mapping[Place, int]) -> list[TopicPartition]:
    return [TopicPartition(place.topic, place.partition, at) for place, at in positions.items()]


def place_of(message: Message) -> Place:
    """Where a message comes from: one that was received always says so."""
    topic, partition = message.topic(), message.partition()
    assert topic is not None and partition is not None
    return Place(topic, partition)


def offset_of(message: Message) -> int:
    """At which offset."""
    offset = message.offset()
    assert offset is not None
    return offset


def read_to_end(
    config: Mapping[str, Any],
    places: Iterable[Place],
    recorder: Recorder,
    *,
    committed: bool = True,
    seconds_max: float = READ_SECONDS_MAX,
) -> dict[Place, dict[int, bytes]]:
    """Read partitions from offset 0 to their end, note it, and answer every record by offset.

    The end is where a reader of everything would stop, so a reader of committed transactions waits
    for those that are being ended. If that takes too long, it gives up: the checks will tell.
    """
    eager = {"fetch.wait.max.ms": WAIT_MS, **config}
    watch = RecordingConsumer({**eager, "isolation.level": "read_uncommitted"}, recorder)
    targets = {place: watch.marks(place) for place in places}
    watch.close()
    level = "read_committed" if committed else "read_uncommitted"
    reader = RecordingConsumer({**eager, "isolation.level": level}, recorder)
    reader.assign(dict.fromkeys(targets, 0))
    found: dict[Place, dict[int, bytes]] = {place: {} for place in targets}
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        for message in reader.consume(seconds=WAIT_MS / 1000):
            found[place_of(message)][offset_of(message)] = message.value() or b""
        if all(reader.position(place) >= target for place, target in targets.items()):
            break
    reader.close()
    return found

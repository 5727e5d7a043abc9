"""librdkafka, unmodified, without Python between it and the broker.

confluent-kafka costs a microsecond or more per record in Python, which on two cores would make
the client the bottleneck of every case. The same shared library is called here through ctypes with
whole arrays of records, so that a thread of C does the work.
"""

from __future__ import annotations

import ctypes
import random
import string
import time
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Self

import confluent_kafka

ANY_PARTITION = -1
_PRODUCER, _CONSUMER = 0, 1
_FLAG_BLOCK, _FLAG_PARTITION = 0x4, 0x8
_BEGINNING = -2
_EVENT_DELIVERY = 0x1
_CHUNK = 10_000
_ERROR_BYTES = 512


class Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = [
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("size", c_size_t),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    ]


class Place(ctypes.Structure):
    """rd_kafka_topic_partition_t."""

    _fields_ = [
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    ]


class Places(ctypes.Structure):
    """rd_kafka_topic_partition_list_t."""

    _fields_ = [("count", c_int), ("size", c_int), ("elements", POINTER(Place))]


def _load() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    bundled = sorted(package.with_name("confluent_kafka.libs").glob("librdkafka*.so*"))
    library = ctypes.CDLL(str(bundled[0]) if bundled else "librdkafka.so.1")
    for name in ("conf_new", "new", "topic_new", "queue_new", "queue_get_main", "queue_poll"):
        getattr(library, f"rd_kafka_{name}").restype = c_void_p
    library.rd_kafka_conf_set.argtypes = [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]
    library.rd_kafka_new.argtypes = [c_int, c_void_p, c_char_p, c_size_t]
    library.rd_kafka_topic_new.argtypes = [c_void_p, c_char_p, c_void_p]
    library.rd_kafka_topic_destroy.argtypes = [c_void_p]
    library.rd_kafka_produce_batch.argtypes = [c_void_p, c_int32, c_int, POINTER(Message), c_int]
    library.rd_kafka_flush.argtypes = [c_void_p, c_int]
    library.rd_kafka_outq_len.argtypes = [c_void_p]
    library.rd_kafka_destroy.argtypes = [c_void_p]
    library.rd_kafka_queue_new.argtypes = [c_void_p]
    library.rd_kafka_queue_destroy.argtypes = [c_void_p]
    library.rd_kafka_consume_start_queue.argtypes = [c_void_p, c_int32, c_int64, c_void_p]
    library.rd_kafka_consume_stop.argtypes = [c_void_p, c_int32]
    library.rd_kafka_consume_callback_queue.argtypes = [c_void_p, c_int, c_void_p, c_void_p]
    library.rd_kafka_position.argtypes = [c_void_p, POINTER(Places)]
    library.rd_kafka_conf_set_events.argtypes = [c_void_p, c_int]
    library.rd_kafka_queue_get_main.argtypes = [c_void_p]
    library.rd_kafka_queue_poll.argtypes = [c_void_p, c_int]
    library.rd_kafka_event_message_next.argtypes = [c_void_p]
    library.rd_kafka_event_message_next.restype = POINTER(Message)
    library.rd_kafka_event_destroy.argtypes = [c_void_p]
    library.rd_kafka_query_watermark_offsets.argtypes = [
        c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int,
    ]  # fmt: skip
    return library


_library = _load()
# What is done with each record: any function of C that takes one and changes nothing.
_LOOK = ctypes.cast(_library.rd_kafka_message_errstr, c_void_p)


def _settings(keywords: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in keywords.items()}


class ClientFailed(RuntimeError):
    """librdkafka refused, or records did not arrive."""


class Client:
    """A librdkafka handle and the topics opened on it."""

    def __init__(
        self, kind: int, bootstrap: str, config: Mapping[str, str], events: int = 0
    ) -> None:
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        conf = _library.rd_kafka_conf_new()
        for key, value in {"bootstrap.servers": bootstrap, "log_level": "3", **config}.items():
            if _library.rd_kafka_conf_set(conf, key.encode(), value.encode(), error, _ERROR_BYTES):
                raise ClientFailed(error.value.decode())
        _library.rd_kafka_conf_set_events(conf, events)
        self._handle = _library.rd_kafka_new(kind, conf, error, _ERROR_BYTES)
        if not self._handle:
            raise ClientFailed(error.value.decode())
        self._topics: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = _library.rd_kafka_topic_new(self._handle, name.encode(), None)
        return self._topics[name]

    def close(self) -> None:
        for topic in self._topics.values():
            _library.rd_kafka_topic_destroy(topic)
        _library.rd_kafka_destroy(self._handle)

    def end_offset(self, topic: str, partition: int) -> int:
        low, high = c_int64(), c_int64()
        failed = _library.rd_kafka_query_watermark_offsets(
            self._handle, topic.encode(), partition, byref(low), byref(high), 10_000
        )
        if failed:
            raise ClientFailed(f"no offsets of {topic}-{partition}: error {failed}")
        return high.value


class Payload:
    """Records of one size, cut out of random letters (as Apache's performance tool makes them)."""

    def __init__(self, size: int, count: int = _CHUNK) -> None:
        chance = random.Random(size)
        letters = chance.choices(string.ascii_uppercase.encode(), k=1 << 20)
        self._pool = ctypes.create_string_buffer(bytes(letters) + bytes(size))
        base = ctypes.addressof(self._pool)
        self.messages = (Message * count)()
        for message in self.messages:
            message.partition = ANY_PARTITION
            message.payload = base + chance.randrange(1 << 20)
            message.size = size


class Producer(Client):
    """Sends arrays of records as fast as librdkafka takes them."""

    def __init__(self, bootstrap: str, **config: str) -> None:
        super().__init__(_PRODUCER, bootstrap, _settings(config))

    def send(
        self, topic: str, payload: Payload, count: int, partition: int = ANY_PARTITION
    ) -> None:
        """Enqueue `count` records, waiting while librdkafka's queue is full."""
        handle, size = self.topic(topic), len(payload.messages)
        while count:
            some = min(count, size)
            taken = _library.rd_kafka_produce_batch(
                handle, partition, _FLAG_BLOCK, payload.messages, some
            )
            if taken != some:
                raise ClientFailed(f"{some - taken} of {some} records were not enqueued")
            count -= some

    def flush(self, seconds_max: float = 120) -> None:
        """Wait until the broker has answered for every record."""
        deadline = time.monotonic() + seconds_max
        # In steps: no signal reaches Python while it waits in C.
        while _library.rd_kafka_flush(self._handle, 500) and time.monotonic() < deadline:
            pass
        if _library.rd_kafka_outq_len(self._handle):
            raise ClientFailed(f"{_library.rd_kafka_outq_len(self._handle)} records unanswered")


class SyncProducer(Client):
    """Sends one record at a time and waits for its acknowledgement."""

    def __init__(self, bootstrap: str, **config: str) -> None:
        settings = {"linger.ms": "0"} | _settings(config)
        super().__init__(_PRODUCER, bootstrap, settings, _EVENT_DELIVERY)
        self._queue = _library.rd_kafka_queue_get_main(self._handle)

    def send(self, topic: str, payload: Payload, partition: int = 0) -> None:
        _library.rd_kafka_produce_batch(self.topic(topic), partition, 0, payload.messages, 1)
        event = _library.rd_kafka_queue_poll(self._queue, 10_000)
        if not event:
            raise ClientFailed("no acknowledgement in 10 s")
        error = _library.rd_kafka_event_message_next(event).contents.err
        _library.rd_kafka_event_destroy(event)
        if error:
            raise ClientFailed(f"a record was refused with error {error}")

    def close(self) -> None:
        _library.rd_kafka_queue_destroy(self._queue)
        super().close()


class Consumer(Client):
    """Reads assigned partitions from their beginning."""

    def __init__(self, bootstrap: str, **config: str) -> None:
        # Without these the client pauses whenever its queue is full: what is measured then is
        # how it takes turns with itself.
        eager = {
            "queued.min.messages": "10000000",
            "queued.max.messages.kbytes": "2000000",
            "fetch.queue.backoff.ms": "0",
        }
        super().__init__(_CONSUMER, bootstrap, eager | _settings(config))

    def read(self, topic: str, partitions: Sequence[int], count: int, seconds_max: float) -> float:
        """Read `count` records, let go of them, and return the seconds since the first came.

        They are counted by their offsets: not for topics with transactions, whose marks have some.

        Finding the leader and the first offset takes the client longer than many a read.
        """
        handle, queue = self.topic(topic), _library.rd_kafka_queue_new(self._handle)
        for partition in partitions:
            _library.rd_kafka_consume_start_queue(handle, partition, _BEGINNING, queue)
        deadline = time.monotonic() + seconds_max
        begin, done = 0.0, 0
        while done < count:
            _library.rd_kafka_consume_callback_queue(queue, 1000, _LOOK, None)
            done = self._position(topic, partitions)
            if done:
                begin = begin or time.monotonic()
            if time.monotonic() > deadline:
                raise ClientFailed(f"{count - done} records did not come in {seconds_max} s")
        seconds = time.monotonic() - begin
        for partition in partitions:
            _library.rd_kafka_consume_stop(handle, partition)
        _library.rd_kafka_queue_destroy(queue)
        return seconds

    def _position(self, topic: str, partitions: Sequence[int]) -> int:
        """How many records the client has handed out, over all partitions.

        What the queue says it served will not do: it counts the client's own marks, and errors.
        """
        places = (Place * len(partitions))()
        for place, partition in zip(places, partitions, strict=True):
            place.topic, place.partition = topic.encode(), partition
        asked = Places(len(partitions), len(partitions), places)
        if error := _library.rd_kafka_position(self._handle, byref(asked)):
            raise ClientFailed(f"the consumer does not know where it is: error {error}")
        # Below 0: nothing of this partition yet.
        return sum(max(place.offset, 0) for place in places)

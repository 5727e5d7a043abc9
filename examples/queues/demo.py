"""Retry, dead letter, redrive and delay, end to end on a node of its own.

Run it with `python examples/queues/demo.py`. Workers are share consumers of confluent-kafka, as any
application would use them; the rest is settings and two commands. It ends with an error if anything
is not as it says.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from confluent_kafka import AcknowledgeType, Consumer, Message, Producer, ShareConsumer

from penstock.testing import Broker

ORDERS, DEAD, REMINDERS = "orders", "dlq.orders", "reminders"
WORKERS = "workers"
TRIES = 3
BACKOFF_MS = 300
DELAY_MS = 3_000
SECONDS_MAX = 30.0

GROUP_SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": TRIES,
    "penstock.share.retry.backoff.ms": BACKOFF_MS,  # then twice as long, then four times
    "penstock.share.retry.backoff.multiplier": 2,
    "errors.deadletterqueue.topic.name": DEAD,
    "errors.deadletterqueue.copy.record.enable": "true",
}


def main() -> None:
    """The whole story."""
    with Broker() as broker:
        prepare(broker)
        retry(broker)
        give_up(broker)
        redrive(broker)
        delay(broker)
    say("Everything was as it should be.")


def prepare(broker: Broker) -> None:
    """Three topics, and what is set for the group."""
    penstock(broker, "topic", "create", ORDERS)
    penstock(broker, "topic", "create", DEAD, "-c", "errors.deadletterqueue.group.enable=true")
    penstock(broker, "topic", "create", REMINDERS, "-c", "penstock.delivery.delay.enable=true")
    pairs = [f"{key}={value}" for key, value in GROUP_SETTINGS.items()]
    penstock(broker, "config", "set", "--group", WORKERS, *pairs)


def retry(broker: Broker) -> None:
    """A handler that fails twice gets its order a third time, later each time."""
    first, second = BACKOFF_MS, 2 * BACKOFF_MS
    say(f"\n1. An order fails twice: it comes again after {first} ms, then after {second} ms.")
    send(broker, ORDERS, "apples", "pears")
    tried: list[float] = []

    def handle(order: Message) -> AcknowledgeType:
        if order.value() == b"pears":
            tried.append(time.monotonic())
            say(f"   pears, try {len(tried)}")
            return AcknowledgeType.ACCEPT if len(tried) == 3 else AcknowledgeType.RELEASE
        return AcknowledgeType.ACCEPT

    with worker(broker) as orders:
        work(orders, handle, lambda: len(tried) == 3)
    waits = [round(1000 * (later - before)) for before, later in pairwise(tried)]
    say(f"   it waited {waits[0]} ms, then {waits[1]} ms")
    check(waits[0] >= first and waits[1] >= second, "it came back too soon")


def give_up(broker: Broker) -> None:
    """An order that nobody can handle goes to the dead-letter topic, with the reason."""
    say(f"\n2. One order fails {TRIES} times, another is rejected: both are dead letters then.")
    send(broker, ORDERS, "plums", "stones")
    tried: list[bytes | None] = []

    def handle(order: Message) -> AcknowledgeType:
        tried.append(order.value())
        return AcknowledgeType.REJECT if order.value() == b"stones" else AcknowledgeType.RELEASE

    with worker(broker) as orders:
        work(orders, handle, lambda: tried.count(b"plums") == TRIES)
    letters = read(broker, DEAD, 2)
    check(sorted(letters) == [b"plums", b"stones"], f"the letters are {letters}")
    check(tried.count(b"stones") == 1, "what is rejected must not come again")
    show(penstock(broker, "dlq", "list"))


def redrive(broker: Broker) -> None:
    """What was wrong is mended: the letters go back, once, and are handled."""
    say("\n3. The handler is mended, and the letters are sent back.")
    show(penstock(broker, "dlq", "redrive", DEAD))
    penstock(broker, "dlq", "redrive", DEAD)  # nothing is left to send
    handled: list[bytes] = []

    def handle(order: Message) -> AcknowledgeType:
        handled.append(order.value() or b"")
        say(f"   {handled[-1].decode()}, with the headers {dict(order.headers() or ())}")
        return AcknowledgeType.ACCEPT

    with worker(broker) as orders:
        work(orders, handle, lambda: len(handled) >= 2, linger=1.0)
    check(sorted(handled) == [b"plums", b"stones"], f"handled were {handled}")


def delay(broker: Broker) -> None:
    """A message with a time on it is there at its time, though its node was killed meanwhile."""
    say(f"\n4. A reminder is due in {DELAY_MS / 1000:g} s; its node is killed before that.")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(REMINDERS, "call back", headers={"penstock-delay-ms": str(DELAY_MS).encode()})
    began = time.monotonic()
    check(producer.flush(SECONDS_MAX) == 0, "the reminder was not taken")
    show(penstock(broker, "delayed", "list", REMINDERS))
    broker.kill()
    broker.start()
    got = read(broker, REMINDERS, 1)
    waited = round(1000 * (time.monotonic() - began))
    say(f"   {got[0].decode()!r} came after {waited} ms")
    check(got == [b"call back"], f"read were {got}")
    check(waited >= DELAY_MS, "it came too soon")
    check(read(broker, REMINDERS, 1) == got, "it is there once")


# What a worker is made of.


@contextmanager
def worker(broker: Broker) -> Iterator[ShareConsumer]:
    """A member of the share group; many could share one partition."""
    consumer = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": WORKERS,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    consumer.subscribe([ORDERS])
    try:
        yield consumer
    finally:
        consumer.close()


def work(
    orders: ShareConsumer,
    handle: Callable[[Message], AcknowledgeType],
    done: Callable[[], bool],
    linger: float = 0.0,
) -> None:
    """Handle orders until `done`, and for a while longer, to see that no more come."""
    deadline = time.monotonic() + SECONDS_MAX
    ends = None
    while ends is None or time.monotonic() < ends:
        check(time.monotonic() < deadline, "this takes too long")
        for order in orders.poll(0.2):
            check(order.error() is None, str(order.error()))
            orders.acknowledge(order, handle(order))
        for place, refusal in orders.commit_sync().items():
            check(refusal is None, f"{place}: {refusal}")
        if ends is None and done():
            ends = time.monotonic() + linger


def send(broker: Broker, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    check(producer.flush(SECONDS_MAX) == 0, "not all was sent")


def read(broker: Broker, topic: str, count: int) -> list[bytes]:
    """The values in a topic, once there are so many, and those that follow at once."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"demo-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None and len(found) >= count:
            break
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    consumer.close()
    return found


def penstock(broker: Broker, *words: str) -> str:
    """Run a command, as one would at a terminal."""
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", *words, "-b", broker.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=60,
    )
    check(ran.returncode == 0, f"penstock {' '.join(words)}: {ran.stderr}")
    return ran.stdout


def say(line: str) -> None:
    print(line, flush=True)


def show(text: str) -> None:
    for line in text.splitlines():
        say(f"   | {line}")


def check(fine: bool, problem: str) -> None:
    if not fine:
        sys.exit(f"NOT AS IT SHOULD BE: {problem}")


if __name__ == "__main__":
    main()

"""Retry, dead letters and order for an ordinary consumer group, in a few lines.

    python examples/patterns/retry.py

Payments come in for five accounts. Some fail at first, and are tried again after a short wait; the
later payments of their account wait behind them, all others go on. One can never be booked: it goes
to the dead letters, with the reason. It needs nothing but Penstock: a broker in a process of its
own, and the same library that applications use.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import Message as Record
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.patterns import Backoff, MemoryStore, Message, Once, Reject, Worker, by_header
from penstock.testing import Broker

PAYMENTS, DEAD = "payments", "dlq.payments"
ACCOUNTS, COUNT = 5, 200
BAD = b"77"

booked: dict[bytes | None, list[int]] = defaultdict(list)
all_done = threading.Event()


# -- the worker: the part to copy ------------------------------------------------------------------


def book(payment: Message) -> None:
    """Book a payment. Whatever is raised here is a failed try."""
    assert payment.value is not None
    if payment.value == BAD:
        raise Reject("the account is closed")
    if int(payment.value) % 40 == 0 and payment.attempt < 3:
        raise ConnectionError("the bank does not answer")
    booked[payment.key].append(int(payment.value))


def make_worker(bootstrap: str) -> Worker:
    return Worker(
        {"bootstrap.servers": bootstrap, "group.id": "booking"},
        PAYMENTS,
        book,
        retry=Backoff(first=0.1, multiplier=2, tries=5),
        dead_letter=DEAD,
        once=Once(MemoryStore(), by_header("payment-id")),
    )


# -- the demonstration -----------------------------------------------------------------------------


def pay(bootstrap: str) -> None:
    """Every tenth payment is sent twice, as a producer without idempotence might."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(PAYMENTS, 3)])[PAYMENTS].result(10)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(COUNT):
        for _ in range(2 if number % 10 == 0 else 1):
            producer.produce(
                PAYMENTS,
                b"%d" % number,
                key=b"account-%d" % (number % ACCOUNTS),
                headers={"payment-id": b"%d" % number},
            )
    assert producer.flush(30) == 0


def dead_letters(bootstrap: str) -> list[tuple[bytes | None, object]]:
    with Consumer({"bootstrap.servers": bootstrap, "group.id": "looker"}) as reader:
        reader.assign([TopicPartition(DEAD, partition, 0) for partition in range(3)])
        found = [each for each in reader.consume(1, 10) if each.error() is None]
        return [(each.value(), reason(each)) for each in found]


def reason(letter: Record) -> object:
    return dict(letter.headers() or {})["__dlq.errors.message"]


def main() -> int:
    with Broker() as broker:
        pay(broker.bootstrap_servers)
        worker = make_worker(broker.bootstrap_servers)
        watch = threading.Thread(target=stop_when_done, args=[worker], daemon=True)
        watch.start()
        worker.run()
        letters = dead_letters(broker.bootstrap_servers)
    counts = worker.counts
    in_order = all(numbers == sorted(numbers) for numbers in booked.values())
    print(
        f"booked {counts.handled}, skipped {counts.skipped} that were sent twice,"
        f" failed tries {counts.failed}, buried {counts.buried}: {letters}"
    )
    print(f"each account's payments in order: {in_order}")
    once = sum(map(len, booked.values())) == counts.handled == COUNT - 1
    return 0 if once and in_order and letters == [(BAD, b"the account is closed")] else 1


def stop_when_done(worker: Worker) -> None:
    """A service would run until it is told to stop; a demonstration knows when there is no more."""
    while worker.counts.handled + worker.counts.skipped + worker.counts.buried < COUNT * 11 // 10:
        all_done.wait(0.05)
    worker.stop()


if __name__ == "__main__":
    sys.exit(main())

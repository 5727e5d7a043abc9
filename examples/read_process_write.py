"""Read, process, write, exactly once, whatever is killed in between.

    python examples/read_process_write.py

A worker takes orders from one topic and writes bills to another. The bills, and how far the orders
are done, belong to one transaction: both count, or neither. While it works it is killed with -9,
and so is the broker. In the end there is one bill for every order.

It needs nothing but Penstock: a broker in a process of its own, and the same client library that
applications use.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker

ORDERS, BILLS = "orders", "bills"
COUNT = 3_000
BATCH = 100
CALL_SECONDS_MAX = 5
STUCK_SECONDS = 8


# -- the worker: the part to copy -----------------------------------------------------------------


def work(bootstrap: str) -> None:
    """Process orders until the process is ended, in whatever way."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            # Whoever comes next with this id ends what this process leaves open.
            "transactional.id": "billing",
            "transaction.timeout.ms": 10_000,
            "log_level": 0,
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            # A member with a name takes its own place again, without waiting for a time-out.
            "group.instance.id": "billing-1",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    # A client that lost its broker in the middle of a call may wait for ever; the alarm ends the
    # process then, and the next one goes on. A supervisor would do the same.
    signal.alarm(STUCK_SECONDS)
    producer.init_transactions(CALL_SECONDS_MAX)
    consumer.subscribe([ORDERS])
    while True:
        signal.alarm(STUCK_SECONDS)
        orders = [each for each in consumer.consume(BATCH, 0.2) if each.error() is None]
        if orders:
            bill(producer, consumer, orders)


def bill(producer: Producer, consumer: Consumer, orders: list[Message]) -> None:
    """One transaction. If anything fails the process ends, and the next one begins anew."""
    producer.begin_transaction()
    for order in orders:
        producer.produce(BILLS, b"bill for " + order.value(), partition=order.partition())
    done = {(each.topic(), each.partition()): each.offset() + 1 for each in orders}
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, partition, end) for (topic, partition), end in done.items()],
        consumer.consumer_group_metadata(),
        CALL_SECONDS_MAX,
    )
    producer.commit_transaction(CALL_SECONDS_MAX)


# -- the demonstration ----------------------------------------------------------------------------


class Worker:
    """The worker's process, started again whenever it ends."""

    def __init__(self, bootstrap: str) -> None:
        self._command = [sys.executable, __file__, "work", bootstrap]
        self.lives = 0
        self._start()

    def _start(self) -> None:
        self.lives += 1
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def keep_alive(self) -> None:
        if self._process.poll() is not None:
            self._start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def take_orders(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for topic, made in admin.create_topics([NewTopic(ORDERS, 3), NewTopic(BILLS, 3)]).items():
        made.result(10)
        say(f"topic {topic} with 3 partitions")
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(COUNT):
        producer.produce(ORDERS, b"order %d" % number, partition=number % 3)
    assert producer.flush(30) == 0


def watch(broker: Broker, worker: Worker) -> Counter[bytes]:
    """Read the bills as they come; at a third kill the worker, at two thirds the broker."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "demo",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    reader.assign([TopicPartition(BILLS, partition, 0) for partition in range(3)])
    bills: Counter[bytes] = Counter()
    victims = [("the broker", lambda: (broker.kill(), broker.start())), ("the worker", worker.kill)]
    deadline = time.monotonic() + 90
    quiet_since = time.monotonic()
    while time.monotonic() < deadline:
        worker.keep_alive()
        found = [each.value() for each in reader.consume(50, 0.2) if each.error() is None]
        bills.update(found)
        if found:
            quiet_since = time.monotonic()
        if victims and len(bills) >= COUNT * (3 - len(victims)) // 3:
            name, kill = victims.pop()
            kill()
            say(f"killed {name} with -9 at bill {len(bills):,}")
        # A while longer than needed: a second bill for an order might be on its way.
        if len(bills) >= COUNT and time.monotonic() - quiet_since > 2:
            break
    reader.close()
    return bills


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    with Broker() as broker:
        take_orders(broker.bootstrap_servers)
        worker = Worker(broker.bootstrap_servers)
        try:
            bills = watch(broker, worker)
        finally:
            worker.kill()
    missing = COUNT - len(bills)
    doubled = sum(times > 1 for times in bills.values())
    print(f"{COUNT:,} orders, {len(bills):,} billed by {worker.lives} workers, one after another")
    print(f"missing {missing:,}, doubled {doubled:,}")
    return 0 if not missing and not doubled else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        try:
            work(sys.argv[2])
        except KafkaException as problem:
            sys.exit(str(problem))
    sys.exit(main())

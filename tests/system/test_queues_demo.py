"""Queues from end to end: examples/queues/demo.py as a user sees it, and what a worker buries."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from penstock.model.dead_letters import FAILED, REDRIVES
from penstock.patterns import Backoff, Message, Worker
from penstock.testing import Broker
from tests.unit.cli.runner import InProcess

SECONDS_MAX = 30
DEMO = Path(__file__).parents[2] / "examples" / "queues" / "demo.py"


def test_retry_dead_letter_redrive_and_delay_are_as_the_demo_says() -> None:
    told = subprocess.run(
        [sys.executable, str(DEMO)], capture_output=True, text=True, timeout=180, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.endswith("Everything was as it should be.\n")
    for step in ("pears, try 3", "orders  2", "'penstock-redrive-count': b'1'", "'call back' came"):
        assert step in told.stdout, told.stdout


def test_letters_of_a_worker_are_sent_back_as_those_of_brokers_are(tmp_path: Path) -> None:
    mended = False
    handled: list[tuple[bytes | None, bytes | None]] = []

    def handle(message: Message) -> None:
        if not mended:
            raise ValueError("the price is missing")
        handled.append((message.value, message.header(REDRIVES)))

    with Broker() as broker:
        penstock = InProcess(tmp_path, broker.bootstrap_servers)
        penstock.out("topic", "create", "orders")
        produce(broker, "orders", b"apples")
        client = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"}

        def work(done: Callable[[], bool]) -> None:
            worker = Worker(client, "orders", handle, retry=Backoff(tries=1), dead_letter="dlq.o")
            running = threading.Thread(target=worker.run)
            running.start()
            deadline = time.monotonic() + SECONDS_MAX
            while not done() and time.monotonic() < deadline:
                time.sleep(0.1)
            worker.stop()
            running.join(SECONDS_MAX)

        work(lambda: FAILED in penstock("dlq", "list", "dlq.o").stdout)
        (letter,) = json.loads(penstock.out("dlq", "show", "dlq.o", "-o", "json"))
        assert letter["source"] == {"topic": "orders", "partition": 0, "offset": 0}
        assert (letter["group"], letter["value"]) == ("billing", "apples")
        assert "the price is missing" in letter["message"]
        penstock.out("dlq", "redrive", "dlq.o")
        mended = True
        work(lambda: bool(handled))
    assert handled == [(b"apples", b"1")]


def produce(broker: Broker, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value)
    assert producer.flush(SECONDS_MAX) == 0

"""Share consumers of Apache and of librdkafka, as operators and programs use them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.java.programs import wait_until
from tests.compat.share_crew import Shared, verifiable
from tests.oracle.nodes import Node
from tests.oracle.tools import Tools

pytestmark = pytest.mark.java

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
SECONDS_MAX = 60
LOCK_MS = 30_000
"""Longer than anybody here should wait for what another held."""

KEEPER = Path(__file__).with_name("share_keeper.py")


@pytest.fixture
def shared(broker: Node, topic: str) -> Shared:
    return Shared(broker.bootstrap, topic, 2)


def console(tools: Tools, shared: Shared, *options: str) -> list[int]:
    out = tools.check(CONSOLE, *shared.where, "--group", shared.group, *options)
    return [int(line) for line in out.splitlines()]


def test_console_share_consumers_divide_what_there_is(tools: Tools, shared: Shared) -> None:
    shared.send(range(20), **{"batch.num.messages": 5})
    first = console(tools, shared, "--max-messages", "7", "--timeout-ms", "20000")
    assert len(first) == 7
    # What the first one accepted is done with; what else it had got is for the second.
    second = console(tools, shared, "--max-messages", "13", "--timeout-ms", "20000")
    assert sorted(first + second) == list(range(20))


def test_a_record_that_is_released_comes_again_and_one_that_is_rejected_does_not(
    tools: Tools, shared: Shared
) -> None:
    shared.send(range(4))
    released = console(tools, shared, "--release", "--max-messages", "4", "--timeout-ms", "20000")
    rejected = console(tools, shared, "--reject", "--max-messages", "4", "--timeout-ms", "20000")
    assert sorted(released) == sorted(rejected) == list(range(4))
    assert console(tools, shared, "--timeout-ms", "3000") == []


def test_only_what_was_committed_is_delivered_where_the_group_wants_it(
    tools: Tools, shared: Shared
) -> None:
    shared.configure("share.isolation.level", "read_committed")
    producer = Producer({"bootstrap.servers": shared.bootstrap, "transactional.id": "shares"})
    producer.init_transactions(60)
    for values, ends_well in ((range(5), True), (range(100, 105), False), (range(5, 10), True)):
        producer.begin_transaction()
        for value in values:
            producer.produce(shared.topic, str(value))
        assert producer.flush(60) == 0
        producer.commit_transaction(60) if ends_well else producer.abort_transaction(60)
    shared.send(range(10, 15))
    got = console(tools, shared, "--max-messages", "15", "--timeout-ms", "20000")
    assert sorted(got) == list(range(15))


def test_the_performance_tool_reads_with_several_consumers(tools: Tools, shared: Shared) -> None:
    shared.send(range(5000), **{"linger.ms": 5})
    out = tools.check(
        PERFORMANCE, *shared.where, "--group", shared.group, "--num-records", "5000",
        "--threads", "3", "--hide-header", "--timeout", "20000",
    )  # fmt: skip
    # start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, ...
    assert int(out.strip().splitlines()[-1].split(", ")[5]) >= 5000


def test_consumers_share_one_partition_and_each_record_is_one_consumers(
    broker: Node, topic: str, tmp_path: Path
) -> None:
    shared = Shared(broker.bootstrap, topic, 1)
    mode = ("--acknowledgement-mode", "sync")
    with (
        verifiable(shared, tmp_path, *mode) as one,
        verifiable(shared, tmp_path, *mode) as two,
    ):
        crew = (one, two)
        sent = 0

        def all_work() -> bool:
            """Until each of them has got something of the one partition."""
            nonlocal sent
            shared.send(range(sent, sent + 100), **{"batch.num.messages": 5})
            sent += 100
            time.sleep(0.2)
            return all(each.got for each in crew)

        wait_until(all_work, "both get records of one partition", SECONDS_MAX)
        wait_until(
            lambda: sum(each.acknowledged for each in crew) >= sent,
            "every record is acknowledged",
            SECONDS_MAX,
            lambda: str([each.acknowledged for each in crew]),
        )
        assert Counter(value for each in crew for value in each.got) == Counter(range(sent))


def test_what_a_killed_consumer_held_goes_to_others_before_its_lock_ends(
    tools: Tools, broker: Node, topic: str
) -> None:
    shared = Shared(broker.bootstrap, topic, 1)
    shared.configure("share.record.lock.duration.ms", str(LOCK_MS))
    shared.send(range(10))
    with subprocess.Popen(
        [sys.executable, str(KEEPER), broker.bootstrap, shared.group, topic, "10"],
        stdout=subprocess.PIPE, text=True,
    ) as keeper:  # fmt: skip
        try:
            assert keeper.stdout is not None
            held = [int(keeper.stdout.readline()) for _ in range(10)]
        finally:
            keeper.kill()
    assert held == list(range(10))
    killed = time.monotonic()
    got = console(tools, shared, "--max-messages", "10", "--timeout-ms", "20000")
    assert time.monotonic() - killed < LOCK_MS / 1000
    assert sorted(got) == held

"""`Broker`, the plugin and the examples with the real thing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.testing import Broker
from tests.unit.testing.stubs import PYTHONPATH
from tests.unit.testing.yardstick import seconds_when_quiet

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).resolve().parents[3]
READY_SECONDS_MAX = 0.300
PLUGINS = ("-p", "penstock.testing.plugin", "-p", "xdist")


def produce(broker: Broker, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def consume(broker: Broker, topic: str, count: int) -> list[str]:
    settings = {"group.id": "test", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    deadline = time.monotonic() + 20
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
    consumer.close()
    return values


def test_a_broker_takes_and_gives_records() -> None:
    with Broker() as broker:
        produce(broker, "orders", "one", "two")
        assert consume(broker, "orders", 2) == ["one", "two"]


async def test_a_broker_serves_async_tests_too() -> None:
    from aiokafka import AIOKafkaProducer

    async with Broker() as broker:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            stored = await producer.send_and_wait("orders", b"one")
        assert stored.offset == 0


def test_settings_count() -> None:
    from confluent_kafka.admin import AdminClient

    with Broker({"num.partitions": "3"}) as broker:
        produce(broker, "orders", "one")
        found = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics("orders")
        assert len(found.topics["orders"].partitions) == 3


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill])
def test_what_was_acknowledged_is_there_after_a_stop_and_after_a_crash(
    end: object, tmp_path: Path
) -> None:
    with Broker(data=tmp_path) as broker:
        produce(broker, "orders", "one", "two")
        end(broker)  # type: ignore[operator]
        broker.start()
        assert consume(broker, "orders", 2) == ["one", "two"]


def test_a_setting_that_is_none_shows_what_the_broker_says() -> None:
    from penstock.testing import BrokerFailed

    with (
        pytest.raises(BrokerFailed, match=r"num\.partitions"),
        Broker({"num.partitons": "3"}),
    ):
        pass


def test_a_broker_is_ready_quickly() -> None:
    def start_and_stop() -> None:
        with Broker():
            pass

    assert seconds_when_quiet(start_and_stop, READY_SECONDS_MAX) < READY_SECONDS_MAX


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def test_each_test_has_a_topic_of_its_own_that_is_gone_afterwards(
    project: pytest.Pytester,
) -> None:
    project.makepyfile("""
        import pytest
        from confluent_kafka.admin import AdminClient

        names = []

        def topics(broker):
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            return admin.list_topics(timeout=10).topics

        @pytest.mark.parametrize("word", ["a b", "ä/ß", "x" * 300])
        def test_one(penstock_broker, penstock_topic, word):
            assert len(topics(penstock_broker)[penstock_topic].partitions) == 1
            names.append(penstock_topic)

        @pytest.mark.penstock_topic(partitions=4, config={"cleanup.policy": "compact"})
        def test_two(penstock_broker, penstock_topic):
            assert len(topics(penstock_broker)[penstock_topic].partitions) == 4
            names.append(penstock_topic)

        def test_three(penstock_broker, penstock_topic):
            admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap_servers})
            admin.delete_topics([penstock_topic])[penstock_topic].result(10)

        def test_all_are_gone(penstock_broker):
            assert len(set(names)) == 4
            assert not set(names) & set(topics(penstock_broker))
    """)
    project.runpytest_subprocess(*PLUGINS, "--strict-markers").assert_outcomes(passed=6)


def test_workers_of_xdist_do_not_disturb_each_other(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        @pytest.mark.parametrize("number", range(10))
        def test_many(penstock_broker, penstock_topic, number):
            stored = []
            producer = Producer({"bootstrap.servers": penstock_broker.bootstrap_servers})
            note = lambda error, message: stored.append((error, message.offset()))
            producer.produce(penstock_topic, b"x", on_delivery=note)
            assert producer.flush(20) == 0
            assert stored == [(None, 0)]
    """)
    project.runpytest_subprocess(*PLUGINS, "-n", "2").assert_outcomes(passed=10)


def test_the_examples_run(project: pytest.Pytester) -> None:
    examples = REPOSITORY / "examples"
    told = subprocess.run(
        [sys.executable, str(examples / "produce_consume.py"), "--embedded"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == ["en: hello", "fr: bonjour", "hu: szia", "sw: jambo"]
    project.copy_example(str(examples / "test_word_count.py"))
    project.runpytest_subprocess(*PLUGINS).assert_outcomes(passed=3)

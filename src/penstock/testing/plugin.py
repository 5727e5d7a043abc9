"""The pytest plugin: `penstock_broker` and `penstock_topic`, with nothing to set up.

    def test_orders(penstock_broker, penstock_topic):
        producer = Producer({"bootstrap.servers": penstock_broker.bootstrap_servers})
        producer.produce(penstock_topic, b"an order")

Settings of the broker go into pytest's configuration, or into a `penstock_config` fixture of your
own that returns them:

    [tool.pytest.ini_options]
    penstock_config = ["num.partitions=3"]

Under pytest-xdist each worker has a broker of its own: they share nothing.

Every pytest run of a project that has Penstock installed imports this module. It therefore imports
nothing but pytest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import Broker

TOPIC_NAME_MAX = 200
ADMIN_SECONDS_MAX = 30.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "penstock_config",
        "settings of the penstock_broker fixture, each as key=value",
        type="linelist",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "penstock_topic(partitions=1, config=None): how to create the penstock_topic of this test",
    )


@pytest.fixture(scope="session")
def penstock_config(pytestconfig: pytest.Config) -> dict[str, str]:
    """Settings of the broker. Define a fixture of this name to choose your own."""
    settings: dict[str, str] = {}
    for line in pytestconfig.getini("penstock_config"):
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"penstock_config: {line!r} is not key=value")
        settings[key.strip()] = value.strip()
    return settings


@pytest.fixture(scope="session")
def penstock_broker(penstock_config: dict[str, str]) -> Iterator[Broker]:
    """A running broker, one for all tests; `bootstrap_servers` tells clients where."""
    from penstock.testing.broker import Broker

    with Broker(penstock_config) as broker:
        yield broker


@pytest.fixture(scope="session")
def _penstock_admin(penstock_broker: Broker) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": penstock_broker.bootstrap_servers})


@pytest.fixture
def penstock_topic(request: pytest.FixtureRequest, _penstock_admin: Any) -> Iterator[str]:
    """The name of a new topic that no other test uses; it is deleted after the test.

    It has one partition, unless `@pytest.mark.penstock_topic(partitions=3, config={...})` says
    otherwise.
    """
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    marker = request.node.get_closest_marker("penstock_topic")
    wanted = {"partitions": 1, "config": None, **(marker.kwargs if marker else {})}
    name = _topic_name(request.node.name)
    new = NewTopic(name, wanted["partitions"], 1, config=wanted["config"] or {})
    _penstock_admin.create_topics([new])[name].result(ADMIN_SECONDS_MAX)
    yield name
    _delete(_penstock_admin, name)


def _delete(admin: Any, name: str) -> None:
    from confluent_kafka import KafkaError, KafkaException

    try:
        admin.delete_topics([name])[name].result(ADMIN_SECONDS_MAX)
    except KafkaException as refusal:
        # A test may well have deleted its own topic.
        if refusal.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


def _topic_name(test: str) -> str:
    """A test's name in the characters that topics may have, and something nobody else has."""
    from uuid import uuid4

    return re.sub(r"[^a-zA-Z0-9._-]+", "-", test)[:TOPIC_NAME_MAX] + "-" + uuid4().hex[:8]

"""What a user may ask of a worker, and what it makes of it."""

from __future__ import annotations

import math

import pytest

from penstock.patterns import AsyncWorker, Backoff, Message, NotReady, Worker, retry_topic
from penstock.patterns.settings import Settings
from penstock.patterns.topics import Plan, Step

CLIENT = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"topics": []}, "at least one topic"),
        ({"client": {"bootstrap.servers": "x"}}, "want a group.id"),
        ({"client": CLIENT | {"enable.auto.commit": True}}, "commits what was handled"),
        ({"client": CLIENT | {"on_commit": print}}, "leave it out"),
        ({"workers": 0}, "workers is 0, expected 1 to 1000"),
        ({"in_flight_max": 0}, "in_flight_max is 0"),
        ({"crashes_max": 0}, "crashes_max is 0"),
        ({"commit_seconds": 0}, "commit_seconds is 0"),
        ({"hold_seconds": -1}, "hold_seconds is -1"),
        ({"dead_letter": "orders"}, "its own dead-letter topic"),
        ({"bury_expired": True}, "wants honour_ttl"),
        ({"bury_expired": True, "honour_ttl": True}, "and a dead_letter"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(options: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Settings(**{"client": CLIENT, "topics": ["orders"], **options})  # type: ignore[arg-type]


def test_both_workers_refuse_when_they_are_made_and_touch_no_server() -> None:
    async def handle(_: Message) -> None: ...

    with pytest.raises(ValueError, match="workers is 0"):
        Worker(CLIENT, "orders", print, workers=0)
    with pytest.raises(ValueError, match="workers is 0"):
        AsyncWorker(CLIENT, "orders", handle, workers=0)


def test_a_stopped_worker_does_not_begin() -> None:
    worker = Worker({**CLIENT, "bootstrap.servers": "localhost:1"}, "orders", print)
    worker.stop()
    worker.run()
    assert worker.counts.handled == 0


@pytest.mark.parametrize(
    ("options", "parked", "hold_max"),
    [
        ({}, [], math.inf),
        ({"retry": Backoff.of(1, 60, 600)}, [], math.inf),
        ({"retry": Backoff.of(1, 60, 600), "keep_order": False}, [60, 600], 10),
        ({"retry": Backoff.of(1, 5), "keep_order": False}, [], math.inf),
        ({"retry": Backoff.of(1, 5), "keep_order": False, "hold_seconds": 0}, [1, 5], 0),
    ],
)
def test_waits_are_parked_that_are_longer_than_memory_holds_and_order_allows(
    options: dict[str, object], parked: list[float], hold_max: float
) -> None:
    settings = Settings(client=CLIENT, topics=["orders"], **options)  # type: ignore[arg-type]
    assert settings.parked_waits == parked
    assert settings.rules().hold_max == hold_max


def test_producers_are_given_how_to_connect_and_nothing_of_the_consumer() -> None:
    client = {
        **CLIENT,
        "sasl.username": "ann",
        "auto.offset.reset": "latest",
        "ssl.ca.location": "x",
    }
    settings = Settings(client=client, topics=["orders"], producer={"compression.type": "zstd"})
    found = settings.for_producer()
    assert {"bootstrap.servers", "sasl.username", "ssl.ca.location"} <= found.keys()
    assert found.keys().isdisjoint({"group.id", "auto.offset.reset"})
    assert (found["enable.idempotence"], found["compression.type"]) == (True, "zstd")


def test_a_consumer_commits_nothing_by_itself_and_begins_at_the_earliest() -> None:
    found = Settings(client=CLIENT, topics=["orders"]).for_consumer()
    assert (found["enable.auto.commit"], found["auto.offset.reset"]) == (False, "earliest")


@pytest.mark.parametrize(
    ("in_flight_max", "batch"), [(1, 1), (2, 1), (10, 5), (1_000, 100), (100_000, 100)]
)
def test_a_batch_leaves_room_within_the_bound(in_flight_max: int, batch: int) -> None:
    settings = Settings(client=CLIENT, topics=["orders"], in_flight_max=in_flight_max)
    assert settings.batch == batch


@pytest.mark.parametrize(
    ("wait", "name"),
    [
        (None, "retry.billing.orders"),
        (60.0, "retry.billing.orders.60s"),
        (1.5, "retry.billing.orders.1500ms"),
        (0.25, "retry.billing.orders.250ms"),
    ],
)
def test_retry_topics_are_named_after_group_topic_and_wait(wait: float | None, name: str) -> None:
    assert retry_topic("billing", "orders", wait) == name


@pytest.mark.parametrize("group", ["bill ing", "a/b", "ä", "x" * 250])
def test_a_group_that_makes_no_name_of_a_topic_is_refused_in_words(group: str) -> None:
    with pytest.raises(NotReady, match=r"no name for a topic: use a group\.id"):
        retry_topic(group, "orders")


@pytest.mark.parametrize(("wait", "topic"), [(1.0, "a"), (9.0, "b"), (40.0, "b"), (900.0, "c")])
def test_a_message_waits_in_the_topic_that_is_nearest_to_its_wait(wait: float, topic: str) -> None:
    plan = Plan([], {"orders": [Step("a", 1.0), Step("b", 10.0), Step("c", 600.0)]})
    assert plan.step("orders", wait).topic == topic
    assert plan.is_retry(topic)
    assert not plan.is_retry("orders")


def test_a_server_that_keeps_messages_itself_needs_one_topic_for_all_waits() -> None:
    plan = Plan([], {"orders": [Step("all", None)]})
    assert {plan.step("orders", wait).topic for wait in (0.1, 1e6)} == {"all"}

"""Commits under way: a client tries again what failed, and the older one could arrive last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, TopicPartition

from penstock.patterns import engine as engines
from penstock.patterns.engine import Engine
from penstock.patterns.settings import Settings
from penstock.patterns.tenure import Mark, Place
from tests.unit.patterns.stage import TOPIC

CLIENT = {"bootstrap.servers": "localhost:1", "group.id": "g"}


class Consumer:
    """Takes commits, and answers polls with what became of them."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.polls = 0
        self.on_poll: Any = None

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        self.asked.append(offsets[0].offset)
        return offsets

    def poll(self, seconds: float) -> None:
        self.polls += 1
        if self.on_poll is not None:
            self.on_poll()


class Desk:
    """Has always come further."""

    def __init__(self) -> None:
        self.offset = 0
        self.again: list[Place] = []
        self.tenures: dict[Place, Any] = {}

    def marks(self) -> list[Mark]:
        self.offset += 1
        return [Mark((TOPIC, 0), self.offset, "")]

    def told(self, marks: list[Mark]) -> None:
        pass

    def untold(self, places: Iterable[Place]) -> None:
        self.again += places


@pytest.fixture
def engine() -> Engine:
    made = Engine(Settings(CLIENT, [TOPIC]), lambda job: None)
    made._desk = cast(Any, Desk())
    made._consumer = cast(Any, Consumer())
    return made


def asked(engine: Engine) -> list[int]:
    return cast(Consumer, engine._consumer).asked


def test_one_commit_is_under_way_at_a_time(engine: Engine) -> None:
    engine._commit()
    engine._commit()
    assert asked(engine) == [1]
    engine._on_commit(None, [TopicPartition(TOPIC, 0, 1)])
    engine._commit()
    assert len(asked(engine)) == 2


def test_one_that_failed_is_asked_for_again(engine: Engine) -> None:
    engine._commit()
    engine._on_commit(KafkaError(KafkaError._TRANSPORT), [TopicPartition(TOPIC, 0, 1)])
    assert cast(Any, engine._desk).again == [(TOPIC, 0)]
    engine._commit()
    assert len(asked(engine)) == 2


def test_one_that_nobody_hears_of_does_not_end_all_commits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine._commit()
    monkeypatch.setattr(engines, "COMMIT_SECONDS_MAX", 0.0)
    engine._commit()
    assert len(asked(engine)) == 2


def test_the_last_commit_waits_for_the_one_before_it(engine: Engine) -> None:
    engine._commit()
    consumer = cast(Consumer, engine._consumer)
    consumer.on_poll = lambda: engine._on_commit(None, [TopicPartition(TOPIC, 0, 1)])
    engine._await_commit()
    engine._await_commit()
    assert consumer.polls == 1

"""What a worker was asked to do, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.patterns.backoff import Backoff
from penstock.patterns.desk import Rules
from penstock.patterns.once import Once

WORKERS_MAX = 1_000
IN_FLIGHT_MAX = 100_000
BATCH_MAX = 100

_SHARED = (
    "bootstrap.servers", "metadata.broker.list", "client.", "security.", "sasl.", "ssl.",
    "enable.ssl.", "enable.sasl.", "https.", "oauth_cb", "socket.", "broker.address.",
    "reconnect.", "log_level", "debug", "logger", "error_cb",
)  # fmt: skip
"""Settings that a producer and an admin client need just as the consumer does, by their start."""


@dataclass(frozen=True, slots=True)
class Settings:
    """See `Worker` for what each means."""

    client: Mapping[str, Any]
    topics: Sequence[str]
    retry: Backoff | None = None
    dead_letter: str | None = None
    once: Once | None = None
    workers: int = 8
    keep_order: bool = True
    in_flight_max: int = 1_000
    hold_seconds: float = 10.0
    honour_ttl: bool = False
    bury_expired: bool = False
    crashes_max: int = 3
    commit_seconds: float = 1.0
    stop_seconds: float = 30.0
    revoke_seconds: float = 30.0
    create_topics: bool = True
    producer: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("a worker wants at least one topic")
        if not self.client.get("group.id"):
            raise ValueError("the client settings want a group.id: progress is committed for it")
        for name, low, high in (
            ("workers", 1, WORKERS_MAX),
            ("in_flight_max", 1, IN_FLIGHT_MAX),
            ("crashes_max", 1, 100),
            ("hold_seconds", 0, math.inf),
            ("commit_seconds", 0.01, 60),
            ("stop_seconds", 0, math.inf),
            ("revoke_seconds", 0, math.inf),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} is {getattr(self, name)}, expected {low} to {high}")
        if self.client.get("enable.auto.commit") in (True, "true"):
            raise ValueError(
                "enable.auto.commit commits what was read; a worker commits what was handled:"
                " leave it out"
            )
        if "on_commit" in self.client:
            raise ValueError("on_commit is the worker's own: leave it out")
        if self.dead_letter in self.topics:
            raise ValueError(f"{self.dead_letter} cannot be its own dead-letter topic")
        if self.bury_expired and not (self.honour_ttl and self.dead_letter):
            raise ValueError("bury_expired wants honour_ttl=True and a dead_letter topic")

    @property
    def group(self) -> str:
        """The consumer group."""
        return str(self.client["group.id"])

    @property
    def batch(self) -> int:
        """Messages to ask the client for at a time: no more than the bound leaves room for."""
        return max(1, min(BATCH_MAX, self.in_flight_max // 2))

    @property
    def parked_waits(self) -> list[float]:
        """The waits that are spent in retry topics."""
        if self.retry is None or self.keep_order:
            return []
        return [wait for wait in self.retry.waits() if wait > self.hold_seconds]

    def rules(self) -> Rules:
        """What the desk has to know."""
        return Rules(
            workers=self.workers,
            in_flight_max=self.in_flight_max,
            keep_order=self.keep_order,
            backoff=self.retry,
            hold_max=self.hold_seconds if self.parked_waits else math.inf,
            buries=self.dead_letter is not None,
            bury_expired=self.bury_expired,
            crashes_max=self.crashes_max,
        )

    def shared(self) -> dict[str, Any]:
        """Of the client settings those that are not a consumer's alone."""
        return {key: value for key, value in self.client.items() if key.startswith(_SHARED)}

    def for_consumer(self) -> dict[str, Any]:
        """A consumer that commits only what it is told to."""
        return {
            "auto.offset.reset": "earliest",
            **self.client,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }

    def for_producer(self) -> dict[str, Any]:
        """A producer that has what it wrote acknowledged by all, once and in order."""
        return {
            **self.shared(),
            "enable.idempotence": True,
            "linger.ms": 5,
            # What was taken may be given: that it is too large is for the server to say.
            "message.max.bytes": 1_000_000_000,
            **self.producer,
        }

"""What a request is charged for: the time of the loop that it takes, not the time that it waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.server.quota_account import Account


class Meter:
    """A quota that nobody exceeds; it remembers what it was asked to charge."""

    def __init__(self) -> None:
        self.charged: list[float] = []

    def charge(self, _user: str, _client: str, amount: float, _now: int) -> int:
        self.charged.append(amount)
        return 0


class Scene:
    def __init__(self) -> None:
        self.now = 0.0
        self.meter = Meter()
        quotas = SimpleNamespace(request=self.meter, produce=Meter(), clock=lambda: 0)
        self.account = Account(cast(Any, quotas), lambda: self.now, cast(Any, None), 100)
        principal = SimpleNamespace(name="alice")
        self.call = cast(Any, SimpleNamespace(principal=principal, client_id="app", api_key=1))

    def settle(self) -> float:
        self.account.settle(self.call, SimpleNamespace(throttle_time_ms=0))
        [percent] = self.meter.charged
        return percent


def test_a_request_that_is_answered_at_once_pays_for_all_its_time() -> None:
    scene = Scene()
    scene.now = 0.25
    assert scene.settle() == pytest.approx(25)


def test_a_request_that_waits_pays_for_the_time_before() -> None:
    scene = Scene()
    scene.now = 0.25
    scene.account.stop()
    scene.now = 30.0
    assert scene.settle() == pytest.approx(25)

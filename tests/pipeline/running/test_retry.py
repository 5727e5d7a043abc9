from __future__ import annotations

from penstock.pipeline.running.retry import LAST_SECONDS, Retries


def failed(retries: Retries, batch: int, now: float) -> float | None:
    """How long the next start is away; None if there is none."""
    if not retries.may_go_on(batch, now):
        return None
    wait = 0.0
    while not retries.due(now + wait):
        wait += 0.5
    return wait


def test_each_attempt_waits_twice_as_long() -> None:
    retries = Retries(10)
    waits = [failed(retries, 0, 100.0 * number) for number in range(10)]
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == LAST_SECONDS


def test_attempts_come_to_an_end() -> None:
    retries = Retries(2)
    assert [failed(retries, 0, 0.0) for _ in range(3)] == [1, 2, None]


def test_progress_gives_all_attempts_back() -> None:
    retries = Retries(2)
    failed(retries, 0, 0.0)
    failed(retries, 0, 0.0)
    assert failed(retries, 1, 0.0) == 1


def test_no_attempt_is_none() -> None:
    retries = Retries(0)
    assert failed(retries, 0, 0.0) is None
    assert not retries.waiting


def test_an_attempt_is_due_once() -> None:
    retries = Retries(1)
    retries.may_go_on(0, 0.0)
    assert retries.waiting
    assert not retries.due(0.5)
    assert retries.due(1.0)
    assert not retries.due(2.0)
    assert not retries.waiting

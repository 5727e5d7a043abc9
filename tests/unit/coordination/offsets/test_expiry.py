"""How long offsets are kept."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.coordination.group.offsets import expiry
from penstock.coordination.group.offsets.timers import EXPIRE
from penstock.model.errors import ErrorCode
from tests.unit.coordination.offsets.desk import DAY_MS, NOON, Desk

WEEK_MS = 7 * DAY_MS


class Members:
    """A group whose members, state and subscription the test chooses."""

    def __init__(self, group_id: str = "g", **facts: Any) -> None:
        self.group_id = group_id
        self.kind = facts.pop("kind", "classic")
        self.state_name = facts.pop("state_name", "Stable")
        self.protocol_type = facts.pop("protocol_type", "consumer")
        self.is_empty = facts.pop("is_empty", False)
        self.topics = facts.pop("topics", ())
        self.since: int | None = facts.pop("since", None)
        self.deleted = 0
        assert not facts

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topics

    def offsets_expire_from(self) -> int | None:
        return self.since

    def check_commit(self, *_: object) -> ErrorCode:
        return ErrorCode.NONE

    def delete(self, out: object) -> None:
        self.deleted += 1


def with_members(desk: Desk, **facts: Any) -> Members:
    group = Members(**facts)
    desk.shard.groups["g"] = group  # type: ignore[assignment]
    return group


def test_an_offset_that_nobody_renewed_for_a_week_expires_and_its_group_goes_with_it() -> None:
    desk = Desk()
    desk.commit("g", 1)
    desk.now += DAY_MS
    desk.commit("g", 1, partition=1)
    desk.now = NOON + WEEK_MS - 1
    assert desk.fire(*EXPIRE) == 0
    desk.now += 1
    assert desk.fire(*EXPIRE) == 1
    assert desk.offset("g") is None and desk.offset("g", partition=1) == 1
    assert "g" in desk.shard.groups
    desk.now += DAY_MS
    assert desk.fire(*EXPIRE) == 2  # the offset and the group
    assert "g" not in desk.shard.groups and not desk.shard.offsets.by_group


def test_an_expiry_that_the_client_asked_for_goes_before_the_nodes() -> None:
    desk = Desk()
    desk.commit("g", 1, retention_ms=1000)
    desk.commit("g", 1, partition=1, retention_ms=2 * WEEK_MS)
    desk.now += 1000
    desk.fire(*EXPIRE)
    assert desk.offset("g") is None
    desk.now = NOON + 2 * WEEK_MS - 1
    desk.fire(*EXPIRE)
    assert desk.offset("g", partition=1) == 1


def test_in_an_empty_group_retention_counts_from_when_it_became_empty() -> None:
    desk = Desk()
    desk.commit("g", 1)
    with_members(desk, is_empty=True, since=NOON + DAY_MS)
    desk.now = NOON + WEEK_MS
    assert desk.fire(*EXPIRE) == 0
    desk.now += DAY_MS
    assert desk.fire(*EXPIRE) == 1


def test_offsets_of_topics_that_members_subscribe_to_never_expire() -> None:
    desk = Desk()
    desk.commit("g", 1, "read")
    desk.commit("g", 1, "left")
    group = with_members(desk, topics=("read",))
    desk.now += 10 * WEEK_MS
    desk.fire(*EXPIRE)
    assert desk.offset("g", "read") == 1 and desk.offset("g", "left") is None
    assert group.deleted == 0


@pytest.mark.parametrize(
    "facts",
    [
        {"state_name": "PreparingRebalance"},
        {"state_name": "CompletingRebalance"},
        {"protocol_type": "connect"},
    ],
)
def test_while_it_is_not_known_what_members_read_nothing_expires(facts: dict[str, str]) -> None:
    desk = Desk()
    desk.commit("g", 1)
    with_members(desk, **facts)
    desk.now += 10 * WEEK_MS
    assert desk.fire(*EXPIRE) == 0


def test_a_consumer_group_keeps_what_it_reads_whatever_its_state() -> None:
    desk = Desk()
    desk.commit("g", 1, "read")
    desk.commit("g", 1, "left")
    with_members(desk, kind="consumer", state_name="Assigning", topics=("read",))
    desk.now += WEEK_MS
    assert desk.fire(*EXPIRE) == 1
    assert desk.offset("g", "read") == 1


def test_an_offset_that_a_transaction_may_change_does_not_expire() -> None:
    desk = Desk()
    desk.commit("g", 1)
    desk.commit("g", 2, producer=7)
    desk.now += WEEK_MS
    assert desk.fire(*EXPIRE) == 0
    desk.end_txn(7, is_commit=False)
    assert desk.fire(*EXPIRE) == 2


def test_an_empty_group_without_offsets_goes_unless_a_transaction_is_open() -> None:
    desk = Desk()
    desk.commit("g", 2, producer=7)
    assert desk.fire(*EXPIRE) == 0
    desk.end_txn(7, is_commit=False)
    assert desk.fire(*EXPIRE) == 1
    assert "g" not in desk.shard.groups


def test_a_long_search_is_done_in_steps_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "LOOKS_PER_STEP", 10)
    monkeypatch.setattr(expiry, "RECORDS_PER_STEP", 7)
    desk = Desk()
    for number in range(40):
        desk.commit(f"g{number}", 1)
    for partition in range(30):
        desk.commit("large", 1, partition=partition)
    desk.now += WEEK_MS
    steps = 0
    while True:
        steps += 1
        assert desk.fire(*EXPIRE) <= 12
        if desk.timers[EXPIRE] > desk.now:
            break
    assert steps > 8
    assert not desk.shard.groups and len(desk.shard.offsets) == 0


def test_a_sweep_that_the_log_refused_is_tried_again_later() -> None:
    desk = Desk()
    desk.commit("g", 1)
    desk.now += WEEK_MS
    out = desk.decide(lambda shard, at, out, _: shard.on_timer(EXPIRE, at, out))
    assert out.records and out.undo is not None
    amends = desk.decide(lambda shard, at, amends, _: out.undo(ErrorCode.NONE, amends))  # type: ignore[misc]
    assert amends.timers[EXPIRE] == desk.now + desk.settings.retention_check_ms
    assert desk.fire(*EXPIRE) == 2

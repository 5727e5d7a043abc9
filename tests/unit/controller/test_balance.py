"""Elections that an operator asks for, or that time brings about."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.controller import balance
from penstock.metadata.configs import BROKER, TOPIC
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import elect_leaders as el
from penstock.protocol.generated.metadata_records import ConfigRecord, PartitionChangeRecord

from .stage import Stage, manual

PREFERRED, UNCLEAN = 0, 1


def elect(stage: Stage, kind: int, *partitions: tuple[str, int]) -> dict[tuple[str, int], Any]:
    asked = [el.TopicPartitions(topic=name, partitions=[index]) for name, index in partitions]
    request = el.ElectLeadersRequest(election_type=kind, topic_partitions=asked or None)
    response = stage.ask(ApiKey.ELECT_LEADERS, request)
    assert response.error_code == ErrorCode.NONE
    return {
        (result.topic, partition.partition_id): ErrorCode(partition.error_code)
        for result in response.replica_election_results
        for partition in result.partition_result
    }


def allow_unclean(stage: Stage, name: str = "t", kind: int = TOPIC) -> None:
    key = "unclean.leader.election.enable"
    stage.take([ConfigRecord(resource_type=kind, resource_name=name, name=key, value="true")])


def drifted() -> Stage:
    """Broker 1 was away: others lead now, and it is in sync again in the first two partitions."""
    stage = Stage(3)
    stage.create(manual("t", [1, 2], [1, 3], [1, 2], [2, 1]))
    stage.beat(1, want_fence=True)
    stage.beat(1)
    for index in (0, 1):
        state = stage.partition("t", index)
        take_back(stage, index, [*state.isr, 1])
    return stage


def take_back(stage: Stage, index: int, isr: list[int]) -> None:
    topic_id = stage.image.topics.by_name["t"].id
    stage.take([PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=isr)])


def leaderless() -> Stage:
    """A partition that only broker 2 was in sync with when it went, and 1 is up."""
    stage = Stage(2)
    stage.create(manual("t", [2, 1]))
    stage.beat(1, want_fence=True)
    stage.beat(2, want_fence=True)
    stage.beat(1)
    assert stage.partition("t").leader == -1
    return stage


def test_the_preferred_replica_leads_again_when_asked_for() -> None:
    stage = drifted()
    assert elect(stage, PREFERRED, ("t", 0)) == {("t", 0): ErrorCode.NONE}
    assert stage.partition("t", 0).leader == 1
    assert stage.partition("t", 1).leader == 3


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (("t", 3), ErrorCode.ELECTION_NOT_NEEDED),
        (("t", 2), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (("t", 9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("none", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_election_that_cannot_be_says_why(partition: tuple[str, int], error: ErrorCode) -> None:
    stage = drifted()
    assert elect(stage, PREFERRED, partition) == {partition: error}


def test_an_election_of_all_leaves_out_what_needs_none() -> None:
    stage = drifted()
    assert elect(stage, PREFERRED) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.NONE,
        ("t", 2): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }


def test_a_partition_that_is_named_twice_is_elected_once() -> None:
    stage = drifted()
    asked = [el.TopicPartitions(topic="t", partitions=[0, 0])]
    response = stage.ask(ApiKey.ELECT_LEADERS, el.ElectLeadersRequest(topic_partitions=asked))
    results = response.replica_election_results[0].partition_result
    assert [r.error_code for r in results] == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]


def test_there_are_two_kinds_of_election() -> None:
    request = el.ElectLeadersRequest(election_type=2, topic_partitions=None)
    assert Stage(1).ask(ApiKey.ELECT_LEADERS, request).error_code == ErrorCode.INVALID_REQUEST


def test_an_operator_may_let_a_replica_lead_that_lags() -> None:
    stage = leaderless()
    assert elect(stage, UNCLEAN, ("t", 0)) == {("t", 0): ErrorCode.NONE}
    state = stage.partition("t")
    assert (state.leader, state.isr, state.elr, state.recovering) == (1, (1,), (), True)
    assert elect(stage, UNCLEAN, ("t", 0)) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}


def test_with_nobody_up_not_even_a_replica_that_lags_can_lead() -> None:
    stage = leaderless()
    stage.beat(1, want_fence=True)
    assert elect(stage, UNCLEAN) == {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_leadership_drifts_back_by_itself() -> None:
    stage = drifted()
    decision = stage.tick(balance.balance)
    assert decision is not None
    assert decision.response == balance.Round(2, False)
    assert [stage.partition("t", index).leader for index in range(4)] == [1, 1, 2, 2]
    assert stage.tick(balance.balance) is None


def test_many_elections_are_held_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "ELECTIONS_MAX", 1)
    stage = drifted()
    for expected in ([1, 3], [1, 1]):
        decision = stage.tick(balance.balance)
        assert decision is not None
        assert decision.response == balance.Round(1, True)
        assert [stage.partition("t", index).leader for index in (0, 1)] == expected


@pytest.mark.parametrize(("name", "kind"), [("t", TOPIC), ("", BROKER), ("1", BROKER)])
def test_a_topic_that_comes_to_allow_it_gets_a_leader_that_lags(name: str, kind: int) -> None:
    stage = leaderless()
    assert stage.tick(balance.elect_unclean) is None
    allow_unclean(stage, name, kind)
    decision = stage.tick(balance.elect_unclean)
    assert decision is not None
    assert decision.response == balance.Round(1, False)
    assert stage.partition("t").leader == 1
    assert stage.tick(balance.elect_unclean) is None


def test_a_topic_that_allows_it_never_waits_while_a_replica_is_up() -> None:
    stage = Stage(2)
    stage.create(manual("t", [2, 1]))
    allow_unclean(stage)
    stage.beat(1, want_fence=True)
    stage.beat(1)  # up, but not in sync
    stage.beat(2, want_fence=True)
    state = stage.partition("t")
    assert (state.leader, state.isr, state.recovering) == (1, (1,), True)

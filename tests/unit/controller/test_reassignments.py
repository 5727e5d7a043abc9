"""Partitions move to other brokers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.controller.decision import RECORDS_MAX
from penstock.metadata.topics import PartitionImage
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import alter_partition_reassignments as apr
from penstock.protocol.generated import list_partition_reassignments as lpr
from penstock.protocol.generated.metadata_records import ConfigRecord, PartitionChangeRecord

from .stage import Stage, manual, topic
from .test_in_sync import answer


def stage_with(*replicas: int, brokers: int = 5) -> Stage:
    stage = Stage(brokers)
    stage.create(manual("t", list(replicas or (1, 2, 3))))
    return stage


def request(
    replicas: list[int] | None, index: int = 0, name: str = "t", **fields: Any
) -> apr.AlterPartitionReassignmentsRequest:
    partition = apr.ReassignablePartition(partition_index=index, replicas=replicas)
    return apr.AlterPartitionReassignmentsRequest(
        topics=[apr.ReassignableTopic(name=name, partitions=[partition])], **fields
    )


def move(stage: Stage, replicas: list[int] | None, **fields: Any) -> ErrorCode:
    response = stage.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request(replicas, **fields))
    assert response.error_code == ErrorCode.NONE
    result = response.responses[0].partitions[0]
    assert (result.error_message is None) == (result.error_code == ErrorCode.NONE)
    return ErrorCode(result.error_code)


def moving(stage: Stage, *names: str) -> dict[str, list[lpr.OngoingPartitionReassignment]]:
    wanted = [
        lpr.ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 1]) for name in names
    ]
    ask = lpr.ListPartitionReassignmentsRequest(topics=wanted or None)
    response = stage.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, ask)
    return {found.name: found.partitions for found in response.topics}


def directories_fit(state: PartitionImage) -> bool:
    return state.directories == tuple(bytes([100 + node]) * 16 for node in state.replicas)


def test_a_move_adds_the_new_brokers_first() -> None:
    stage = stage_with()
    assert move(stage, [4, 2, 5]) is ErrorCode.NONE
    state = stage.partition("t")
    assert (state.replicas, state.adding, state.removing) == ((4, 2, 5, 1, 3), (4, 5), (1, 3))
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1, 2, 3))
    assert directories_fit(state)
    listed = moving(stage)["t"][0]
    assert (listed.partition_index, listed.replicas) == (0, [4, 2, 5, 1, 3])
    assert (listed.adding_replicas, listed.removing_replicas) == ([4, 5], [1, 3])


def test_a_move_ends_when_the_new_brokers_are_in_sync() -> None:
    stage = stage_with()
    move(stage, [1, 4, 5])
    assert answer(stage, 1, 2, 3, 4).error_code == ErrorCode.NONE
    assert stage.partition("t").reassigning
    assert answer(stage, 1, 2, 3, 4, 5).error_code == ErrorCode.NONE
    state = stage.partition("t")
    assert (state.replicas, state.isr, state.leader) == ((1, 4, 5), (1, 4, 5), 1)
    assert not state.reassigning
    assert directories_fit(state)
    assert moving(stage) == {}


@pytest.mark.parametrize("order", [[3, 2, 1], [2, 1, 3]])
def test_another_order_of_the_same_brokers_counts_at_once(order: list[int]) -> None:
    stage = stage_with()
    assert move(stage, order) is ErrorCode.NONE
    state = stage.partition("t")
    assert (state.replicas, state.leader, state.leader_epoch) == (tuple(order), 1, 0)
    assert not state.reassigning
    assert directories_fit(state)


def test_fewer_brokers_that_are_in_sync_count_at_once() -> None:
    stage = stage_with()
    assert move(stage, [2, 3]) is ErrorCode.NONE
    state = stage.partition("t")
    assert (state.replicas, state.isr, state.leader) == ((2, 3), (2, 3), 2)
    assert state.leader_epoch == 1
    assert not state.reassigning


def test_what_is_where_it_should_be_does_not_change() -> None:
    stage = stage_with()
    decision = stage.decide(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request([1, 2, 3]))
    assert not decision.records
    assert decision.response.responses[0].partitions[0].error_code == ErrorCode.NONE


def test_a_move_that_is_called_off_leaves_the_partition_where_it_was() -> None:
    stage = stage_with()
    move(stage, [4, 2, 5])
    answer(stage, 1, 2, 3, 4)
    assert move(stage, None) is ErrorCode.NONE
    state = stage.partition("t")
    assert (set(state.replicas), state.isr, state.leader) == ({1, 2, 3}, (1, 2, 3), 1)
    assert not state.reassigning
    assert state.leader_epoch == 1, "brokers that were dropped are told apart by the epoch"
    assert directories_fit(state)


def test_a_move_can_be_sent_elsewhere() -> None:
    stage = stage_with()
    move(stage, [4, 2, 3])
    assert move(stage, [5, 2, 3]) is ErrorCode.NONE
    state = stage.partition("t")
    assert (state.replicas, state.adding, state.removing) == ((5, 2, 3, 1, 4), (5,), (1, 4))
    assert move(stage, [1, 2, 3]) is ErrorCode.NONE
    state = stage.partition("t")
    assert (state.replicas, state.reassigning) == ((1, 2, 3), False)
    assert directories_fit(state)


def test_a_broker_that_was_to_leave_can_stay_after_all() -> None:
    stage = stage_with()
    move(stage, [4, 2, 3])
    assert move(stage, [4, 2, 3, 1]) is ErrorCode.NONE
    state = stage.partition("t")
    assert (state.adding, state.removing) == ((4,), ())
    answer(stage, 1, 2, 3, 4)
    assert stage.partition("t").replicas == (4, 2, 3, 1)
    assert not stage.partition("t").reassigning


def test_calling_off_moves_the_lead_back_from_a_new_broker() -> None:
    stage = stage_with()
    move(stage, [4, 5])
    answer(stage, 1, 2, 3, 4)
    stage.beat(1, want_fence=True)
    lead(stage, leader=4)
    assert move(stage, None) is ErrorCode.NONE
    state = stage.partition("t")
    assert (state.isr, state.leader, state.recovering) == ((2, 3), 2, False)


def lead(stage: Stage, **fields: Any) -> None:
    topic_id = stage.image.topics.by_name["t"].id
    stage.take([PartitionChangeRecord(partition_id=0, topic_id=topic_id, **fields)])


def only_the_new_one_in_sync() -> Stage:
    stage = stage_with()
    move(stage, [4, 5])
    lead(stage, leader=4, isr=[4])
    return stage


def test_calling_off_does_not_lose_records_unless_the_topic_allows_it() -> None:
    stage = only_the_new_one_in_sync()
    before = stage.partition("t")
    assert move(stage, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert stage.partition("t") == before
    allowed = ConfigRecord(
        resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true"
    )
    stage.take([allowed])
    assert move(stage, None) is ErrorCode.NONE
    state = stage.partition("t")
    assert (state.leader, state.isr, state.recovering) == (1, (1,), True)
    assert set(state.replicas) == {1, 2, 3}


@pytest.mark.parametrize(
    ("replicas", "fields", "error"),
    [
        ([1, 2], {"name": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1, 2], {"index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1, 2], {"index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, {}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2, 2], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2, 9], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2, -1], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            [1, 4],
            {"allow_replication_factor_change": False},
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ),
    ],
)
def test_a_move_to_nowhere_is_refused(
    replicas: list[int] | None, fields: dict[str, Any], error: ErrorCode
) -> None:
    stage = stage_with()
    before = stage.partition("t")
    assert move(stage, replicas, **fields) is error
    assert stage.partition("t") == before


def test_while_a_partition_moves_it_counts_the_replicas_that_it_will_have() -> None:
    stage = stage_with()
    fixed = {"allow_replication_factor_change": False}
    assert move(stage, [4, 5, 1], **fixed) is ErrorCode.NONE
    assert move(stage, [4, 5, 2], **fixed) is ErrorCode.NONE
    assert move(stage, [4, 5, 2, 1], **fixed) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_fenced_broker_may_be_moved_to() -> None:
    stage = stage_with()
    stage.beat(4, want_fence=True)
    assert move(stage, [4, 2, 3]) is ErrorCode.NONE
    assert stage.partition("t").adding == (4,)


def test_a_partition_that_is_named_twice_goes_where_the_last_says() -> None:
    stage = stage_with()
    ask = request([4, 2, 3])
    ask.topics[0].partitions.append(
        apr.ReassignablePartition(partition_index=0, replicas=[5, 2, 3])
    )
    results = stage.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ask).responses[0].partitions
    assert [result.error_code for result in results] == [0, 0]
    assert stage.partition("t").adding == (5,)


def test_more_moves_than_fit_into_one_change_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RECORDS_MAX > 2
    monkeypatch.setattr("penstock.controller.reassignments.RECORDS_MAX", 2)
    stage = Stage(4)
    stage.create(manual("t", [1], [1], [1]))
    ask = apr.AlterPartitionReassignmentsRequest(
        topics=[
            apr.ReassignableTopic(
                name="t",
                partitions=[
                    apr.ReassignablePartition(partition_index=index, replicas=[2])
                    for index in range(3)
                ],
            )
        ]
    )
    results = stage.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ask).responses[0].partitions
    assert [r.error_code for r in results] == [0, 0, ErrorCode.POLICY_VIOLATION]


def test_moves_are_listed_by_topic_or_all() -> None:
    stage = stage_with()
    stage.create(manual("u", [1, 2]), topic("still"))
    move(stage, [4, 2, 3])
    move(stage, [1, 3], name="u")
    assert set(moving(stage)) == {"t", "u"}
    assert set(moving(stage, "u", "still", "none")) == {"u"}


def test_a_broker_that_dies_while_a_partition_moves_does_not_end_the_move() -> None:
    stage = stage_with()
    move(stage, [4, 2, 3])
    stage.beat(4, want_fence=True)
    stage.beat(1, want_fence=True)
    state = stage.partition("t")
    assert (state.leader, state.isr, state.adding) == (2, (2, 3), (4,))


def test_a_directory_is_chosen_only_where_there_is_no_choice() -> None:
    stage = stage_with(brokers=3)
    stage.register(4, log_dirs=[b"\xf0" * 16, b"\xf1" * 16])
    move(stage, [4, 2, 3])
    assert stage.partition("t").directory_of(4) == bytes(15) + b"\x01"

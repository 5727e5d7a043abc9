"""Leaders say who is in sync, and the controller believes those that it should."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.metadata.topics import PartitionImage
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import alter_partition as ap
from penstock.protocol.generated.metadata_records import PartitionChangeRecord

from .stage import Stage, manual


def stage_with(*isr: int, **changes: Any) -> Stage:
    """Brokers 1 to 4, and a partition on 1, 2 and 3 that 1 leads."""
    stage = Stage(4)
    stage.create(manual("t", [1, 2, 3]))
    if isr or changes:
        change(stage, isr=list(isr) or None, **changes)
    return stage


def change(stage: Stage, **fields: Any) -> None:
    topic_id = stage.image.topics.by_name["t"].id
    stage.take([PartitionChangeRecord(partition_id=0, topic_id=topic_id, **fields)])


def proposal(stage: Stage, *isr: int, **fields: Any) -> ap.AlterPartitionRequest:
    state = stage.partition("t")
    epochs = {**stage.epochs, **fields.pop("epochs", {})}
    leader = fields.pop("leader", 1)
    broker_epoch = fields.pop("broker_epoch", stage.epochs.get(leader, -1))
    topic_id = fields.pop("topic_id", stage.image.topics.by_name["t"].id)
    defaults: dict[str, Any] = {
        "partition_index": 0,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "new_isr": list(isr),
        "new_isr_with_epochs": [
            ap.BrokerState(broker_id=node, broker_epoch=epochs.get(node, -1)) for node in isr
        ],
    }
    wanted = ap.AlterPartitionRequestPartitionData(**{**defaults, **fields})
    topic = ap.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[wanted])
    return ap.AlterPartitionRequest(broker_id=leader, broker_epoch=broker_epoch, topics=[topic])


def answer(stage: Stage, *isr: int, version: int = 3, **fields: Any) -> Any:
    response = stage.ask(ApiKey.ALTER_PARTITION, proposal(stage, *isr, **fields), version)
    assert response.error_code == ErrorCode.NONE
    return response.topics[0].partitions[0]


def test_a_leader_drops_a_follower_that_lags_and_takes_it_back() -> None:
    stage = stage_with()
    told = answer(stage, 1, 3)
    assert (told.error_code, told.leader_id, told.isr) == (ErrorCode.NONE, 1, [1, 3])
    assert (told.leader_epoch, told.partition_epoch) == (0, 1)
    assert stage.partition("t").isr == (1, 3)
    assert answer(stage, 1, 3, 2).partition_epoch == 2
    state = stage.partition("t")
    assert (state.isr, state.leader, state.leader_epoch) == ((1, 3, 2), 1, 0)


def test_a_proposal_that_changes_nothing_is_answered_with_the_state() -> None:
    stage = stage_with()
    decision = stage.decide(ApiKey.ALTER_PARTITION, proposal(stage, 1, 2, 3))
    assert not decision.records
    told = decision.response.topics[0].partitions[0]
    assert (told.isr, told.partition_epoch) == ([1, 2, 3], 0)


def test_before_version_3_members_come_without_epochs() -> None:
    stage = stage_with()
    told = answer(stage, 1, 2, version=2, new_isr_with_epochs=[])
    assert told.isr == [1, 2]
    assert stage.partition("t").isr == (1, 2)


def test_a_leader_that_drops_below_the_minimum_keeps_the_others_eligible() -> None:
    stage = Stage(3, isr_min_default=2)
    stage.create(manual("t", [1, 2, 3]))
    answer(stage, 1, 2)
    answer(stage, 1)
    assert (stage.partition("t").isr, stage.partition("t").elr) == ((1,), (2,))
    answer(stage, 1, 3)
    assert (stage.partition("t").isr, stage.partition("t").elr) == ((1, 3), ())


def test_a_recovering_leader_says_when_it_is_done() -> None:
    stage = stage_with(1, leader_recovery_state=1)
    told = answer(stage, 1, leader_recovery_state=1)
    assert (told.error_code, told.leader_recovery_state) == (ErrorCode.NONE, 1)
    told = answer(stage, 1, 2)
    assert (told.leader_recovery_state, told.isr) == (0, [1, 2])
    assert not stage.partition("t").recovering


@pytest.mark.parametrize("broker_epoch", [0, -1, 1 << 40])
def test_a_request_of_another_incarnation_is_stale_as_a_whole(broker_epoch: int) -> None:
    stage = stage_with()
    request = proposal(stage, 1, 2, broker_epoch=broker_epoch)
    response = stage.ask(ApiKey.ALTER_PARTITION, request)
    assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_a_request_of_nobody_we_know_is_stale_as_a_whole() -> None:
    stage = stage_with()
    response = stage.ask(ApiKey.ALTER_PARTITION, proposal(stage, 1, 2, leader=9))
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH


REFUSED: list[tuple[str, tuple[int, ...], dict[str, Any], ErrorCode]] = [
    ("topic", (1, 2), {"topic_id": b"x" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
    ("partition", (1, 2), {"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("future leader", (1, 2), {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
    ("future state", (1, 2), {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
    ("old leader", (1, 2), {"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
    (
        "old leader, old state",
        (1, 2),
        {"leader_epoch": 0, "partition_epoch": 0},
        ErrorCode.FENCED_LEADER_EPOCH,
    ),
    ("not the leader", (1, 2), {"leader": 2}, ErrorCode.INVALID_REQUEST),
    (
        "not the leader, old state",
        (1, 2),
        {"leader": 2, "partition_epoch": 0},
        ErrorCode.INVALID_REQUEST,
    ),
    ("old state", (1, 2), {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
    ("nobody", (), {}, ErrorCode.INVALID_REQUEST),
    ("one twice", (1, 2, 2), {}, ErrorCode.INVALID_REQUEST),
    ("no replica", (1, 4), {}, ErrorCode.INVALID_REQUEST),
    ("no node", (1, -1), {}, ErrorCode.INVALID_REQUEST),
    ("without itself", (2, 3), {}, ErrorCode.INVALID_REQUEST),
    ("recovers in company", (1, 2), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
    ("recovers again", (1,), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
    ("recovers strangely", (1,), {"leader_recovery_state": 5}, ErrorCode.INVALID_REQUEST),
    ("another incarnation", (1, 2), {"epochs": {2: 1 << 40}}, ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize(
    ("isr", "fields", "error"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_a_proposal_that_cannot_be_taken_is_refused(
    isr: tuple[int, ...], fields: dict[str, Any], error: ErrorCode
) -> None:
    stage = stage_with(leader=1)  # so that there is an older epoch
    before = stage.partition("t")
    told = answer(stage, *isr, **fields)
    assert (told.error_code, told.leader_id, told.isr) == (error, 0, [])
    assert stage.partition("t") == before


@pytest.mark.parametrize("going", [{"want_fence": True}, {"want_shut_down": True}])
def test_who_is_fenced_or_leaving_is_not_taken_into_the_isr(going: dict[str, Any]) -> None:
    stage = stage_with()
    stage.create(manual("other", [2, 1]))  # so that 2 has something to hand over
    stage.beat(2, **going)
    assert stage.partition("t").isr == (1, 3)
    assert answer(stage, 1, 3, 2).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_partition_that_is_named_twice_changes_once() -> None:
    stage = stage_with()
    request = proposal(stage, 1, 2)
    request.topics[0].partitions *= 2
    told = stage.ask(ApiKey.ALTER_PARTITION, request).topics[0].partitions
    assert [it.error_code for it in told] == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert stage.partition("t").partition_epoch == 1


# -- moves to other brokers ----------------------------------------------------------------------


def moving(stage: Stage, replicas: list[int], adding: list[int], removing: list[int]) -> None:
    known = dict(zip(stage.partition("t").replicas, stage.partition("t").directories, strict=True))
    change(
        stage,
        replicas=replicas,
        adding_replicas=adding,
        removing_replicas=removing,
        directories=[known.get(node, bytes([100 + node]) * 16) for node in replicas],
    )


def settled(stage: Stage) -> PartitionImage:
    state = stage.partition("t")
    assert not state.reassigning
    assert state.directories == tuple(bytes([100 + node]) * 16 for node in state.replicas)
    return state


def test_a_move_is_complete_when_all_that_stay_are_in_sync() -> None:
    stage = stage_with()
    moving(stage, [1, 2, 4, 3], [4], [3])
    assert answer(stage, 1, 2, 4, 3).error_code == ErrorCode.NONE
    state = settled(stage)
    assert (state.replicas, state.isr, state.leader) == ((1, 2, 4), (1, 2, 4), 1)
    # Who was dropped and goes on fetching is told apart by the epoch.
    assert state.leader_epoch == 1


def test_a_move_waits_for_everybody_that_stays() -> None:
    stage = stage_with(1, 3)
    moving(stage, [1, 2, 4, 3], [4], [3])
    assert answer(stage, 1, 3, 4).error_code == ErrorCode.NONE
    state = stage.partition("t")
    assert (state.replicas, state.adding, state.removing) == ((1, 2, 4, 3), (4,), (3,))


def test_a_leader_that_a_move_drops_is_told_that_another_leads() -> None:
    stage = stage_with()
    moving(stage, [4, 2, 3, 1], [4], [1])
    assert answer(stage, 1, 2, 3, 4).error_code == ErrorCode.NEW_LEADER_ELECTED
    state = settled(stage)
    assert (state.leader, state.leader_epoch) == (4, 1)
    assert (state.replicas, state.isr) == ((4, 2, 3), (2, 3, 4))

from __future__ import annotations

from typing import Any

import pytest

from penstock.metadata.levels import SUPPORTED
from penstock.metadata.topics import DIRECTORY_UNASSIGNED, PartitionImage
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import assign_replicas_to_dirs as ad
from penstock.protocol.generated import broker_registration as br
from penstock.protocol.generated import metadata_records as m
from penstock.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.generated.controller_registration import ControllerRegistrationRequest
from penstock.protocol.generated.unregister_broker import UnregisterBrokerRequest

from .stage import Stage, topic


def test_a_broker_registers_fenced_under_the_offset_of_its_record() -> None:
    stage = Stage(0)
    before = stage.offset
    response = stage.register(1)
    assert (response.error_code, response.broker_epoch) == (0, before)
    broker = stage.image.cluster.brokers[1]
    assert broker.fenced
    assert broker.directories == (bytes([101]) * 16,)
    assert broker.features == dict(SUPPORTED)


def test_a_broker_that_caught_up_is_unfenced() -> None:
    stage = Stage(0)
    stage.register(1)
    behind = stage.beat(1, current_metadata_offset=stage.epochs[1] - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert stage.image.cluster.brokers[1].fenced
    response = stage.beat(1)
    assert (response.is_caught_up, response.is_fenced) == (True, False)
    assert stage.image.cluster.active(1)


METADATA = br.Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
LATER = br.Feature(name="later.version", min_supported_version=1, max_supported_version=2)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"incarnation_id": b"n" * 16}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [b"x" * 16] * 2}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [bytes(15) + b"\x02"]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [bytes([102]) * 16]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": [METADATA]}, ErrorCode.UNSUPPORTED_VERSION),  # and nothing of the others
        ({"features": [METADATA, LATER]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_a_broker_that_does_not_fit_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    assert Stage(2).register(1, **fields).error_code == error


def test_a_broker_that_lacks_a_finalized_level_is_refused() -> None:
    old = br.Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)
    assert Stage(0).register(1, features=[old]).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_same_incarnation_keeps_its_epoch_and_its_standing() -> None:
    stage = Stage()
    epoch = stage.epochs[1]
    assert stage.register(1, rack="r").broker_epoch == epoch
    assert stage.image.cluster.active(1)
    assert stage.image.cluster.brokers[1].rack == "r"


def test_a_new_incarnation_may_take_over_once_the_old_one_is_silent() -> None:
    stage = Stage()
    stage.now += 10_000
    assert stage.register(1, incarnation_id=b"n" * 16).error_code == 0
    assert stage.image.cluster.brokers[1].fenced


def test_heartbeats_of_strangers_and_ghosts_are_refused() -> None:
    stage = Stage()
    stage.epochs[9] = 1
    assert stage.beat(9).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert stage.beat(1, broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_after_a_clean_stop_a_broker_leads_again_under_a_new_epoch() -> None:
    stage = Stage()
    stage.create(topic("a"))
    epoch = stage.epochs[1]
    stage.now += 10_000
    stage.register(1, incarnation_id=b"n" * 16, previous_broker_epoch=epoch)
    state = stage.partition("a")
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (-1, (), (1,), (1,))
    stage.beat(1)
    state = stage.partition("a")
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (1, (1,), (), ())
    assert (state.leader_epoch, state.recovering) == (2, False)


def test_after_a_crash_a_lone_broker_leads_again_as_recovering() -> None:
    stage = Stage()
    stage.create(topic("a"))
    stage.now += 10_000
    stage.register(1, incarnation_id=b"n" * 16)
    state = stage.partition("a")
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (-1, (), (), (1,))
    stage.beat(1)
    state = stage.partition("a")
    assert (state.leader, state.isr, state.recovering) == (1, (1,), True)


def test_a_silent_broker_is_fenced_and_others_take_over() -> None:
    stage = Stage(3)
    stage.create(topic("a", 6, 3))
    assert stage.tick() is None
    stage.now += 9_001
    stage.beat(2)
    stage.beat(3)
    decision = stage.tick()
    assert decision is not None
    assert isinstance(decision.records[-1], m.BrokerRegistrationChangeRecord)
    assert stage.image.cluster.brokers[1].fenced
    for partition in stage.image.topics.by_name["a"].partitions.values():
        assert partition.leader in (2, 3)
        assert set(partition.isr) == {2, 3}
    assert stage.tick() is None
    stage.beat(1)
    assert stage.image.cluster.active(1)


def test_who_hung_up_has_a_heartbeat_and_a_half_to_call_again() -> None:
    stage = Stage(3)
    stage.machine.sessions.hang_up(1, stage.now)
    stage.now += 3_000
    assert stage.tick() is None
    stage.now += 1
    assert stage.tick() is not None
    assert stage.image.cluster.brokers[1].fenced
    assert stage.image.cluster.active(2)


def test_who_hung_up_and_called_again_has_the_whole_timeout() -> None:
    stage = Stage(3)
    stage.machine.sessions.hang_up(1, stage.now)
    stage.now += 2_000
    stage.beat(1)
    stage.now += 7_000
    assert stage.tick() is None


def test_hanging_up_prolongs_nothing() -> None:
    stage = Stage(3)
    stage.machine.sessions.hang_up(3, stage.now)
    stage.now += 2_000
    stage.machine.sessions.hang_up(3, stage.now)  # found gone once more
    stage.now += 1_001
    assert stage.tick() is not None
    assert stage.image.cluster.brokers[3].fenced


def test_hanging_up_does_not_outlast_the_session() -> None:
    stage = Stage(3)
    stage.now += 8_000
    stage.beat(2)
    stage.beat(3)
    stage.machine.sessions.hang_up(1, stage.now)
    stage.now += 1_001
    assert stage.tick() is not None
    assert stage.image.cluster.brokers[1].fenced


def test_the_broker_in_the_controllers_own_process_is_never_fenced_for_silence() -> None:
    stage = Stage()
    stage.machine.settings = stage.machine.settings._replace(node_id=1)
    stage.now += 1_000_000
    assert stage.tick() is None


def test_a_broker_that_leaves_hands_over_first() -> None:
    stage = Stage(2)
    stage.create(topic("a", 4, 2))
    response = stage.beat(1, want_shut_down=True)
    assert (response.should_shut_down, response.is_fenced) == (False, False)
    assert stage.image.cluster.brokers[1].shutting_down
    assert {p.leader for p in stage.image.topics.by_name["a"].partitions.values()} == {2}
    # The other one has not heard of it yet.
    assert not stage.beat(1, want_shut_down=True).should_shut_down
    stage.beat(2)
    assert stage.beat(1, want_shut_down=True).should_shut_down
    assert stage.image.cluster.brokers[1].fenced


def test_a_broker_that_is_leaving_is_not_taken_back_by_a_heartbeat_that_comes_late() -> None:
    stage = Stage(2)
    stage.create(topic("a", 1, 1), topic("b", 4, 2))
    stage.beat(1, want_shut_down=True)
    stage.now += 9_001
    stage.beat(2)
    assert stage.tick() is not None, "and was not heard of while it handed over"
    response = stage.beat(1)  # sent before it wanted to leave
    assert (response.should_shut_down, response.is_fenced) == (False, True)
    leaders = {state.leader for topic in ("a", "b") for state in _states(stage, topic)}
    assert 1 not in leaders
    assert stage.beat(1, want_shut_down=True).should_shut_down


def _states(stage: Stage, name: str) -> list[PartitionImage]:
    return list(stage.image.topics.by_name[name].partitions.values())


def test_a_lone_broker_may_stop_as_soon_as_it_leads_nothing() -> None:
    stage = Stage()
    assert stage.beat(1, want_shut_down=True).should_shut_down
    stage = Stage()
    stage.create(topic("a"))
    assert not stage.beat(1, want_shut_down=True).should_shut_down
    assert stage.beat(1, want_shut_down=True).should_shut_down


def test_failed_and_cordoned_directories_are_noted() -> None:
    stage = Stage(0)
    dirs = [b"x" * 16, b"y" * 16]
    stage.register(1, log_dirs=dirs)
    stage.beat(1, offline_log_dirs=dirs[:1], cordoned_log_dirs=[])
    broker = stage.image.cluster.brokers[1]
    assert (broker.directories, broker.cordoned) == ((b"y" * 16,), ())
    offset = stage.offset
    stage.beat(1, offline_log_dirs=dirs[:1], cordoned_log_dirs=[])
    assert stage.offset == offset


def test_a_failed_directory_takes_its_own_partitions_from_their_leader() -> None:
    stage = Stage(0)
    dirs = [b"x" * 16, b"y" * 16]
    stage.register(1, log_dirs=dirs)
    stage.beat(1)
    stage.create(topic("a", 2))
    topic_id = stage.image.topics.by_name["a"].id
    assert stage.partition("a", 0).directories == (DIRECTORY_UNASSIGNED,)
    for index, directory in enumerate(dirs):
        assert assign(stage, directory, topic_id, index) == ErrorCode.NONE
        assert stage.partition("a", index).directories == (directory,)
    stage.beat(1, offline_log_dirs=dirs[:1])
    assert [stage.partition("a", i).leader for i in (0, 1)] == [-1, 1]
    assert stage.partition("a", 0).elr == (1,)
    # It does not lead from the failed directory before it has it back.
    stage.now += 10_000
    epoch = stage.epochs[1]
    stage.register(1, incarnation_id=b"n" * 16, log_dirs=dirs[1:], previous_broker_epoch=epoch)
    stage.beat(1)
    assert [stage.partition("a", i).leader for i in (0, 1)] == [-1, 1]
    stage.now += 10_000
    epoch = stage.epochs[1]
    stage.register(1, incarnation_id=b"m" * 16, log_dirs=dirs, previous_broker_epoch=epoch)
    stage.beat(1)
    assert [stage.partition("a", i).leader for i in (0, 1)] == [1, 1]


def assign(stage: Stage, directory: bytes, topic_id: bytes, index: int, **fields: Any) -> int:
    wanted = ad.AssignReplicasToDirsRequestDirectoryData(
        id=directory,
        topics=[
            ad.AssignReplicasToDirsRequestTopicData(
                topic_id=topic_id,
                partitions=[ad.AssignReplicasToDirsRequestPartitionData(partition_index=index)],
            )
        ],
    )
    who = {"broker_id": 1, "broker_epoch": stage.epochs[1], **fields}
    request = ad.AssignReplicasToDirsRequest(directories=[wanted], **who)
    response = stage.ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, request)
    if response.error_code:
        return response.error_code
    return response.directories[0].topics[0].partitions[0].error_code


def test_assignments_of_what_is_not_there_are_refused() -> None:
    stage = Stage(2)
    stage.create(topic("a"))
    here = stage.image.topics.by_name["a"].id
    other = 2 if stage.partition("a").leader == 1 else 1
    who = {"broker_id": other, "broker_epoch": stage.epochs[other]}
    assert assign(stage, b"x" * 16, b"?" * 16, 0) == ErrorCode.UNKNOWN_TOPIC_ID
    assert assign(stage, b"x" * 16, here, 7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert assign(stage, b"x" * 16, here, 0, **who) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert assign(stage, b"x" * 16, here, 0, broker_epoch=0) == ErrorCode.STALE_BROKER_EPOCH
    assert assign(stage, b"x" * 16, here, 0, broker_id=9) == ErrorCode.STALE_BROKER_EPOCH


def test_a_replica_assigned_to_a_directory_that_is_offline_does_not_lead() -> None:
    stage = Stage()
    stage.create(topic("a"))
    here = stage.image.topics.by_name["a"].id
    assert assign(stage, b"x" * 16, here, 0) == ErrorCode.NONE
    state = stage.partition("a")
    assert (state.leader, state.isr, state.directories) == (-1, (), (b"x" * 16,))


def test_a_broker_that_is_unregistered_is_gone_from_every_isr() -> None:
    stage = Stage(2)
    stage.create(topic("a", 2, 2))
    gone = UnregisterBrokerRequest(broker_id=1)
    assert stage.ask(ApiKey.UNREGISTER_BROKER, gone).error_code == 0
    assert list(stage.image.cluster.brokers) == [2]
    for partition in stage.image.topics.by_name["a"].partitions.values():
        assert (partition.leader, partition.isr, partition.elr) == (2, (2,), ())
    again = stage.ask(ApiKey.UNREGISTER_BROKER, gone)
    assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_controller_says_where_it_listens() -> None:
    stage = Stage(0)
    request = ControllerRegistrationRequest(controller_id=7, incarnation_id=b"i" * 16)
    assert stage.ask(ApiKey.CONTROLLER_REGISTRATION, request).error_code == 0
    assert stage.image.cluster.controllers[7].incarnation == b"i" * 16


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    stage = Stage(2)

    def block(broker: int, epoch: int) -> Any:
        request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch)
        return stage.ask(ApiKey.ALLOCATE_PRODUCER_IDS, request)

    first, second = block(1, stage.epochs[1]), block(2, stage.epochs[2])
    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    assert (second.producer_id_start, second.producer_id_len) == (1000, 1000)
    assert block(1, 99).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert block(9, 99).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert stage.image.producer_ids.next_id == 2000

"""What members of streams groups say, and what they hear."""

from __future__ import annotations

from penstock.coordination.group.streams.status import StatusCode
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequestEndpoint,
)
from tests.unit.coordination.group.streams.applications import (
    application,
    internal,
    stateful,
    stateless,
    subtopology,
    word_count,
)
from tests.unit.coordination.group.streams.stage import (
    HEARTBEAT_MS,
    StreamsStage,
    codes,
    listed,
)


def opened(partitions: int = 4, **config: str) -> StreamsStage:
    stage = StreamsStage({key.replace("_", "."): text for key, text in config.items()})
    stage.topic("lines", partitions)
    return stage


def test_the_first_member_gets_all_tasks() -> None:
    stage = opened(3)
    answer = stage.enter("a", stateless("lines"))
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (2, HEARTBEAT_MS)
    assert answer.active_tasks is not None
    assert [(it.subtopology_id, it.partitions) for it in answer.active_tasks] == [("0", [0, 1, 2])]
    assert codes(answer) == []
    assert stage.group.state_name == "Stable"


def test_a_heartbeat_with_nothing_new_writes_nothing() -> None:
    stage = opened()
    stage.enter("a", stateless("lines"))
    stage.hear("a", 2)
    written = len(stage.log)
    answer = stage.hear("a", 2, {"0": [0, 1, 2, 3]})
    assert len(stage.log) == written
    assert answer.active_tasks is None


def test_a_second_member_gets_what_the_first_one_lets_go() -> None:
    stage = opened(4)
    stage.enter("a", stateless("lines"))
    stage.enter("b", stateless("lines"))
    assert stage.tasks("b").active == {}
    told = stage.hear("a", 2)
    assert (told.member_epoch, listed(stage.tasks("a").active)) == (2, {"0": [0, 1]})
    assert stage.group.state_name == "Reconciling"
    assert stage.hear("b", 3).active_tasks is None  # they are not free before a says so
    assert stage.hear("a", 2, {"0": [0, 1]}).member_epoch == 3
    stage.hear("b", 3)
    assert listed(stage.tasks("b").active) == {"0": [2, 3]}
    assert stage.group.state_name == "Stable"


def test_who_says_to_have_something_else_is_told_again_what_it_should_have() -> None:
    stage = opened(2)
    stage.enter("a", stateless("lines"))
    again = stage.hear("a", 2, {"0": [0]})  # the answer that gave it two was lost
    assert again.active_tasks is not None
    assert again.active_tasks[0].partitions == [0, 1]
    stage.enter("b", stateless("lines"))
    stage.hear("a", 2)  # it is told to let one go, and does not hear it
    again = stage.hear("a", 2, {"0": [0, 1]})
    assert again.active_tasks is not None
    assert again.active_tasks[0].partitions == [0]


def test_missing_internal_topics_are_to_be_made_with_as_many_partitions_as_there_are_tasks() -> (
    None
):
    stage = opened(3)
    result = stage.beat("a", 0, topology=word_count("lines"))
    assert result is not None
    assert codes(result.response) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert {name: it.num_partitions for name, it in result.missing.items()} == {
        "lines-handed-on": 3,
        "lines-changelog": 3,
    }
    changelog = result.missing["lines-changelog"]
    assert changelog.replication_factor == -1
    assert [(it.name, it.value) for it in changelog.configs] == [("cleanup.policy", "compact")]
    assert stage.group.state_name == "NotReady"


def test_tasks_come_when_the_internal_topics_are_there() -> None:
    stage = opened(2)
    stage.enter("a", word_count("lines"))
    stage.topic("lines-handed-on", 2)
    assert codes(stage.hear("a", 2)) == [StatusCode.MISSING_INTERNAL_TOPICS]
    stage.topic("lines-changelog", 2)
    assert codes(stage.hear("a", 3)) == []
    assert listed(stage.tasks("a").active) == {"0": [0, 1], "1": [0, 1]}


def test_a_topology_that_loses_a_topic_takes_all_tasks_back() -> None:
    stage = opened(2)
    stage.enter("a", stateless("lines"))
    stage.delete_topic("lines")
    assert codes(stage.hear("a", 2)) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert stage.tasks("a").active == {}
    assert stage.hear("a", 2, {}).member_epoch == 3
    stage.topic("lines", 2)
    stage.hear("a", 3)
    assert listed(stage.tasks("a").active) == {"0": [0, 1]}


def test_a_topic_that_grows_brings_more_tasks() -> None:
    stage = opened(2)
    stage.enter("a", stateless("lines"))
    stage.topic("lines", 3, first=2)
    stage.hear("a", 2)
    assert listed(stage.tasks("a").active) == {"0": [0, 1, 2]}


def test_who_comes_with_an_older_topology_is_told_so() -> None:
    stage = opened()
    stage.enter("a", application(subtopology("0", "lines"), epoch=3))
    answer = stage.enter("b", application(subtopology("0", "lines"), epoch=2))
    assert codes(answer) == [StatusCode.STALE_TOPOLOGY]
    other = stage.hear("c", 0, topology=application(subtopology("0", "lines"), epoch=4))
    assert other.error_code == ErrorCode.INVALID_REQUEST


def test_where_state_can_be_queried_is_told_when_it_changes() -> None:
    stage = opened(2)
    here = StreamsGroupHeartbeatRequestEndpoint(host="here", port=1)
    there = StreamsGroupHeartbeatRequestEndpoint(host="there", port=2)
    first = stage.enter("a", stateless("lines"), user_endpoint=here, endpoint_information_epoch=-1)
    assert first.partitions_by_user_endpoint is not None
    stage.enter("b", stateless("lines"), user_endpoint=there, endpoint_information_epoch=-1)
    stage.calm()
    answer = stage.hear("a", 3, endpoint_information_epoch=0)
    assert answer.partitions_by_user_endpoint is not None
    found = {
        it.user_endpoint.host: [(each.topic, each.partitions) for each in it.active_partitions]
        for it in answer.partitions_by_user_endpoint
    }
    assert found == {"here": [("lines", [0])], "there": [("lines", [1])]}
    epoch = answer.endpoint_information_epoch
    assert stage.hear("a", 3, endpoint_information_epoch=epoch).partitions_by_user_endpoint is None


def test_a_topic_with_fewer_partitions_than_tasks_is_named_only_where_it_has_one() -> None:
    stage = opened(1)
    stage.topic("words", 3)
    here = StreamsGroupHeartbeatRequestEndpoint(host="here", port=1)
    topology = stateless("lines", "words")
    answer = stage.enter("a", topology, user_endpoint=here, endpoint_information_epoch=-1)
    assert answer.partitions_by_user_endpoint is not None
    active = answer.partitions_by_user_endpoint[0].active_partitions
    assert [(it.topic, it.partitions) for it in active] == [("lines", [0]), ("words", [0, 1, 2])]


def test_a_full_group_takes_its_own_members_back() -> None:
    stage = opened(group_streams_max_size="1")
    stage.enter("a", stateless("lines"))
    refused = stage.hear("b", 0, topology=stateless("lines"))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.enter("a", stateless("lines")).member_epoch == 2


def test_a_new_group_waits_for_more_members_before_it_assigns() -> None:
    stage = opened(4, group_streams_initial_rebalance_delay_ms="3000")
    first = stage.enter("a", stateless("lines"))
    assert (first.member_epoch, codes(first)) == (1, [StatusCode.ASSIGNMENT_DELAYED])
    stage.advance(1_000)
    stage.enter("b", stateless("lines"))
    assert codes(stage.hear("a", 1)) == [StatusCode.ASSIGNMENT_DELAYED]
    stage.advance(2_000)
    assert stage.group.target_epoch == stage.group.epoch
    stage.hear("a", 1)
    stage.hear("b", 1)
    assert listed(stage.tasks("a").active) == {"0": [0, 2]} or listed(stage.tasks("a").active) == {
        "0": [0, 1]
    }
    assert stage.group.state_name == "Stable"
    assert not stage.shard.streams.delayed_until


def test_a_group_that_waited_and_is_empty_again_is_left_alone() -> None:
    stage = opened(4, group_streams_initial_rebalance_delay_ms="3000")
    stage.enter("a", stateless("lines"))
    stage.hear("a", -1)
    written = len(stage.log)
    stage.advance(10_000)
    assert len(stage.log) == written
    # Whoever comes next waits anew.
    assert codes(stage.enter("b", stateless("lines"))) == [StatusCode.ASSIGNMENT_DELAYED]


def test_targets_come_at_intervals() -> None:
    stage = opened(4, group_streams_assignment_interval_ms="10000")
    stage.enter("a", stateless("lines"))
    assert codes(stage.enter("b", stateless("lines"))) == [StatusCode.ASSIGNMENT_DELAYED]
    assert stage.group.state_name == "Assigning"
    stage.advance(10_000)
    assert codes(stage.hear("b", 2)) == []
    assert stage.group.state_name == "Reconciling"


def test_a_coordinator_whose_clock_is_behind_does_not_wait_for_it() -> None:
    stage = opened(4, group_streams_assignment_interval_ms="10000")
    stage.mono += 60_000
    stage.enter("a", stateless("lines"))
    stage.mono -= 60_000
    stage.restart()
    assert codes(stage.enter("b", stateless("lines"))) == []
    assert stage.group.state_name == "Reconciling"


def test_another_number_of_standbys_assigns_anew() -> None:
    stage = opened(2)
    stage.topic("lines-changelog", 2)
    stage.enter("a", stateful("lines"))
    stage.enter("b", stateful("lines"))
    stage.calm()
    stage.configure("streams.num.standby.replicas", "1")
    stage.calm()
    for member in "ab":
        has = stage.tasks(member)
        assert sum(map(len, has.active.values())) == 1
        assert sum(map(len, has.standby.values())) == 1


def test_members_hear_that_the_whole_application_should_stop_until_all_are_gone() -> None:
    stage = opened()
    for member in "ab":
        stage.enter(member, stateless("lines"))
    stage.calm()
    stage.hear("a", -1, shutdown_application=True)
    assert codes(stage.hear("b", 3)) == [StatusCode.SHUTDOWN_APPLICATION]
    stage.hear("b", -1)
    assert codes(stage.enter("c", stateless("lines"))) == []


def test_a_refused_request_changes_nothing() -> None:
    stage = opened()
    wrong = application(subtopology("0", "lines", reads=[internal("x")]), subtopology("1", "lines"))
    assert stage.hear("a", 0, topology=wrong).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert not stage.log
    assert not stage.shard.groups


def test_a_log_that_takes_nothing_leaves_the_group_as_it_was() -> None:
    stage = opened()
    stage.refusing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert stage.beat("a", 0, topology=stateless("lines")) is not None or not stage.shard.groups
    assert not stage.shard.groups
    stage.refusing = None
    stage.enter("a", stateless("lines"))
    stage.topic("lines", 5, first=4)
    stage.refusing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    stage.beat("a", 2)
    assert stage.group.epoch == 2
    stage.refusing = None
    stage.hear("a", 2)
    assert listed(stage.tasks("a").active) == {"0": [0, 1, 2, 3, 4]}

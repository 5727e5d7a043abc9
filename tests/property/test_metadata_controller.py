"""Whatever is asked of a controller, in whatever order, the state that it decides on holds."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.controller import balance
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY
from penstock.metadata.topics import PartitionImage
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import alter_partition as ap
from penstock.protocol.generated import alter_partition_reassignments as apr
from penstock.protocol.generated import create_partitions as cp
from penstock.protocol.generated import delete_topics as dt
from penstock.protocol.generated import elect_leaders as el
from penstock.protocol.generated.metadata_records import ConfigRecord
from penstock.protocol.generated.unregister_broker import UnregisterBrokerRequest
from tests.unit.controller.stage import Stage, topic

NAMES = ["a", "b", "c.d", "c_d"]
BROKERS = [1, 2, 3, 4]


class ControllerHistories(RuleBasedStateMachine):
    """Brokers come, crash, leave and return while topics are created, grown and deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(0)
        self.incarnation = 0
        self.epochs: dict[tuple[bytes, int], tuple[int, int]] = {}
        self.leaders: dict[tuple[bytes, int, int], int] = {}
        self.before: dict[tuple[bytes, int], PartitionImage] = {}
        self.caught_up: dict[tuple[bytes, int], set[int]] = {}
        self.unclean_allowed = self.unclean_asked = False

    @rule(broker=st.sampled_from(BROKERS), clean=st.booleans(), waits=st.booleans())
    def register(self, broker: int, clean: bool, waits: bool) -> None:
        if waits:
            self.stage.now += 10_000
        self.incarnation += 1
        fields: dict[str, Any] = {"incarnation_id": self.incarnation.to_bytes(16, "big")}
        if clean:
            fields["previous_broker_epoch"] = self.stage.epochs.get(broker, -1)
        self.stage.register(broker, **fields)

    @rule(
        broker=st.sampled_from(BROKERS), fence=st.booleans(), leave=st.booleans(), lag=st.booleans()
    )
    def beat(self, broker: int, fence: bool, leave: bool, lag: bool) -> None:
        if broker in self.stage.epochs:
            fields: dict[str, Any] = {"want_fence": fence, "want_shut_down": leave}
            if lag:
                fields["current_metadata_offset"] = 0
            self.stage.beat(broker, **fields)

    @rule(broker=st.sampled_from(BROKERS))
    def unregister(self, broker: int) -> None:
        self.stage.ask(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=broker))

    @rule(ms=st.sampled_from([1, 5_000, 20_000]))
    def time_passes(self, ms: int) -> None:
        self.stage.now += ms
        self.stage.tick()

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(-1, 4), replicas=st.integers(-1, 4))
    def create(self, name: str, partitions: int, replicas: int) -> None:
        self.stage.create(topic(name, partitions, replicas))

    @precondition(lambda self: self.stage.image.topics.by_name)
    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 8))
    def grow(self, name: str, count: int) -> None:
        wanted = cp.CreatePartitionsTopic(name=name, count=count, assignments=None)
        self.stage.ask(ApiKey.CREATE_PARTITIONS, cp.CreatePartitionsRequest(topics=[wanted]))

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.stage.ask(ApiKey.DELETE_TOPICS, dt.DeleteTopicsRequest(topic_names=[name]))

    @precondition(lambda self: self.stage.image.topics.by_name)
    @rule(name=st.sampled_from(NAMES), index=st.integers(0, 3), keep=st.sets(st.integers(1, 4)))
    def leader_alters(self, name: str, index: int, keep: set[int]) -> None:
        """The leader says who is in sync: some of its replicas, and itself."""
        state = self.stage.image.topics.partition(name, index)
        if state is None or state.leader == -1:
            return
        isr = [node for node in state.replicas if node in keep or node == state.leader]
        wanted = ap.AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr_with_epochs=[
                ap.BrokerState(broker_id=node, broker_epoch=self.stage.epochs.get(node, -1))
                for node in isr
            ],
        )
        topic_id = self.stage.image.topics.by_name[name].id
        data = ap.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[wanted])
        epoch = self.stage.image.cluster.brokers[state.leader].epoch
        request = ap.AlterPartitionRequest(
            broker_id=state.leader, broker_epoch=epoch, topics=[data]
        )
        self.caught_up[topic_id, index] = set(isr)
        self.stage.ask(ApiKey.ALTER_PARTITION, request)

    @precondition(lambda self: self.stage.image.topics.by_name)
    @rule(
        name=st.sampled_from(NAMES),
        index=st.integers(0, 3),
        nodes=st.none() | st.lists(st.sampled_from(BROKERS), unique=True, min_size=1),
    )
    def move(self, name: str, index: int, nodes: list[int] | None) -> None:
        partition = apr.ReassignablePartition(partition_index=index, replicas=nodes)
        moved = apr.ReassignableTopic(name=name, partitions=[partition])
        request = apr.AlterPartitionReassignmentsRequest(topics=[moved])
        self.stage.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)

    @rule(kind=st.integers(0, 1))
    def elect(self, kind: int) -> None:
        self.unclean_asked = kind == 1
        request = el.ElectLeadersRequest(election_type=kind, topic_partitions=None)
        self.stage.ask(ApiKey.ELECT_LEADERS, request)

    @rule(unclean=st.booleans())
    def look_after(self, unclean: bool) -> None:
        self.stage.tick(balance.elect_unclean if unclean else balance.balance)

    @precondition(lambda self: self.stage.image.topics.by_name)
    @rule(allowed=st.sampled_from(["true", "false"]))
    def allow_unclean(self, allowed: str) -> None:
        self.unclean_allowed = allowed == "true"
        key = "unclean.leader.election.enable"
        record = ConfigRecord(resource_type=4, resource_name="", name=key, value=allowed)
        self.stage.take([record])

    @invariant()
    def moves_are_between_replicas_and_end(self) -> None:
        for found in self.stage.image.topics.by_id.values():
            for state in found.partitions.values():
                assert {*state.adding, *state.removing} <= set(state.replicas)
                staying = set(state.replicas) - set(state.removing)
                assert staying, "a partition that moves away from everywhere moves nowhere"
                assert not (state.reassigning and staying <= set(state.isr))

    @invariant()
    def leaders_are_alive_and_in_sync(self) -> None:
        image = self.stage.image
        for found in image.topics.by_id.values():
            for state in found.partitions.values():
                assert set(state.isr) <= set(state.replicas)
                assert set(state.elr) <= set(state.replicas)
                assert not set(state.isr) & set(state.elr)
                assert len(state.directories) == len(state.replicas)
                if state.leader != -1:
                    assert state.leader in state.isr
                    assert image.cluster.active(state.leader)

    @invariant()
    def an_epoch_has_one_leader_and_epochs_rise(self) -> None:
        for found in self.stage.image.topics.by_id.values():
            for index, state in found.partitions.items():
                key = (found.id, index)
                before = self.epochs.get(key, (-1, -1))
                now = (state.leader_epoch, state.partition_epoch)
                assert now >= before
                self.epochs[key] = now
                if state.leader != -1:
                    led = self.leaders.setdefault((*key, state.leader_epoch), state.leader)
                    assert led == state.leader

    @invariant()
    def who_takes_over_has_everything(self) -> None:
        """Unless it is allowed to lag: it was in sync, eligible, or the last to lead of all."""
        for found in self.stage.image.topics.by_id.values():
            for index, state in found.partitions.items():
                key = (found.id, index)
                old = self.before.get(key, state)
                clean = not self.unclean_allowed and not self.unclean_asked
                if clean and state.leader not in (-1, old.leader):
                    heirs = {*old.isr, *old.elr, *old.last_known_elr}
                    assert state.leader in heirs | self.caught_up.get(key, set())
                self.before[key] = state
        self.caught_up.clear()
        self.unclean_asked = False

    @invariant()
    def names_stay_apart(self) -> None:
        by_name = self.stage.image.topics.by_name
        assert not {"c.d", "c_d"} <= set(by_name)
        assert {t.id for t in by_name.values()} == set(self.stage.image.topics.by_id)

    @invariant()
    def the_image_can_be_written_down(self) -> None:
        image = self.stage.image
        assert MetadataDelta(EMPTY).replay_all(image.records()).apply(1, 1) == image


TestControllerHistories = ControllerHistories.TestCase
TestControllerHistories.settings = settings(max_examples=40, stateful_step_count=40)

"""Groups whose members speak both protocols, and which change theirs again and again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.sessions import NEW_MEMBER_MS_MAX
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.migration.embedded import read_assignment
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from tests.unit.coordination.consumer.stage import GROUP_ID, SESSION_MS, Stage, Waiting

PARTITIONS = 6


def _assignment(numbers: Iterable[int]) -> bytes:
    out = bytearray(b"\0\1")
    topics = [ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=list(numbers))]
    ConsumerProtocolAssignment(assigned_partitions=topics).write(1, out)
    return bytes(out)


class NewClient:
    """A consumer of the new protocol."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.owned: set[int] = set()

    def go_on(self, stage: Stage) -> None:
        if self.epoch == 0:
            answer = stage.say(self.member_id, 0, subscribed_topic_names=["t"])
        else:
            answer = stage.say(self.member_id, self.epoch, {"t": sorted(self.owned)})
        if answer.error_code:
            # Not found: the others took the group back to the classic protocol.
            assert answer.error_code in (
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ), answer
            self.owned.clear()
            self.epoch = 0
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.owned = set(topics[0].partitions) if topics else set()

    def leave(self, stage: Stage) -> None:
        stage.say(self.member_id, -1)

    def forget_requests(self) -> None:
        """It asks again anyway."""


class OldClient:
    """A consumer of the classic protocol. It may let go of all it has while it joins again."""

    def __init__(self, eager: bool) -> None:
        self.eager = eager
        self.member_id = ""
        self.generation = -1
        self.owned: set[int] = set()
        self.joining: Waiting | None = None
        self.syncing: Waiting | None = None
        self.settled = False

    def go_on(self, stage: Stage) -> None:
        if self.joining is not None:
            self._on_join(stage, self.joining.reply)
        elif self.syncing is not None:
            self._on_sync(self.syncing.reply)
        elif self.settled:
            self._on_error(stage.classic_beat(self.member_id, self.generation))
        else:
            owned = {"t": sorted(self.owned)} if self.owned else {}
            self.joining = stage.classic_join(self.member_id, "t", owned=owned)

    def _on_join(self, stage: Stage, reply: Any) -> None:
        if reply is None:
            return
        self.joining = None
        if reply.error_code:
            self._on_error(ErrorCode(reply.error_code))
            return
        self.member_id, self.generation = reply.member_id, reply.generation_id
        assignments: dict[str, bytes] = {}
        if reply.leader == self.member_id:
            names = sorted(it.member_id for it in reply.members)
            assignments = {
                name: _assignment(range(at, PARTITIONS, len(names)))
                for at, name in enumerate(names)
            }
        self.syncing = stage.classic_sync(self.member_id, self.generation, assignments)

    def _on_sync(self, reply: Any) -> None:
        if reply is None:
            return
        self.syncing = None
        if reply.error_code:
            self._on_error(ErrorCode(reply.error_code))
            return
        topics = read_assignment(reply.assignment).assigned_partitions
        before, self.owned = self.owned, set(topics[0].partitions) if topics else set()
        # Who keeps partitions while it joins has to join again to say that it let some go.
        self.settled = self.eager or before <= self.owned

    def _on_error(self, error: ErrorCode) -> None:
        if error == ErrorCode.NONE:
            return
        assert error in (
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ), error
        self.settled = False
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if self.eager or error != ErrorCode.REBALANCE_IN_PROGRESS:
            self.owned.clear()

    def leave(self, stage: Stage) -> None:
        """Without an id it cannot say that it leaves: it will be missed in a while."""
        stage.classic_leave(self.member_id)

    def forget_requests(self) -> None:
        """The coordinator is another one: nobody will answer what was asked of the old one."""
        if self.joining is not None or self.syncing is not None:
            self.joining = self.syncing = None
            self.settled = False


Client = NewClient | OldClient


class MixedChurn(RuleBasedStateMachine):
    """Whatever happens, no partition has two owners, and with patience all are assigned."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.stage.topic("t", PARTITIONS)
        self.clients: dict[str, Client] = {}
        self.count = 0

    def _add(self, client: Client) -> None:
        if len(self.clients) < 5:
            self.count += 1
            self.clients[f"c{self.count}"] = client
            client.go_on(self.stage)

    @rule()
    def come_new(self) -> None:
        self._add(NewClient(f"m{self.count}"))

    # A group whose leader hands out as it likes moves partitions before they are let go, as the
    # classic protocol does among members that keep theirs: so those who let go of everything.
    @rule()
    def come_old(self) -> None:
        self._add(OldClient(eager=True))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        self.clients[data.draw(st.sampled_from(sorted(self.clients)))].go_on(self.stage)

    @rule(rounds=st.integers(1, 4))
    def go_on_together(self, rounds: int) -> None:
        for _ in range(rounds):
            for client in self.clients.values():
                client.go_on(self.stage)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = self.clients.pop(data.draw(st.sampled_from(sorted(self.clients))))
        client.leave(self.stage)
        self.stage.advance(0)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.clients.pop(data.draw(st.sampled_from(sorted(self.clients))))
        for _ in range(5):
            self.go_on_together(2)
            self.stage.advance(SESSION_MS // 4)

    @rule()
    def fail_over(self) -> None:
        self.stage.restart()
        for client in self.clients.values():
            client.forget_requests()

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [
            number
            for client in self.clients.values()
            if not self._is_fenced(client)
            for number in client.owned
        ]
        assert len(owned) == len(set(owned))

    def _is_fenced(self, client: Client) -> bool:
        """Whether it has yet to hear that its generation is over.

        A group that goes back to the classic protocol and forth again ends the generation of those
        who were slow, as it is in Kafka: their commits are refused, and their next request.
        """
        group = self.stage.shard.groups.get(GROUP_ID)
        if isinstance(client, NewClient) or group is None:
            return False
        if isinstance(group, ClassicGroup):
            return client.generation != group.generation
        assert isinstance(group, ConsumerGroup)
        member = group.members.get(client.member_id)
        return member is None or member.epoch != client.generation

    @invariant()
    def a_group_is_classic_exactly_if_all_members_are(self) -> None:
        group = self.stage.shard.groups.get(GROUP_ID)
        if isinstance(group, ClassicGroup):
            new = [it for it in self.clients.values() if isinstance(it, NewClient)]
            assert all(client.epoch == 0 or client.member_id not in group.members for client in new)

    def teardown(self) -> None:
        for _ in range(NEW_MEMBER_MS_MAX // (SESSION_MS // 5) + 5):  # until the dead are missed
            self.go_on_together(3)
            self.stage.advance(SESSION_MS // 5)
        self.go_on_together(12)
        owned = [number for client in self.clients.values() for number in client.owned]
        assert sorted(owned) == (list(range(PARTITIONS)) if self.clients else [])


MixedChurn.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestMixedChurn = MixedChurn.TestCase

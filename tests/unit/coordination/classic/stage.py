"""A shard on a stage: its log is a list, its time moves when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from penstock.coordination.effects import Effects, Moment, NewRecord
from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.heartbeats import heartbeat, is_fine
from penstock.coordination.group.classic.joining import Join, join
from penstock.coordination.group.classic.leaving import Leaver, leave
from penstock.coordination.group.classic.syncing import Sync, sync
from penstock.coordination.group.settings import GroupSettings
from penstock.coordination.group.shard import GroupShard
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.record_frames import GROUP
from tests.unit.coordination.driving import Counting

NOON = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (("range", b"about range"),)
BOTH = (("range", b"about range"), ("sticky", b"about sticky"))


class Waiting:
    """A request and, sooner or later, its reply."""

    def __init__(self) -> None:
        self.reply: Any = None

    @property
    def answered(self) -> bool:
        return self.reply is not None

    @property
    def error(self) -> ErrorCode:
        assert self.answered, "not answered"
        return ErrorCode(self.reply.error_code)


class Stage:
    """Runs steps as the runtime does, but for the waiting: what is appended is committed."""

    def __init__(self, **settings: Any) -> None:
        config = {"process.roles": "broker,controller", "node.id": "1"}
        config |= {"controller.quorum.voters": "1@localhost:9093"}
        config |= {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}
        config |= {"controller.listener.names": "CONTROLLER"}
        self.settings = GroupSettings.of(NodeConfig.of(config))
        self.settings = self.settings._replace(initial_rebalance_delay_ms=0)._replace(**settings)
        self.chance = Counting()
        self.shard = GroupShard(0, self.settings, self.chance)
        self.mono = 1_000
        self.timers: dict[Hashable, Millis] = {}
        self.log: list[NewRecord] = []
        self.refusing: ErrorCode | None = None
        """Set: the log takes nothing."""
        self.timers_set = 0

    @property
    def at(self) -> Moment:
        return Moment(Millis(NOON + self.mono), Millis(self.mono))

    def step(
        self, act: Callable[[Moment, Effects], None], ticket: Waiting | None = None
    ) -> Effects:
        """Decide, append, replay, let the effects out."""
        out = Effects()
        act(self.at, out)
        if out.records and self.refusing is not None:
            for waiting, _ in out.replies:
                assert isinstance(waiting, Waiting)
                waiting.reply = _Refused(self.refusing)
            amends = Effects()
            if out.undo is not None:
                out.undo(self.refusing, amends)
            assert not amends.records, "nothing can be appended while the log refuses"
            self._let_out(amends)
            return out
        for record in out.records:
            GROUP.write_key(record.key)
            if record.value is not None:
                GROUP.write_value(record.value, record.version)
            self.shard.replay(len(self.log), record.key, record.value, -1)
            self.log.append(record)
        self._let_out(out)
        return out

    def _let_out(self, out: Effects) -> None:
        for key in out.cancelled:
            self.timers.pop(key, None)
        self.timers |= out.timers
        self.timers_set += len(out.timers)
        for ticket, response in out.replies:
            assert isinstance(ticket, Waiting)
            assert not ticket.answered, "answered twice"
            ticket.reply = response

    def advance(self, span_ms: int) -> None:
        """Let time pass, timers and all."""
        end = self.mono + span_ms
        while True:
            due = sorted((it for it in self.timers.items() if it[1] <= end), key=lambda it: it[1])
            if not due:
                break
            key, when = due[0]
            del self.timers[key]
            self.mono = max(self.mono, when)
            self.step(lambda at, out, key=key: self.shard.on_timer(key, at, out))  # type: ignore[misc]
        self.mono = end

    def reload(self) -> None:
        """What another node makes of the log."""
        self.shard = GroupShard(0, self.settings, self.chance)
        self.timers.clear()
        for offset, record in enumerate(self.log):
            key = GROUP.read_key(GROUP.write_key(record.key))
            value = None
            if record.value is not None:
                raw = GROUP.write_value(record.value, record.version)
                value, _ = GROUP.read_value(key.API_KEY, raw)
            self.shard.replay(offset, key, value, -1)
        self.step(self.shard.on_loaded)

    # -- what members do --------------------------------------------------------------------------

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.groups["g"]
        assert isinstance(group, ClassicGroup)
        return group

    def join(self, member_id: str = "", **fields: Any) -> Waiting:
        ticket = Waiting()
        asked = Join(
            **{
                "group_id": "g",
                "member_id": member_id,
                "instance_id": None,
                "client_id": "client",
                "client_host": "/127.0.0.1",
                "protocol_type": "consumer",
                "protocols": RANGE,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": REBALANCE_MS,
                "id_first": True,
                "can_skip": True,
                **fields,
            }
        )
        self.step(lambda at, out: join(self.shard, at, out, ticket, asked))
        return ticket

    def sync(
        self, member_id: str, assignments: dict[str, bytes] | None = None, **fields: Any
    ) -> Waiting:
        ticket = Waiting()
        known: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "instance_id": None,
            "generation": self.group.generation if "g" in self.shard.groups else 0,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": assignments or {},
            **fields,
        }
        asked = Sync(**known)
        self.step(lambda at, out: sync(self.shard, at, out, ticket, asked))
        return ticket

    def beat(
        self, member_id: str, generation: int | None = None, instance_id: str | None = None
    ) -> ErrorCode:
        if generation is None:
            generation = self.group.generation
        answers: list[ErrorCode] = []
        fine = self.is_fine(member_id, generation, instance_id)
        self.step(
            lambda at, out: answers.append(
                heartbeat(self.shard, at, out, "g", member_id, instance_id, generation)
            )
        )
        assert not fine or answers[0] == ErrorCode.NONE, "what needs no step is fine with one, too"
        return answers[0]

    def is_fine(self, member_id: str, generation: int, instance_id: str | None = None) -> bool:
        """Whether a heartbeat needs no step; nothing may change if it does."""
        group = self.shard.groups.get("g")
        member = group.members.get(member_id) if isinstance(group, ClassicGroup) else None
        before = None if member is None else member.deadline
        fine = is_fine(self.shard, "g", member_id, instance_id, generation, self.at.mono)
        assert fine or member is None or member.deadline == before
        return fine

    def leave(self, *leavers: Leaver) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        self.step(lambda at, out: answers.extend(leave(self.shard, at, out, "g", leavers)))
        return answers

    def commit(self, member_id: str, generation: int, **fields: Any) -> ErrorCode:
        known = {"instance_id": None, "is_transactional": False, "version": 9, **fields}
        answers: list[ErrorCode] = []
        self.step(
            lambda at, out: answers.append(
                self.group.check_commit(
                    member_id=member_id, generation=generation, at=at, out=out, **known
                )
            )
        )
        return answers[0]

    # -- whole scenes -----------------------------------------------------------------------------

    def stable(self, count: int = 1, **fields: Any) -> list[str]:
        """A stable group of so many dynamic members; their ids, the leader's first."""
        ids = [self.join(**fields).reply.member_id for _ in range(count)]
        waiting = [self.join(it, **fields) for it in ids]
        self.advance(0)
        return self._settle([it.reply for it in waiting])

    def stable_static(self, *instances: str, **fields: Any) -> list[str]:
        """The same for static members."""
        waiting = [self.join(instance_id=it, **fields) for it in instances]
        self.advance(0)
        return self._settle([it.reply for it in waiting])

    def _settle(self, joined: list[Any]) -> list[str]:
        assert all(it.error_code == 0 for it in joined)
        ids = [it.member_id for it in joined]
        work = {it: b"work of " + it.encode() for it in ids}
        leader = joined[0].leader
        synced = [self.sync(it, work if it == leader else None) for it in ids]
        assert all(it.error == ErrorCode.NONE for it in synced)
        assert self.group.state_name == "Stable"
        return sorted(ids, key=lambda it: it != leader)


class _Refused:
    def __init__(self, error: ErrorCode) -> None:
        self.error_code = error

"""A member of a share group, over the wire and nothing else.

For tests that have to see what client libraries keep to themselves: how often a record was
delivered, what an acknowledgement was answered with, when exactly a session ends. It has no thread:
it speaks when it is called, and who does not call it for as long as the group's session timeout is
out of the group.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterable, Sequence

from penstock.cli.failure import UNREACHABLE, Failure
from penstock.cli.wire_cluster import GROUP, Cluster, Refusal, check
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from penstock.protocol.generated.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from penstock.protocol.generated.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from penstock.protocol.generated.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from penstock.protocol.primitives import ZERO_UUID
from penstock.testing.share_words import Shared, Spot, Word, acknowledged, acquired, grouped

__all__ = ["ShareClient", "Shared", "Word"]

WAIT_SECONDS_MAX = 15.0
"""How long a broker may take to answer."""

POLL_SLICE_SECONDS = 0.5
"""How long one broker is waited for before the next one, and the group's coordinator, are asked."""

EAGER_SECONDS = 0.1
"""Between heartbeats while nothing is assigned: tests do not wait for seconds."""

FETCH_SIZE_MAX = 32 * 1024 * 1024
EPOCH_LAST = 2**31 - 1
OPENING, CLOSING = 0, -1

_LOST = {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH}
_REJOIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}
_PASSES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
}


class _Session:
    """What one broker knows of us."""

    def __init__(self) -> None:
        self.epoch = OPENING
        self.spots: set[Spot] = set()

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == EPOCH_LAST else self.epoch + 1


class ShareClient:
    """One member of a share group.

        with ShareClient(broker.bootstrap_servers, "workers", ["jobs"]) as client:
            for record in client.poll(5):
                client.acknowledge([record], Word.RELEASE)

    What it has acquired and not acknowledged is released by `close`, or when its connection ends.
    With `strict`, a poll never brings more than `records_max`; else whole batches come, as most
    clients want it.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        *,
        member: str | None = None,
        records_max: int = 500,
        strict: bool = False,
    ) -> None:
        self.group = group
        self.member = member or base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.epoch = 0
        self.lock_ms = 0
        """How long a record is ours, as the last answer said."""
        self._topics = list(topics)
        self._bootstrap = bootstrap
        self._records_max = records_max
        self._strict = strict
        self._cluster = Cluster(bootstrap, None, WAIT_SECONDS_MAX)
        self._sessions: dict[int, _Session] = {}
        self._assigned: set[Spot] = set()
        self._leaders: dict[Spot, int] = {}
        self._names: dict[bytes, str] = {}
        self._heartbeat_due = 0.0

    def __enter__(self) -> ShareClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def assignment(self) -> set[tuple[str, int]]:
        """The partitions that the group has given us, as far as we know their names."""
        return {
            (self._names[spot.topic_id], spot.partition)
            for spot in self._assigned
            if spot.topic_id in self._names
        }

    def join(self, seconds_max: float = WAIT_SECONDS_MAX) -> None:
        """Be a member that has been given something; AssertionError if it takes too long."""
        deadline = time.monotonic() + seconds_max
        while not self._assigned:
            assert time.monotonic() < deadline, f"nothing was assigned in share group {self.group}"
            self._keep_up()
            time.sleep(0 if self._assigned else EAGER_SECONDS / 2)

    def poll(self, seconds_max: float) -> list[Shared]:
        """Records of the first broker that has some; none when the time is over."""
        deadline = time.monotonic() + seconds_max
        while True:
            try:
                self._keep_up()
                got = self._ask_around(deadline)
            except Failure as failure:
                self._recover(failure)
                got = []
            if got or time.monotonic() >= deadline:
                return got
            if not self._assigned:
                time.sleep(EAGER_SECONDS / 2)

    def acknowledge(self, records: Iterable[Shared], word: Word = Word.ACCEPT) -> None:
        """Say what became of records, and return when it counts; `Refusal` if it does not."""
        ids = {name: topic_id for topic_id, name in self._names.items()}
        offsets: dict[Spot, list[int]] = {}
        for record in records:
            offsets.setdefault(Spot(ids[record.topic], record.partition), []).append(record.offset)
        self._say(offsets, word)

    def heartbeat(self) -> None:
        """Tell the group's coordinator that we live, and hear what we are to read."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member,
            member_epoch=self.epoch,
            subscribed_topic_names=self._topics if self.epoch == 0 else None,
        )
        told = self._coordinator_says(request)
        check(told.error_code, f"a heartbeat in {self.group} was refused", told.error_message)
        self.epoch = told.member_epoch
        if told.assignment is not None:
            self._assigned = {
                Spot(one.topic_id, number)
                for one in told.assignment.topic_partitions
                for number in one.partitions
            }
        eager = not self._assigned
        wait = EAGER_SECONDS if eager else told.heartbeat_interval_ms / 1000
        self._heartbeat_due = time.monotonic() + wait

    def close(self) -> None:
        """Release what is held, and leave the group."""
        try:
            for number, session in self._sessions.items():
                if session.epoch != OPENING:
                    request = ShareAcknowledgeRequest(
                        group_id=self.group, member_id=self.member, share_session_epoch=CLOSING
                    )
                    self._cluster.node(number).ask(request, ShareAcknowledgeResponse)
            if self.epoch > 0:
                self._coordinator_says(
                    ShareGroupHeartbeatRequest(
                        group_id=self.group, member_id=self.member, member_epoch=CLOSING
                    )
                )
        except Failure:
            pass  # the cluster is away: it will miss us by itself
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the connections without a word, as a crash would."""
        self._sessions.clear()
        self._cluster.close()

    # Keeping up with the group and the cluster.

    def _coordinator_says(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        where = self._cluster.coordinator(GROUP, self.group)
        return self._cluster.node(where.id).ask(request, ShareGroupHeartbeatResponse)

    def _keep_up(self) -> None:
        if time.monotonic() >= self._heartbeat_due:
            try:
                self.heartbeat()
            except Refusal as refusal:
                if refusal.code in _REJOIN:
                    self.epoch = 0
                    self._assigned = set()
                elif refusal.code not in _PASSES:
                    raise
                self._heartbeat_due = time.monotonic() + EAGER_SECONDS
        if any(self._leaders.get(spot, -1) < 0 for spot in self._assigned):
            self._look_up()

    def _look_up(self) -> None:
        ids = {spot.topic_id for spot in self._assigned}
        asked = [MetadataRequestTopic(topic_id=one, name=None) for one in sorted(ids)]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        for topic in self._cluster.anyone.ask(request, MetadataResponse).topics:
            if topic.error_code or topic.name is None or topic.topic_id == ZERO_UUID:
                continue
            self._names[topic.topic_id] = topic.name
            for one in topic.partitions:
                self._leaders[Spot(topic.topic_id, one.partition_index)] = one.leader_id

    def _recover(self, failure: Failure) -> None:
        """Go on after what passes: a broker that is gone, or leads no more; else raise it."""
        if isinstance(failure, Refusal):
            if failure.code not in _PASSES:
                raise failure
            self._leaders.clear()
            time.sleep(EAGER_SECONDS)
            return
        if failure.status != UNREACHABLE:
            raise failure
        self.abandon()
        self._leaders.clear()
        self._cluster = Cluster(self._bootstrap, None, WAIT_SECONDS_MAX)

    # Fetching.

    def _ask_around(self, deadline: float) -> list[Shared]:
        """One round over the brokers that lead something of ours, or that still think so."""
        led: dict[int, set[Spot]] = {number: set() for number in self._sessions}
        for spot in self._assigned:
            if (leader := self._leaders.get(spot, -1)) >= 0:
                led.setdefault(leader, set()).add(spot)
        for number, spots in sorted(led.items()):
            left = max(0.0, deadline - time.monotonic())
            got = self._fetch(number, spots, min(left, POLL_SLICE_SECONDS / max(1, len(led))))
            if got:
                return got
        return []

    def _fetch(self, number: int, spots: set[Spot], wait: float) -> list[Shared]:
        session = self._sessions.setdefault(number, _Session())
        if not spots and not session.spots:
            return []
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=session.epoch,
            max_wait_ms=round(wait * 1000),
            min_bytes=1,
            max_bytes=FETCH_SIZE_MAX,
            max_records=self._records_max,
            batch_size=self._records_max,
            share_acquire_mode=int(self._strict),
            topics=[
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[FetchPartition(partition_index=one) for one in partitions],
                )
                for topic_id, partitions in grouped(spots - session.spots)
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in grouped(session.spots - spots)
            ],
        )
        told = self._cluster.node(number).ask(request, ShareFetchResponse)
        self._settle(number, session, told.error_code, told.error_message)
        if told.error_code:
            return []
        session.spots = set(spots)
        self.lock_ms = told.acquisition_lock_timeout_ms or self.lock_ms
        got: list[Shared] = []
        for topic in told.responses:
            for one in topic.partitions:
                got += self._taken(Spot(topic.topic_id, one.partition_index), one)
        return got

    def _settle(self, number: int, session: _Session, code: int, told: str | None) -> None:
        """The session after an answer: a step on, or begun anew where it is lost."""
        if code in _LOST:
            del self._sessions[number]
        elif code:
            raise Refusal(code, f"broker {number} refused", told)
        else:
            session.advance()

    def _taken(self, spot: Spot, part: PartitionData) -> list[Shared]:
        if part.error_code:
            if part.error_code not in _PASSES:
                raise Refusal(part.error_code, "records were refused", part.error_message)
            self._leaders.pop(spot, None)
            return []
        if not part.acquired_records:
            return []
        got, gaps = acquired(self._names[spot.topic_id], part)
        if gaps:  # they are ours too, and nobody else will say that they are done with
            self._say({spot: gaps}, Word.GAP)
        return got

    # Acknowledging.

    def _say(self, offsets: dict[Spot, list[int]], word: Word) -> None:
        led: dict[int, set[Spot]] = {}
        for spot in offsets:
            led.setdefault(self._leaders.get(spot, -1), set()).add(spot)
        for number, spots in led.items():
            session = self._sessions.get(number)
            what = f"{word.name} was refused by broker {number}"
            if session is None:
                raise Refusal(ErrorCode.SHARE_SESSION_NOT_FOUND, what)
            request = ShareAcknowledgeRequest(
                group_id=self.group,
                member_id=self.member,
                share_session_epoch=session.epoch,
                is_renew_ack=word is Word.RENEW,
                topics=acknowledged({spot: offsets[spot] for spot in spots}, word),
            )
            told = self._cluster.node(number).ask(request, ShareAcknowledgeResponse)
            self._settle(number, session, told.error_code, told.error_message)
            check(told.error_code, what, told.error_message)
            for topic in told.responses:
                for one in topic.partitions:
                    check(one.error_code, what, one.error_message)

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
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from penstock.cli.failure import UNREACHABLE, Failure
from penstock.cli.wire_cluster import GROUP, Cluster, Refusal, check
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from penstock.protocol.generated.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
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
from penstock.records.batch import HEAD_SIZE, batch_end, read_head
from penstock.records.record import Header, Record, iterate

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


class Word(IntEnum):
    """What can be said about a record, as ShareAcknowledge numbers it."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Shared(NamedTuple):
    """A record that this member has acquired."""

    topic: str
    partition: int
    offset: int
    deliveries: int
    """1 at the first delivery."""
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class _Spot(NamedTuple):
    topic_id: bytes
    partition: int


class _Session:
    """What one broker knows of us."""

    def __init__(self) -> None:
        self.epoch = OPENING
        self.spots: set[_Spot] = set()

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
        self._assigned: set[_Spot] = set()
        self._leaders: dict[_Spot, int] = {}
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
        offsets: dict[_Spot, list[int]] = {}
        for record in records:
            offsets.setdefault(_Spot(ids[record.topic], record.partition), []).append(record.offset)
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
                _Spot(one.topic_id, number)
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
                self._leaders[_Spot(topic.topic_id, one.partition_index)] = one.leader_id

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
        led: dict[int, set[_Spot]] = {number: set() for number in self._sessions}
        for spot in self._assigned:
            if (leader := self._leaders.get(spot, -1)) >= 0:
                led.setdefault(leader, set()).add(spot)
        for number, spots in sorted(led.items()):
            left = max(0.0, deadline - time.monotonic())
            got = self._fetch(number, spots, min(left, POLL_SLICE_SECONDS / max(1, len(led))))
            if got:
                return got
        return []

    def _fetch(self, number: int, spots: set[_Spot], wait: float) -> list[Shared]:
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
                for topic_id, partitions in _grouped(spots - session.spots)
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in _grouped(session.spots - spots)
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
                got += self._taken(_Spot(topic.topic_id, one.partition_index), one)
        return got

    def _settle(self, number: int, session: _Session, code: int, told: str | None) -> None:
        """The session after an answer: a step on, or begun anew where it is lost."""
        if code in _LOST:
            del self._sessions[number]
        elif code:
            raise Refusal(code, f"broker {number} refused", told)
        else:
            session.advance()

    def _taken(self, spot: _Spot, part: PartitionData) -> list[Shared]:
        if part.error_code:
            if part.error_code not in _PASSES:
                raise Refusal(part.error_code, "records were refused", part.error_message)
            self._leaders.pop(spot, None)
            return []
        if not part.acquired_records:
            return []
        name = self._names[spot.topic_id]
        got = [
            Shared(
                name,
                spot.partition,
                record.offset,
                deliveries,
                record.timestamp,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
                record.headers,
            )
            for record, deliveries in _acquired(part)
        ]
        # Offsets of markers, and of what compaction took, are ours too: they are done with.
        seen = {record.offset for record in got}
        gaps = [
            offset
            for each in part.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
            if offset not in seen
        ]
        if gaps:
            self._say({spot: gaps}, Word.GAP)
        return got

    # Acknowledging.

    def _say(self, offsets: dict[_Spot, list[int]], word: Word) -> None:
        led: dict[int, set[_Spot]] = {}
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
                topics=[
                    AcknowledgeTopic(
                        topic_id=topic_id,
                        partitions=[
                            AcknowledgePartition(
                                partition_index=one,
                                acknowledgement_batches=_runs(offsets[_Spot(topic_id, one)], word),
                            )
                            for one in partitions
                        ],
                    )
                    for topic_id, partitions in _grouped(spots)
                ],
            )
            told = self._cluster.node(number).ask(request, ShareAcknowledgeResponse)
            self._settle(number, session, told.error_code, told.error_message)
            check(told.error_code, what, told.error_message)
            for topic in told.responses:
                for one in topic.partitions:
                    check(one.error_code, what, one.error_message)


def _grouped(spots: Iterable[_Spot]) -> list[tuple[bytes, list[int]]]:
    by_topic: dict[bytes, list[int]] = {}
    for spot in sorted(spots):
        by_topic.setdefault(spot.topic_id, []).append(spot.partition)
    return list(by_topic.items())


def _runs(offsets: Iterable[int], word: Word) -> list[AcknowledgementBatch]:
    """Offsets that follow each other go in one batch, which has one word for all of them."""
    batches: list[AcknowledgementBatch] = []
    for offset in sorted(offsets):
        if batches and batches[-1].last_offset == offset - 1:
            batches[-1].last_offset = offset
        else:
            batches.append(
                AcknowledgementBatch(
                    first_offset=offset, last_offset=offset, acknowledge_types=[int(word)]
                )
            )
    return batches


def _acquired(part: PartitionData) -> Iterator[tuple[Record, int]]:
    """Records in the acquired ranges, with their delivery count; the others are not ours."""
    counts = {
        offset: each.delivery_count
        for each in part.acquired_records
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    data = part.records
    assert isinstance(data, memoryview), "an answer that came over the wire holds bytes"
    at = 0
    while len(data) - at >= HEAD_SIZE and (end := batch_end(data, at)) <= len(data):
        head = read_head(data, at)
        if not head.is_control:
            for record in iterate(data, at, head=head):
                if record.offset in counts:
                    yield record, counts[record.offset]
        at = end

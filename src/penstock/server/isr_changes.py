"""Telling the controller who is in sync: AlterPartition, for many partitions in one request.

When a broker stops or comes back, thousands of partitions change their in-sync sets at once. While
one request is on its way the proposals of others gather, and the next one carries them all.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from penstock.raft.driver import NotLeader
from penstock.replica import leading
from penstock.replica.in_sync import Decided, Peers

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.generated.alter_partition import (
        AlterPartitionResponse,
        AlterPartitionResponsePartitionData,
    )
    from penstock.replica.in_sync import Proposal
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")

RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 1.0
"""How long to wait after something was not heard: twice as long each time."""
RECOVERED = 0

_Key = tuple[bytes, int]
_Waiting = dict[_Key, tuple["Partition", "Proposal"]]


class IsrChanges:
    """The proposals of one broker's partitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.peers = Peers(
            broker.image.cluster.brokers, broker.config.get_int("replica.lag.time.max.ms")
        )
        self._waiting: _Waiting = {}
        self._sending: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Begin to look, from time to time, for followers that fell behind."""
        self._review_later()

    def close(self) -> None:
        """Propose nothing more: the node stops."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Brokers may have come or gone: whom a watermark waits for depends on it."""
        self.peers.brokers = image.cluster.brokers
        if delta.cluster is not None or self._must_recover(delta):
            self._broker.loop.call_soon(self._review)  # when the broker does what the image says

    def _must_recover(self, delta: MetadataDelta) -> bool:
        """Whether an unclean election made this node a leader; the controller waits to hear that
        there is nothing to recover."""
        return delta.topics is not None and any(
            state.recovering and state.leader == self._broker.node_id
            for topic in delta.topics.changed.values()
            for state in topic.partitions.values()
        )

    def submit(self, partition: Partition, proposal: Proposal) -> None:
        """Propose a partition's new in-sync set to the controller, soon."""
        self._waiting[partition.topic_id, partition.index] = partition, proposal
        if self._sending is None and not self._closed:
            self._sending = self._broker.loop.create_task(self._send())

    # -- who fell behind ----------------------------------------------------------------------

    def _review_later(self) -> None:
        if not self._closed:
            seconds = self.peers.lag_ms_max / 2000
            self._timer = self._broker.loop.call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._review()
        self._review_later()

    def _review(self) -> None:
        now = self._broker.clock.monotonic()
        for partition in list(self._broker.hosted.values()):
            if partition.leading:
                self._review_one(partition, now)

    def _review_one(self, partition: Partition, now: int) -> None:
        proposal = leading.review(partition, now)
        if proposal is not None:
            self.submit(partition, proposal)

    # -- the conversation with the controller -------------------------------------------------

    async def _send(self) -> None:
        pause = RETRY_SECONDS
        try:
            while self._waiting:
                if await self._send_once():
                    pause = RETRY_SECONDS
                else:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, RETRY_SECONDS_MAX)
        finally:
            self._sending = None

    async def _send_once(self) -> bool:
        """Send what has gathered; False if it has to be sent again."""
        sent = self._waiting = {
            key: (partition, proposal)
            for key, (partition, proposal) in self._waiting.items()
            if leading.is_proposed(partition, proposal)
        }
        if not sent:
            return True
        sent = dict(sent)
        try:
            response: AlterPartitionResponse = await self._broker.controller.handle(
                int(ApiKey.ALTER_PARTITION), self._request(sent)
            )
        except (NotLeader, OSError) as problem:
            log.info("the controller was not told who is in sync: %s", problem)
            return False
        except Exception:
            # Our own fault, here or there. Watermarks wait for the answer: it is asked for again.
            log.exception("the controller was not told who is in sync")
            return False
        if response.error_code:
            # A stale broker epoch among others: the next registration brings a new one.
            log.warning(
                "the controller did not hear who is in sync: %s",
                ErrorCode(response.error_code).name,
            )
            return False
        return self._take(sent, response)

    def _request(self, sent: _Waiting) -> AlterPartitionRequest:
        topics: dict[bytes, AlterPartitionRequestTopicData] = {}
        for (topic_id, index), (_, proposal) in sent.items():
            topic = topics.setdefault(topic_id, AlterPartitionRequestTopicData(topic_id=topic_id))
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=node_id, broker_epoch=epoch)
                        for node_id, epoch in proposal.isr
                    ],
                    leader_recovery_state=RECOVERED,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker.node_id,
            broker_epoch=self._broker.epoch,
            topics=list(topics.values()),
        )

    def _take(self, sent: _Waiting, response: AlterPartitionResponse) -> bool:
        answers = {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        now = self._broker.clock.monotonic()
        done = True
        for key, (partition, proposal) in sent.items():
            answer = answers.get(key)
            if answer is None or leading.answered(partition, proposal, _decided(answer), now):
                done = False
                continue
            if self._waiting.get(key) == (partition, proposal):
                del self._waiting[key]
            log.debug("%s: %s are in sync", partition, partition.isr)
            # Others may have caught up meanwhile, and be so quiet that no fetch shows it.
            if not answer.error_code:
                self._review_one(partition, now)
        log.info("told the controller who is in sync in %d partitions", len(sent))
        return done


def _decided(answer: AlterPartitionResponsePartitionData) -> Decided | ErrorCode:
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return Decided(answer.leader_epoch, answer.partition_epoch, tuple(answer.isr))

"""Questions to share coordinators on other brokers: what each is here, and on the wire.

A request is about one group, and goes to a broker when the one before it is answered: what comes up
meanwhile for the same group goes together. Groups share a few lines, so that one with much to say
does not hold up all others.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.coordination.delivery.effects import Held, State, StateBatch
from penstock.coordination.keys import shard_of
from penstock.coordination.share.beginning import delete, initialize
from penstock.coordination.share.reading import read, summarize
from penstock.coordination.share.state import DONE, ShareKey, Summary, Told
from penstock.coordination.share.updating import Writing, write
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated import delete_share_group_state as deleting
from penstock.protocol.generated import initialize_share_group_state as initializing
from penstock.protocol.generated import read_share_group_state as reading
from penstock.protocol.generated import read_share_group_state_summary as summarizing
from penstock.protocol.generated import write_share_group_state as writing
from penstock.server.rounds import Rounds, error_of

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.share.shard import ShareShard
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.message import Message
    from penstock.server.broker import Broker

LINES = 4
"""Connections to each broker, and so requests on their way to it."""

KEYS_PER_REQUEST = 200
"""Each may be an append: the coordinator that is asked serves nobody else meanwhile."""

BATCHES_PER_REQUEST = 20_000
"""State batches after which no further write is put into a request: some more would make a frame
that no broker takes. One key alone never has more."""


class Initialize(NamedTuple):
    state_epoch: int
    start: int

    def act(self, shard: ShareShard, at: Moment, out: Effects, key: ShareKey) -> Told:
        return initialize(shard, at, out, key, self.state_epoch, self.start)

    def item(self, partition: int) -> initializing.PartitionData:
        return initializing.PartitionData(
            partition=partition, state_epoch=self.state_epoch, start_offset=self.start
        )

    def request(self, group_id: str, topics: dict[bytes, list[Any]]) -> Message:
        return initializing.InitializeShareGroupStateRequest(
            group_id=group_id,
            topics=[
                initializing.InitializeStateData(topic_id=topic_id, partitions=items)
                for topic_id, items in topics.items()
            ],
        )

    def told(self, result: initializing.PartitionResult) -> Told:  # noqa: ARG002
        return DONE


class Read(NamedTuple):
    leader_epoch: int

    def act(self, shard: ShareShard, at: Moment, out: Effects, key: ShareKey) -> Held | Told:
        return read(shard, at, out, key, self.leader_epoch)

    def item(self, partition: int) -> reading.PartitionData:
        return reading.PartitionData(partition=partition, leader_epoch=self.leader_epoch)

    def request(self, group_id: str, topics: dict[bytes, list[Any]]) -> Message:
        return reading.ReadShareGroupStateRequest(
            group_id=group_id,
            topics=[
                reading.ReadStateData(topic_id=topic_id, partitions=items)
                for topic_id, items in topics.items()
            ],
        )

    def told(self, result: reading.PartitionResult) -> Held | Told:
        try:
            batches = tuple(
                StateBatch(
                    it.first_offset,
                    it.last_offset,
                    State(it.delivery_state),
                    it.delivery_count,
                    Millis(it.not_before),
                )
                for it in result.state_batches
            )
        except ValueError:
            return Told(ErrorCode.UNKNOWN_SERVER_ERROR, "a state of records that is not known here")
        return Held(result.state_epoch, result.start_offset, batches)


class Write(NamedTuple):
    said: Writing

    def act(self, shard: ShareShard, at: Moment, out: Effects, key: ShareKey) -> Told:
        return write(shard, at, out, key, self.said)

    def item(self, partition: int) -> writing.PartitionData:
        said = self.said
        return writing.PartitionData(
            partition=partition,
            state_epoch=said.state_epoch,
            leader_epoch=said.leader_epoch,
            start_offset=said.start,
            delivery_complete_count=said.complete,
            state_batches=[
                writing.StateBatch(
                    first_offset=it.first,
                    last_offset=it.last,
                    delivery_state=it.state,
                    delivery_count=it.count,
                    not_before=it.not_before,
                )
                for it in said.batches
            ],
        )

    def request(self, group_id: str, topics: dict[bytes, list[Any]]) -> Message:
        return writing.WriteShareGroupStateRequest(
            group_id=group_id,
            topics=[
                writing.WriteStateData(topic_id=topic_id, partitions=items)
                for topic_id, items in topics.items()
            ],
        )

    def told(self, result: writing.PartitionResult) -> Told:  # noqa: ARG002
        return DONE


class Delete(NamedTuple):
    def act(self, shard: ShareShard, at: Moment, out: Effects, key: ShareKey) -> Told:
        return delete(shard, at, out, key)

    def item(self, partition: int) -> deleting.PartitionData:
        return deleting.PartitionData(partition=partition)

    def request(self, group_id: str, topics: dict[bytes, list[Any]]) -> Message:
        return deleting.DeleteShareGroupStateRequest(
            group_id=group_id,
            topics=[
                deleting.DeleteStateData(topic_id=topic_id, partitions=items)
                for topic_id, items in topics.items()
            ],
        )

    def told(self, result: deleting.PartitionResult) -> Told:  # noqa: ARG002
        return DONE


class Summarize(NamedTuple):
    def act(self, shard: ShareShard, at: Moment, out: Effects, key: ShareKey) -> Summary | Told:
        return summarize(shard, at, out, key)

    def item(self, partition: int) -> summarizing.PartitionData:
        return summarizing.PartitionData(partition=partition)

    def request(self, group_id: str, topics: dict[bytes, list[Any]]) -> Message:
        return summarizing.ReadShareGroupStateSummaryRequest(
            group_id=group_id,
            topics=[
                summarizing.ReadStateSummaryData(topic_id=topic_id, partitions=items)
                for topic_id, items in topics.items()
            ],
        )

    def told(self, result: summarizing.PartitionResult) -> Summary:
        return Summary(
            result.state_epoch,
            result.leader_epoch,
            result.start_offset,
            result.delivery_complete_count,
        )


Question = Initialize | Read | Write | Delete | Summarize
"""What is asked about one key: as a step of a shard here (`act`), or on the wire."""


class Inquiry(NamedTuple):
    """A question that waits for another broker's answer."""

    key: ShareKey
    question: Question
    answer: asyncio.Future[Any]

    @property
    def address(self) -> tuple[str, type]:
        """Inquiries with the same one fit into one request."""
        return self.key.group_id, type(self.question)


class ShareTrade:
    """Asks coordinators that are not here."""

    def __init__(self, broker: Broker) -> None:
        self._loop = broker.loop
        self._lines: list[Rounds[Inquiry]] = [
            Rounds(broker, f"shares-{number}", self) for number in range(LINES)
        ]

    def ask(self, node_id: int, key: ShareKey, question: Question) -> asyncio.Future[Any]:
        """What the coordinator on that broker tells; NETWORK_EXCEPTION if it says nothing."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        line = self._lines[shard_of(key.group_id, LINES)]
        line.add(node_id, Inquiry(key, question, answer))
        return answer

    def on_image(self, image: MetadataImage) -> None:
        """Brokers may be gone."""
        for line in self._lines:
            line.on_image(image)

    def close(self) -> None:
        """The node stops."""
        for line in self._lines:
            line.close()

    # -- the trade --------------------------------------------------------------------------------

    def compose(self, items: list[Inquiry]) -> tuple[Message, list[Inquiry]]:
        """What is asked in the first one's way about its group, each key once."""
        taken: dict[ShareKey, Inquiry] = {}
        topics: dict[bytes, list[Any]] = {}
        batches = 0
        for inquiry in items:
            key = inquiry.key
            if len(taken) == KEYS_PER_REQUEST:
                break
            if inquiry.address != items[0].address or key in taken:
                continue
            if isinstance(inquiry.question, Write):
                batches += len(inquiry.question.said.batches)
                if taken and batches > BATCHES_PER_REQUEST:
                    break
            taken[key] = inquiry
            topics.setdefault(key.topic_id, []).append(inquiry.question.item(key.partition))
        first = items[0]
        return first.question.request(first.key.group_id, topics), list(taken.values())

    def settle(self, items: list[Inquiry], answer: Any | None) -> None:
        """Tell each what the coordinator said about its key."""
        results = {} if answer is None else _results(answer)
        for inquiry in items:
            if inquiry.answer.done():
                continue
            result = results.get((inquiry.key.topic_id, inquiry.key.partition))
            if result is None:
                told: Any = Told(ErrorCode.NETWORK_EXCEPTION)
            elif result.error_code:
                told = Told(error_of(result.error_code), result.error_message)
            else:
                told = inquiry.question.told(result)
            inquiry.answer.set_result(told)


def _results(answer: Any) -> dict[tuple[bytes, int], Any]:
    return {
        (topic.topic_id, result.partition): result
        for topic in answer.results
        for result in topic.partitions
    }

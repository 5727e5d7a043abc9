"""Producers of one partition each: records in order, one batch in flight, until they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost
from penstock.protocol.generated.init_producer_id import InitProducerIdRequest
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from penstock.records.builder import BatchBuilder
from penstock.records.record import Header
from penstock.testing.history.operations import Place, Send
from penstock.testing.history.recorder import Recorder
from penstock.testing.sim.clients.talk import LOST, Talk
from penstock.testing.sim.clients.violation import Violation
from penstock.testing.sim.loop import SimulatedLoop

BATCH_MAX = 3
TIMEOUT_MS = 2_000
ALL, LEADER = -1, 1


class Identity(NamedTuple):
    """Who a producer is to the brokers."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    transactional_id: str | None = None


ANONYMOUS = Identity()

HeadersOf = Callable[[str], Sequence[Header]]
"""What a record with this value has for headers, each time that it is sent."""


def no_headers(_: str) -> Sequence[Header]:
    """As most records."""
    return ()


class Answer(NamedTuple):
    """What became of a batch."""

    error: ErrorCode
    base_offset: int = -1
    certain: bool = True
    """Whether no earlier attempt can have had an effect that nobody told of."""


async def produce(
    talk: Talk,
    place: Place,
    identity: Identity,
    sequence: int,
    values: list[str],
    acks: int,
    headers: Sequence[Sequence[Header]] = (),
) -> Answer:
    """Send one batch once, to whoever leads; with headers for each value, if there are any."""
    address, led = await talk.leader_of(place)
    builder = BatchBuilder(
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
        transactional=identity.transactional_id is not None,
    )
    for number, value in enumerate(values):
        own = headers[number] if headers else ()
        builder.append(None, value.encode(), talk.now_ms(), own)
    request = ProduceRequest(
        transactional_id=identity.transactional_id,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=place.topic,
                topic_id=led.topic_id,
                partition_data=[
                    PartitionProduceData(index=place.partition, records=memoryview(builder.build()))
                ],
            )
        ],
    )
    try:
        response = await talk.ask(address, request)
    except PeerLost:
        talk.doubt(place)
        return Answer(LOST, certain=False)
    found = response.responses[0].partition_responses[0]
    error = ErrorCode(found.error_code)
    if error:
        talk.doubt(place)
    return Answer(error, found.base_offset, certain=error not in MAY_HAVE_HAPPENED)


MAY_HAVE_HAPPENED = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # also told to those who waited for a commit
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class Producer:
    """Writes to one partition until it is told to stop, or until nobody has answered for long.

    With acks=all it is idempotent. With acks=1 it is not, and what it was told proves nothing: its
    records may be lost with the leader, so a history must not count on them.
    """

    def __init__(
        self,
        talk: Talk,
        place: Place,
        recorder: Recorder,
        *,
        acks: int = ALL,
        pause_ms: int = 100,
        headers: HeadersOf = no_headers,
    ) -> None:
        self.place = place
        self.stopping = False
        self.acknowledged = 0
        self._talk = talk
        self._recorder = recorder
        self._acks = acks
        self._pause_ms = pause_ms
        self._headers = headers
        self._loop: SimulatedLoop
        self._sequence = 0
        self._count = 0

    async def run(self, seconds_max: float) -> bool:
        """Produce; False if a batch's fate is unknown after `seconds_max`: then this one ends."""
        self._loop = asyncio.get_running_loop()  # type: ignore[assignment]
        identity = ANONYMOUS
        if self._acks == ALL:
            found = await initialise(self._talk, self._loop.now + seconds_max)
            if found is None:
                return False
            identity = found
        while not self.stopping:
            await asyncio.sleep(self._talk.dice.randint(0, self._pause_ms) / 1000)
            if not await self._send(identity, self._loop.now + seconds_max):
                return False
        return True

    async def _send(self, identity: Identity, deadline: float) -> bool:
        values = [self._value() for _ in range(self._talk.dice.randint(1, BATCH_MAX))]
        sends = [
            self._recorder.begin(
                Send(
                    topic=self.place.topic,
                    partition=self.place.partition,
                    value=value,
                    idempotent=self._acks == ALL,
                )
            )
            for value in values
        ]
        sequence = self._sequence if self._acks == ALL else NO_SEQUENCE
        headers = [self._headers(value) for value in values]
        while True:
            answer = await produce(
                self._talk, self.place, identity, sequence, values, self._acks, headers
            )
            if not answer.error:
                break
            if answer.error in NEVER:
                raise Violation(
                    f"{self._recorder.client} was told {answer.error.name} at sequence {sequence}"
                )
            if self._loop.now > deadline:
                for send in sends:
                    self._recorder.unknown(send, answer.error.name)
                return False
            await self._talk.pause()
        self._sequence += len(values)
        for number, send in enumerate(sends):
            if self._acks == ALL:
                self._recorder.ok(send, offset=answer.base_offset + number)
            else:
                self._recorder.unknown(send, "acks=1")
        self.acknowledged += len(sends)
        return True

    def _value(self) -> str:
        self._count += 1
        return f"{self._recorder.client}/{self._count}"


NEVER = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
)
"""Who sends one batch at a time, and again until it is there, is never told these."""


async def initialise(talk: Talk, deadline: float) -> Identity | None:
    """A producer id for one who has no transactions; None if there is none in time."""
    loop: SimulatedLoop = asyncio.get_running_loop()  # type: ignore[assignment]
    while loop.now < deadline:
        try:
            answer = await talk.ask(talk.any_broker(), InitProducerIdRequest(transactional_id=None))
        except PeerLost:
            await talk.pause()
            continue
        if not answer.error_code:
            return Identity(answer.producer_id, answer.producer_epoch)
        await talk.pause()
    return None

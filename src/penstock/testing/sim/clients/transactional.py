"""Transactional producers: a few records to several partitions, then all of them or none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost
from penstock.protocol.generated.end_txn import EndTxnRequest
from penstock.protocol.generated.init_producer_id import InitProducerIdRequest
from penstock.testing.history.operations import End, Init, Place, Send
from penstock.testing.history.recorder import Recorder
from penstock.testing.sim.clients.producer import (
    ALL,
    HeadersOf,
    Identity,
    no_headers,
    produce,
)
from penstock.testing.sim.clients.talk import LOST, TRANSACTION, Talk
from penstock.testing.sim.clients.violation import Violation
from penstock.testing.sim.loop import SimulatedLoop

TIMEOUT_MS = 6_000
SENDS_MAX = 4

NOT_HERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
NEVER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.CORRUPT_MESSAGE)


class _Ended(Exception):
    """This life of the producer is over: fenced, or nobody answered for too long."""


class TransactionalProducer:
    """One life of a transactional id. The next life fences it."""

    def __init__(
        self,
        talk: Talk,
        transactional_id: str,
        places: Sequence[Place],
        recorder: Recorder,
        *,
        headers: HeadersOf = no_headers,
    ) -> None:
        self.stopping = False
        self.committed = 0
        self._talk = talk
        self._id = transactional_id
        self._places = places
        self._recorder = recorder
        self._headers = headers
        self._identity = Identity(transactional_id=transactional_id)
        self._sequences: dict[Place, int] = {}
        self._count = 0
        self._deadline = 0.0
        self._loop: SimulatedLoop

    async def run(self, seconds_max: float) -> None:
        """Transaction after transaction, until told to stop or until this life is over."""
        self._loop = asyncio.get_running_loop()  # type: ignore[assignment]
        try:
            self._deadline = self._loop.now + seconds_max
            await self._init()
            while not self.stopping:
                self._deadline = self._loop.now + seconds_max
                await self._transaction()
        except _Ended:
            pass  # its successor goes on

    # -- one transaction ----------------------------------------------------------------------

    async def _transaction(self) -> None:
        dice = self._talk.dice
        await asyncio.sleep(dice.randint(0, 200) / 1000)
        self._count += 1
        label = f"{self._recorder.client}#{self._count}"
        commit = dice.random() < 0.75
        for number in range(dice.randint(1, SENDS_MAX)):
            if not await self._send(label, number, dice.choice(self._places)):
                commit = False
                break
            await asyncio.sleep(dice.randint(0, 30) / 1000)
        await self._end(label, commit)

    async def _send(self, label: str, number: int, place: Place) -> bool:
        """False if the transaction can only be aborted."""
        value = f"{label}/{number}"
        send = self._recorder.begin(
            Send(topic=place.topic, partition=place.partition, value=value, transaction=label)
        )
        sequence = self._sequences.get(place, 0)
        headers = [self._headers(value)]
        certain = True
        while True:
            answer = await produce(
                self._talk, place, self._identity, sequence, [value], ALL, headers
            )
            if not answer.error:
                self._sequences[place] = sequence + 1
                self._recorder.ok(send, offset=answer.base_offset)
                return True
            certain = certain and answer.certain
            if answer.error in NEVER:
                raise Violation(
                    f"{self._recorder.client} was told {answer.error.name} at sequence {sequence}"
                )
            if not answer.error.retriable or self._loop.now > self._deadline:
                self._note_end(send, certain, answer.error)
                if answer.error is ErrorCode.TRANSACTION_ABORTABLE:
                    return False
                raise _Ended
            await self._talk.pause()

    async def _end(self, label: str, commit: bool) -> None:
        end = self._recorder.begin(End(transaction=label, commit=commit))
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=commit,
        )
        certain = True
        while True:
            try:
                answer = await self._talk.coordinate(TRANSACTION, self._id, request)
                error = ErrorCode(answer.error_code)
            except PeerLost:
                error, certain = LOST, False
            if not error:
                break
            if not await self._may_retry(error):
                self._note_end(end, certain, error)
                raise _Ended
            certain = certain and error in NOTHING_HAPPENED
        self._recorder.ok(end)
        self.committed += commit
        self._become(answer.producer_id, answer.producer_epoch)

    def _note_end(self, operation: Send | End, certain: bool, error: ErrorCode) -> None:
        if certain:
            self._recorder.failed(operation, error.name)
        else:
            self._recorder.unknown(operation, error.name)

    # -- identity -----------------------------------------------------------------------------

    async def _init(self) -> None:
        init = self._recorder.begin(Init(transactional_id=self._id))
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS
        )
        while True:
            try:
                answer = await self._talk.coordinate(TRANSACTION, self._id, request)
                error = ErrorCode(answer.error_code)
            except PeerLost:
                error = LOST
            if not error:
                break
            if not await self._may_retry(error):
                self._recorder.unknown(init, error.name)
                raise _Ended
        self._recorder.ok(init, epoch=answer.producer_epoch)
        self._become(answer.producer_id, answer.producer_epoch)

    def _become(self, producer_id: int, epoch: int) -> None:
        now = Identity(producer_id, epoch, self._id)
        if now != self._identity:
            self._sequences.clear()
        self._identity = now

    async def _may_retry(self, error: ErrorCode) -> bool:
        if not error.retriable or self._loop.now > self._deadline:
            return False
        if error in NOT_HERE:
            self._talk.doubt_coordinator(TRANSACTION, self._id)
        await self._talk.pause()
        return True


NOTHING_HAPPENED = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
"""But not that it is no coordinator: it may have been one still when it wrote the end down, and its
successor goes on from there."""

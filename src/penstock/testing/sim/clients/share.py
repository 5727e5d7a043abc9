"""A member of a share group that works on the records of one partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost
from penstock.protocol.generated import share_acknowledge, share_fetch
from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.protocol.message import Message
from penstock.testing.history.operations import Place
from penstock.testing.sim.clients.share_ledger import Ledger, Seen
from penstock.testing.sim.clients.talk import GROUP, Address, Led, Talk

WAIT_MS = 500
WORK_MS = (20, 500)
RECORDS_MAX = 20
HEARTBEAT_SECONDS = 1.0
ACCEPT, RELEASE, REJECT = 1, 2, 3
RECORD_LIMIT = 1
"""Fetch mode: never more records than asked for."""


class Sharer:
    """Fetches, works for a while, and says what became of each record.

    In troubled times it sometimes gives records back, rejects one or never answers; when it is
    `calm` it accepts all it gets.
    """

    def __init__(
        self,
        talk: Talk,
        group: str,
        place: Place,
        ledger: Ledger,
        epoch_of: Callable[[int], int],
    ) -> None:
        self.stopping = False
        self.calm = False
        self._talk = talk
        self._group = group
        self._place = place
        self._ledger = ledger
        self._epoch_of = epoch_of
        """Which epoch of the partition a node believes in at this moment; -1 if it is down."""
        self._member_epoch = 0
        self._heartbeat_at = 0.0
        self._leader: tuple[Address, Led] | None = None
        self._session_epoch = 0
        self._held: dict[int, None] = {}

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Work on and on."""
        while not self.stopping:
            if self._now >= self._heartbeat_at:
                await self._heartbeat()
            if not await self._fetch():
                await self._talk.pause()
                continue
            await asyncio.sleep(self._talk.dice.randint(*WORK_MS) / 1000)
            if self._held and not await self._acknowledge():
                await self._talk.pause()

    # -- the group --------------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._talk.name,
            member_epoch=self._member_epoch,
            subscribed_topic_names=[self._place.topic],
        )
        try:
            answer = await self._talk.coordinate(GROUP, self._group, request)
        except PeerLost:
            return
        error = ErrorCode(answer.error_code)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._member_epoch = 0
        elif error:
            self._talk.doubt_coordinator(GROUP, self._group)
        else:
            self._member_epoch = answer.member_epoch
            self._heartbeat_at = self._now + HEARTBEAT_SECONDS

    # -- the partition ----------------------------------------------------------------------------

    async def _fetch(self) -> bool:
        """Whether the leader answered as it should, with records or without."""
        address, led = await self._find_leader()
        # What is fetched may bring along what became of what was fetched before.
        said = self._choose() if self._held and self._talk.dice.random() < 0.5 else {}
        partition = share_fetch.FetchPartition(
            partition_index=self._place.partition,
            acknowledgement_batches=[
                share_fetch.AcknowledgementBatch(
                    first_offset=offset, last_offset=offset, acknowledge_types=[word]
                )
                for offset, word in said.items()
            ],
        )
        request = share_fetch.ShareFetchRequest(
            group_id=self._group,
            member_id=self._talk.name,
            share_session_epoch=self._session_epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=RECORDS_MAX,
            batch_size=RECORDS_MAX,
            share_acquire_mode=self._talk.dice.randint(0, RECORD_LIMIT),
            topics=[share_fetch.FetchTopic(topic_id=led.topic_id, partitions=[partition])],
        )
        sent, epoch = self._now, self._epoch_of(led.leader)
        answer = await self._ask(address, request, sent)
        if answer is None:
            return False
        for found in (each for topic in answer.responses for each in topic.partitions):
            self._settle(said, ErrorCode(found.acknowledge_error_code or found.error_code))
            if found.error_code:
                self._lose()
                self._talk.doubt(self._place)
                return False
            self._take(found, sent, answer.acquisition_lock_timeout_ms / 1000, led, epoch)
        return True

    def _take(self, found: Any, sent: float, lock: float, led: Led, epoch: int) -> None:
        for each in found.acquired_records:
            offsets = range(each.first_offset, each.last_offset + 1)
            self._ledger.deliver(
                self._talk.name,
                offsets,
                each.delivery_count,
                sent=sent,
                got=self._now,
                lock_seconds=lock,
                seen=Seen(led.leader, epoch, self._epoch_of(led.leader)),
            )
            self._held.update(dict.fromkeys(offsets))

    async def _acknowledge(self) -> bool:
        """Whether the leader of the session answered at all."""
        said = self._choose()
        if not said or not self._session_epoch:
            return True
        assert self._leader is not None
        address, led = self._leader
        partition = share_acknowledge.AcknowledgePartition(
            partition_index=self._place.partition,
            acknowledgement_batches=[
                share_acknowledge.AcknowledgementBatch(
                    first_offset=offset, last_offset=offset, acknowledge_types=[word]
                )
                for offset, word in said.items()
            ],
        )
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._talk.name,
            share_session_epoch=self._session_epoch,
            topics=[
                share_acknowledge.AcknowledgeTopic(topic_id=led.topic_id, partitions=[partition])
            ],
        )
        answer = await self._ask(address, request, self._now)
        if answer is None:
            return False
        for found in (each for topic in answer.responses for each in topic.partitions):
            self._settle(said, ErrorCode(found.error_code))
        return True

    def _choose(self) -> dict[int, int]:
        """What to say about what is held: a word for each offset."""
        dice = self._talk.dice
        words: list[int] = [ACCEPT] if self.calm else [ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE]
        if not self.calm and dice.random() < 0.3:
            words.append(REJECT)
        if not self.calm and dice.random() < 0.1:
            self._held.clear()  # never to be heard of again
        said = {offset: dice.choice(words) for offset in sorted(self._held)}
        self._ledger.saw(
            [offset for offset, word in said.items() if word == ACCEPT],
            [offset for offset, word in said.items() if word == REJECT],
        )
        return said

    def _settle(self, said: dict[int, int], error: ErrorCode) -> None:
        """The group has heard what was said, or has refused to."""
        if said and error is ErrorCode.NONE and self._leader is not None:
            epoch = self._epoch_of(self._leader[1].leader)
            accepted = [offset for offset, word in said.items() if word == ACCEPT]
            self._ledger.accept(accepted, self._now, epoch)
            self._ledger.reject(offset for offset, word in said.items() if word == REJECT)
        self._ledger.let_go(said)
        for offset in said:
            self._held.pop(offset, None)

    # -- the session ------------------------------------------------------------------------------

    async def _find_leader(self) -> tuple[Address, Led]:
        found = await self._talk.leader_of(self._place)
        if self._leader is not None and self._leader[0] != found[0]:
            self._lose()
        self._leader = found
        return found

    async def _ask(self, address: Address, request: Message, sent: float) -> Any:
        """The answer to a request in the session, or None if there is none or it is over."""
        try:
            answer = await self._talk.ask(address, request)
        except PeerLost:
            self._lose()
            self._talk.doubt(self._place)
            return None
        if answer.error_code:
            self._lose()
            return None
        if self._session_epoch:
            self._ledger.lives(self._talk.name, sent)
        self._session_epoch += 1
        return answer

    def _lose(self) -> None:
        self._session_epoch = 0
        self._held.clear()
        self._ledger.lost(self._talk.name)

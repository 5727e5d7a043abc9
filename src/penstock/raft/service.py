"""What a member of the quorum answers on its controller listener."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.metadata.cluster import Endpoint
from penstock.model.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.raft.driver import QuorumLost, RaftDriver
from penstock.raft.messages import BeginEpoch, ChangeReply, Fetch, FetchSnapshot
from penstock.raft.wire import (
    FETCH_BYTES_MAX,
    Envelope,
    Refused,
    ask_of,
    refusal_of,
    response_to,
)
from penstock.raft.wire_voters import CHANGES, InvalidChange, change_of, change_response

WAIT_MS_MAX = 30_000
"""A member that wants to wait longer for news is answered with none by then."""


STOPPING = Refused(ErrorCode.BROKER_NOT_AVAILABLE)
"""To everybody, from a member that can promise nothing any more."""


class QuorumService:
    """Kafka's quorum requests in, its answers out."""

    def __init__(
        self,
        driver: RaftDriver,
        envelope: Envelope,
        endpoint_of: Callable[[int], Endpoint | None],
        learn: Callable[[int, tuple[str, int]], None] | None = None,
    ) -> None:
        """`endpoint_of` says where a member listens; `learn` is told where a new leader does."""
        self._driver = driver
        self._envelope = envelope
        self._endpoint_of = endpoint_of
        self._learn = learn

    @property
    def leader(self) -> int:
        """Who leads the quorum, as far as this node knows; -1 if it does not."""
        return self._driver.leader

    @property
    def kraft_version(self) -> int:
        """Of the quorum's own protocol: 1 where the log says who votes."""
        return self._driver.voters.kraft_version

    @property
    def leads(self) -> bool:
        """Whether this node leads the quorum."""
        return self._driver.leading

    def answer(self, request: Any) -> Message | Awaitable[Message]:
        """The answer to Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot, Fetch, or to a
        change of the voters."""
        if isinstance(request, CHANGES):
            return self._change(request)
        try:
            ask = ask_of(self._envelope, request)
        except Refused as refused:
            return refusal_of(request, refused, self._driver.epoch, self._driver.leader)
        if isinstance(ask, Fetch):
            return self._fetch(request, ask)
        try:
            if isinstance(ask, FetchSnapshot):
                bytes_max = max(1, min(request.max_bytes, FETCH_BYTES_MAX))
                return self._reply(request, self._driver.answer_snapshot(ask, bytes_max))
            reply = self._driver.answer(ask)
            if isinstance(ask, BeginEpoch) and reply.error is ErrorCode.NONE:
                self._learn_leader(request, ask)
            return self._reply(request, reply)
        except QuorumLost:
            return refusal_of(request, STOPPING)

    def _learn_leader(self, request: Any, ask: BeginEpoch) -> None:
        """A leader that no voter list names says where it listens; its first listener counts."""
        if self._learn is not None and request.leader_endpoints:
            first = request.leader_endpoints[0]
            self._learn(ask.leader, (first.host, first.port))

    async def _change(self, request: Any) -> Message:
        endpoints = self._envelope.endpoints
        listener = endpoints[0].name.upper() if endpoints else None
        epoch, leader = self._driver.epoch, self._driver.leader
        try:
            ask = change_of(self._envelope.cluster_id, listener, request)
            reply = await self._driver.change_voters(ask)
        except InvalidChange as refused:
            reply = ChangeReply(epoch, leader, refused.error, str(refused))
        except QuorumLost:
            reply = ChangeReply(epoch, leader, STOPPING.error)
        return change_response(request, reply, self._endpoint_of(reply.leader))

    async def _fetch(self, request: Any, ask: Fetch) -> Message:
        wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
        try:
            # A batch reaches a follower whole, however little it asks for: or it would never come.
            reply = await self._driver.answer_fetch(ask, wait_ms, FETCH_BYTES_MAX)
        except QuorumLost:
            return refusal_of(request, STOPPING)
        return self._reply(request, reply)

    def _reply(self, request: Any, reply: Any) -> Message:
        return response_to(request, reply, self._endpoint_of(reply.leader))

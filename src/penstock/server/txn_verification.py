"""Whether a producer's partitions take part in its transaction: the leader asks the coordinator.

    refused = verify(broker, transactional_id, producer_id, epoch, partitions, Support.of_...)
    if not isinstance(refused, dict):
        refused = await refused

A coordinator on this node, whose records are committed at once, answers at once: nothing else runs
between the question and the append, and the order of pipelined requests is kept by itself. One on
another node is asked over the network (`txn_questions`). Where there is a wait, the order of each
producer's batches has to be kept (`txn_first_batches`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.coordination.txn import adding
from penstock.coordination.txn.adding import Participation, Verdict
from penstock.coordination.txn.transaction import EPOCH_PER_TXN_FROM
from penstock.metadata.configs import BROKER
from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE
from penstock.server.internal_topics import TRANSACTIONS_TOPIC
from penstock.server.topic_configs import EVERY_BROKER

if TYPE_CHECKING:
    from penstock.server.broker import Broker

Place = tuple[str, int]
"""A topic's name and a partition's number."""

Errors = dict[Place, ErrorCode]
"""Why partitions may not be written to; those that may are not in it."""

NO_ERRORS: Errors = {}

PRODUCE_ABORTABLE_FROM = 11
PRODUCE_ADDS_FROM = 12
OFFSETS_ABORTABLE_FROM = 4
OFFSETS_ADDS_FROM = 5


class Support(Enum):
    """What a client knows about, by the version of its request."""

    LEGACY = "no error of its own for a partition that is not part of the transaction"
    ABORTABLE = "TRANSACTION_ABORTABLE"
    ADDS = "partitions join with the first batch: transaction version 2"

    @classmethod
    def of_produce(cls, version: int) -> Support:
        """Of whoever sent a Produce request."""
        return cls._by(version, PRODUCE_ABORTABLE_FROM, PRODUCE_ADDS_FROM)

    @classmethod
    def of_offset_commit(cls, version: int) -> Support:
        """Of whoever sent a TxnOffsetCommit request."""
        return cls._by(version, OFFSETS_ABORTABLE_FROM, OFFSETS_ADDS_FROM)

    @classmethod
    def _by(cls, version: int, abortable_from: int, adds_from: int) -> Support:
        if version >= adds_from:
            return cls.ADDS
        return cls.ABORTABLE if version >= abortable_from else cls.LEGACY


def verify(
    broker: Broker,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Sequence[Place],
    support: Support,
) -> Errors | Awaitable[Errors]:
    """Why some of the partitions may not be written to: at once, or later.

    With `Support.ADDS` they join the transaction, else they must have joined. The errors are the
    coordinator's, as leaders pass them on.
    """
    adds = support is Support.ADDS
    if not adds and not _is_enabled(broker):
        return NO_ERRORS
    version = EPOCH_PER_TXN_FROM if adds else 0
    what = Participation(transactional_id, producer_id, producer_epoch, partitions, version)
    verdict = ask(broker, what, verify_only=not adds)
    if isinstance(verdict, Verdict):
        if not verdict.error:
            return NO_ERRORS
        if not (adds and verdict.error is ErrorCode.CONCURRENT_TRANSACTIONS):
            return _errors(verdict, partitions, support)
    return _verify_later(broker, what, support, verdict)


def _is_enabled(broker: Broker) -> bool:
    """As configured now: it may be switched off while the node runs."""
    key = "transaction.partition.verification.enable"
    for name in (str(broker.node_id), EVERY_BROKER):
        altered = broker.image.configs.of(BROKER, name).get(key)
        if altered is not None:
            return altered.strip().lower() == "true"
    return broker.config.get_bool(key)


def ask(
    broker: Broker, what: Participation, verify_only: bool
) -> Verdict | asyncio.Future[Verdict]:
    """The coordinator's word, wherever it is."""
    coordinators = broker.coordinators
    index = coordinators.transactions.index_of(what.transactional_id)
    topic = broker.image.topics.by_name.get(TRANSACTIONS_TOPIC)
    partition = None if topic is None else topic.partitions.get(index)
    if partition is None or partition.leader == NO_NODE:
        return Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if partition.leader == broker.node_id:
        return ask_here(broker, what, verify_only)
    return coordinators.questions.ask(partition.leader, what, verify_only)


def ask_here(
    broker: Broker, what: Participation, verify_only: bool
) -> Verdict | asyncio.Future[Verdict]:
    """The word of a coordinator on this node; NOT_COORDINATOR if it is elsewhere."""
    step = adding.verify if verify_only else adding.add
    answer: Any = broker.coordinators.transactions.call(
        what.transactional_id,
        lambda shard, at, out, ticket: step(shard, at, out, ticket, what),
        adding.refuse,
    )
    return answer  # type: ignore[no-any-return]


async def _verify_later(
    broker: Broker,
    what: Participation,
    support: Support,
    verdict: Verdict | asyncio.Future[Verdict],
) -> Errors:
    """Wait for the coordinator, and for the markers of the transaction before, but not for long."""
    pause = broker.config.get_int("add.partitions.to.txn.retry.backoff.ms") / 1000
    patience = broker.config.get_int("add.partitions.to.txn.retry.backoff.max.ms") / 1000
    give_up = broker.loop.time() + patience
    adds = support is Support.ADDS
    while True:
        if not isinstance(verdict, Verdict):
            verdict = await _in_time(broker, verdict)
        if verdict.error is not ErrorCode.CONCURRENT_TRANSACTIONS or not adds:
            break
        if broker.loop.time() >= give_up:
            break
        await asyncio.sleep(pause)
        verdict = ask(broker, what, verify_only=False)
    return _errors(verdict, what.partitions, support)


async def _in_time(broker: Broker, answer: asyncio.Future[Verdict]) -> Verdict:
    """The coordinator's answer, unless its records take too long to be committed."""
    try:
        patience = broker.config.get_int("request.timeout.ms") / 1000
        return await asyncio.wait_for(answer, patience)
    except TimeoutError:
        return Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _errors(verdict: Verdict, partitions: Sequence[Place], support: Support) -> Errors:
    found = {}
    for place in partitions:
        error = verdict.of(place)
        if error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        elif error is ErrorCode.TRANSACTION_ABORTABLE and support is Support.LEGACY:
            error = ErrorCode.INVALID_TXN_STATE
        if error:
            found[place] = error
    return found

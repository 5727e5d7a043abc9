"""Brings records that a share group has given up to its dead-letter topic.

Rules say whether they may be written (`dead_letter_rules`), records become letters in
`dead_letter_writing`, and `dead_letter_post` takes these to whoever leads the partition: the
source's number modulo the topic's partitions, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.raft.driver import NotLeader
from penstock.server.dead_letter_post import LetterPost
from penstock.server.dead_letter_rules import ENABLE, Course, Rules, ruling
from penstock.server.dead_letter_writing import Found, Origin, gone, pack, pick
from penstock.server.internal_topics import CONTROLLER_SECONDS_MAX
from penstock.server.topic_configs import log_config_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.coordination.delivery.effects import DeadLetter
    from penstock.metadata.image import MetadataImage
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")

AT_ONCE_MAX = 32
"""Letters whose records are read and held at a time."""

AT_ONCE_PER_TOPIC = 4
"""Of these, for one topic: one that does not answer for long holds up no letters for others."""

READ_BYTES = 1024 * 1024
"""Of the source's log, before letters are sent; the first batch always comes whole."""

BATCH_BYTES_MAX = 1024 * 1024
"""Of a batch of letters, also where the topic would take more."""

COMPLAINT_MS = 60_000
"""How often the log says the same about the same group."""

COMPLAINTS_MAX = 1_000

_NODES_DEFAULT = -1

_HINTS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "give the brokers' principal the right to write to it",
    ErrorCode.INVALID_RECORD: "letters without a copy of the record have no key, so the topic must "
    "not be compacted, or the group must copy records",
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic",
    ErrorCode.NOT_ENOUGH_REPLICAS: "too few of its replicas are in sync; they are tried again",
}
"""What can be done about errors that do not pass by themselves."""


class _Turns:
    """Of letters for one topic."""

    __slots__ = ("slots", "wanted")

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(AT_ONCE_PER_TOPIC)
        self.wanted = 0
        """By those who have one and those who wait."""


class DeadLetters:
    """Copies records, with what went wrong in their headers, wherever the topic is led."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._post = LetterPost(broker)
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)
        self._turns: dict[str, _Turns] = {}
        self._complaints: dict[tuple[str, str], int] = {}

    async def bury(self, group_id: str, source: Partition, letter: DeadLetter) -> bool:
        """Whether nothing is left to be written of the letter: all its records are in the topic,
        committed, or are to be archived without (see `dead_letter_rules`). Some may be there twice
        if not: the caller tries again, later each time."""
        try:
            rules = Rules.of(group_id, self._broker.image, self._broker.config)
            async with self._turn(rules.topic):
                return await self._bury(group_id, source, letter)
        except Exception:
            # Our own fault: the records stay as they are, and the caller goes on.
            log.exception("group %s: dead letters from %s were not written", group_id, source)
            return False

    @asynccontextmanager
    async def _turn(self, topic: str) -> AsyncIterator[None]:
        """Wait until there is room for another letter to a topic."""
        turns = self._turns.setdefault(topic, _Turns())
        turns.wanted += 1
        try:
            async with turns.slots, self._slots:
                yield
        finally:
            turns.wanted -= 1
            if not turns.wanted:
                del self._turns[topic]

    def on_image(self, image: MetadataImage) -> None:
        """Brokers may be gone."""
        self._post.on_image(image)

    def close(self) -> None:
        """The node stops."""
        self._post.close()

    async def _bury(self, group_id: str, source: Partition, letter: DeadLetter) -> bool:
        broker = self._broker
        rules = Rules.of(group_id, broker.image, broker.config)
        ruled = ruling(rules, source.topic, broker.image)
        if ruled.course is Course.CREATE:
            if not await self._create(group_id, rules.topic):
                return False
            ruled = ruling(rules, source.topic, broker.image)  # others may have been faster
        if ruled.course is Course.ARCHIVE:
            self._complain(group_id, f"no dead letters from {source}: {ruled.why}", ruled.why)
            return True
        if ruled.course is Course.WAIT:
            self._complain(group_id, f"dead letters from {source} wait: {ruled.why}", ruled.why)
            return False
        origin = Origin(group_id, source.topic, source.index)
        offset = letter.first
        while offset <= letter.last:
            try:
                found, offset = await self._read(source, offset, letter.last)
                error = await self._write(rules, origin, letter, found)
            except OSError as problem:
                self._complain(group_id, f"{source} cannot be read for dead letters: {problem}")
                return False
            if error:
                hint = _HINTS.get(error, "they are tried again")
                self._complain(
                    group_id,
                    f"{rules.topic} did not take dead letters from {source}: {error.name}; {hint}",
                )
                return False
        return True

    # -- the records ------------------------------------------------------------------------------

    async def _read(self, source: Partition, first: int, last: int) -> tuple[list[Found], int]:
        """Some of the records, and where to go on. Raises OSError."""
        start, end = source.log.start, source.log.end
        if first < start:
            return gone(first, min(last, start - 1))
        found = source.log.read(first, READ_BYTES, end) if first < end else None
        if found is None:
            return gone(first, last)
        read = found.read_waiting
        return await self._broker.workers.submit(lambda: pick(memoryview(read()), first, last))

    async def _write(
        self, rules: Rules, origin: Origin, letter: DeadLetter, found: list[Found]
    ) -> ErrorCode:
        """Send letters about the records, one batch after the other."""
        broker = self._broker
        topic = broker.image.topics.by_name.get(rules.topic)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bytes_max = log_config_of(broker.config, broker.image, rules.topic).message_max_bytes
        batches = pack(
            found,
            letter,
            origin,
            copies=rules.copies,
            now=broker.clock.now(),
            bytes_max=min(bytes_max, BATCH_BYTES_MAX),
        )
        send = partial(self._post.send, rules.topic, origin.partition % len(topic.partitions))
        for batch in batches:
            error = await send(batch)
            if error:
                return error
        return ErrorCode.NONE

    # -- the topic --------------------------------------------------------------------------------

    async def _create(self, group_id: str, name: str) -> bool:
        """Have the topic made, with the node's defaults. Others may have asked before."""
        broker = self._broker
        configs = {ENABLE: "true", "message.timestamp.type": "CreateTime"}
        topic = CreatableTopic(
            name=name,
            num_partitions=_NODES_DEFAULT,
            replication_factor=_NODES_DEFAULT,
            configs=[CreatableTopicConfig(name=key, value=text) for key, text in configs.items()],
        )
        request = CreateTopicsRequest(
            topics=[topic], timeout_ms=broker.config.get_int("request.timeout.ms")
        )
        try:
            response = await broker.controller.handle(
                int(ApiKey.CREATE_TOPICS), request, seconds_max=CONTROLLER_SECONDS_MAX
            )
        except NotLeader as problem:
            self._complain(group_id, f"{name} cannot be created: {problem}")
            return False
        told = response.topics[0]
        error = ErrorCode(told.error_code)
        if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._complain(group_id, f"{name} cannot be created: {error.name} {told.error_message}")
            return False
        if not error:
            log.info("group %s: created %s for dead letters", group_id, name)
        await broker.settled()
        return name in broker.image.topics.by_name

    def _complain(self, group_id: str, what: str, why: str = "") -> None:
        """Say it, unless it, or the same reason, was said a moment ago: a group may have very many
        dead letters, from very many partitions."""
        now = self._broker.clock.monotonic()
        key = group_id, why or what
        if now - self._complaints.get(key, -COMPLAINT_MS) < COMPLAINT_MS:
            return
        if len(self._complaints) >= COMPLAINTS_MAX:
            self._complaints.clear()
        self._complaints[key] = now
        log.warning("group %s: %s", group_id, what)

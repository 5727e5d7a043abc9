"""Internal topics of Kafka Streams applications: made for their members, and on their behalf.

A member's heartbeat finds out what is missing, and does not wait for it: the topics are asked for
in the background, each by one request at a time, and a later heartbeat finds them there. If one
cannot be made, members hear why for a while, and only then is it tried again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.model.operations import Operation
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.create_topics import CreateTopicsRequest
from penstock.protocol.registry import API
from penstock.raft.driver import NotLeader
from penstock.server import audit
from penstock.server.call import Call
from penstock.server.internal_topics import CONTROLLER_SECONDS_MAX
from penstock.server.rights import may_cluster
from penstock.server.topic_rights import refused_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.protocol.generated.create_topics import CreatableTopic
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")

KNOWN_MAX = 1000
"""Topics that are being made, or that could not be, which are kept in mind."""


class StreamsTopics:
    """What applications miss, and what became of it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._making: set[str] = set()
        self._failed: dict[str, tuple[Millis, str]] = {}
        """Why topics could not be made, and until when they are not tried again."""
        self._tasks: set[asyncio.Task[None]] = set()

    def make(self, call: Call, missing: Mapping[str, CreatableTopic], patience_ms: int) -> str:
        """Have topics made as who called wants them; answers what members should know, if any.

        It takes CREATE on the cluster or on each topic: without it, none is made. For `patience_ms`
        after a failure a topic is left alone.
        """
        broker = self._broker
        if not may_cluster(broker, call, Operation.CREATE, tells=False):
            refused = refused_topics(broker, call, Operation.CREATE, missing)
            if refused:
                return f"You may not create {', '.join(sorted(refused)[:10])}."
        now = broker.clock.monotonic()
        self._failed = {it: why for it, why in self._failed.items() if why[0] > now}
        wanted = [
            topic
            for name, topic in missing.items()
            if name not in self._making and name not in self._failed
        ][: KNOWN_MAX - len(self._making)]
        if wanted:
            self._making.update(it.name for it in wanted)
            task = broker.loop.create_task(self._make(call, wanted, patience_ms))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        failed = [f"{it} ({self._failed[it][1]})" for it in missing if it in self._failed]
        return f"They could not be created: {', '.join(failed[:10])}." if failed else ""

    def close(self) -> None:
        """The node stops."""
        for task in list(self._tasks):
            task.cancel()

    async def _make(self, call: Call, topics: list[CreatableTopic], patience_ms: int) -> None:
        """Ask the controller, which hears of whom it is and looks at rights once more."""
        key, version = int(ApiKey.CREATE_TOPICS), API[ApiKey.CREATE_TOPICS].versions[-1]
        broker = self._broker
        asking = Call(
            call.connection, key, version, call.correlation_id, call.client_id, call.sender
        )
        asking.mutations = broker.quotas.mutations(asking)
        request = CreateTopicsRequest(
            topics=topics, timeout_ms=broker.config.get_int("request.timeout.ms")
        )
        until = Millis(broker.clock.monotonic() + patience_ms)
        try:
            response = await broker.controller.handle(
                key, request, version=version, call=asking, seconds_max=CONTROLLER_SECONDS_MAX
            )
            for topic in response.topics:
                error = ErrorCode(topic.error_code)
                if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    why = topic.error_message or error.name
                    self._note_failure(topic.name, until, why)
            made = [it.name for it in response.topics if not it.error_code]
            if made:
                audit.changed(asking, "create topics", {"topics": made, "because": "streams"})
        except NotLeader:
            for it in topics:
                self._note_failure(it.name, until, "there is no active controller")
        finally:
            self._making.difference_update(it.name for it in topics)

    def _note_failure(self, name: str, until: Millis, why: str) -> None:
        log.warning("cannot create the internal topic %s of an application: %s", name, why)
        if len(self._failed) < KNOWN_MAX:
            self._failed[name] = until, why

"""Topics that coordinators keep their state in: made when first needed, as the node's keys say."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.raft.driver import NotLeader

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARES_TOPIC = "__share_group_state"

CONTROLLER_SECONDS_MAX = 3.0
"""How long a controller is looked for while clients wait, who come again by themselves."""


class _Keys(NamedTuple):
    """The node's keys that say how a topic is made."""

    partitions: str
    replicas: str
    segment_bytes: str
    isr_min: str | None = None


_KEYS = {
    GROUPS_TOPIC: _Keys(
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
    ),
    TRANSACTIONS_TOPIC: _Keys(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transaction.state.log.min.isr",
    ),
    SHARES_TOPIC: _Keys(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.state.topic.min.isr",
    ),
}

NAMES = frozenset(_KEYS)

_CONFIGS = {
    GROUPS_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTIONS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    SHARES_TOPIC: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        # The coordinator itself cuts off what nobody needs. Whatever the node's keys say of other
        # topics would take the states of groups that have nothing to do just now.
        "retention.bytes": "-1",
        "retention.ms": "-1",
    },
}


def creatable(config: NodeConfig, name: str) -> CreatableTopic:
    """An internal topic as a node with this configuration wants it."""
    keys = _KEYS[name]
    configs = _CONFIGS[name] | {"segment.bytes": str(config.get_int(keys.segment_bytes))}
    if keys.isr_min is not None:
        configs["min.insync.replicas"] = str(config.get_int(keys.isr_min))
    return CreatableTopic(
        name=name,
        num_partitions=config.get_int(keys.partitions),
        replication_factor=config.get_int(keys.replicas),
        configs=[CreatableTopicConfig(name=key, value=text) for key, text in configs.items()],
    )


class InternalTopics:
    """Has internal topics made, each once however many ask for it at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._making: dict[str, asyncio.Task[None]] = {}

    async def make(self, name: str) -> None:
        """Have an internal topic made. Another broker may have asked before: that is no error.

        Returns when the controller has answered, or when there was none for a while. What it said
        is logged: a client only has to know whether the topic is there, and comes again if not.
        """
        task = self._making.get(name)
        if task is None:
            task = self._making[name] = self._broker.loop.create_task(self._make(name))
            task.add_done_callback(lambda _: self._making.pop(name, None))
        # Shielded: whoever goes away meanwhile must not take the others' topic along.
        await asyncio.shield(task)

    def close(self) -> None:
        """The node stops."""
        for task in list(self._making.values()):
            task.cancel()

    async def _make(self, name: str) -> None:
        broker = self._broker
        request = CreateTopicsRequest(
            topics=[creatable(broker.config, name)],
            timeout_ms=broker.config.get_int("request.timeout.ms"),
        )
        try:
            response = await broker.controller.handle(
                int(ApiKey.CREATE_TOPICS), request, seconds_max=CONTROLLER_SECONDS_MAX
            )
        except NotLeader as problem:
            log.warning("cannot create %s: %s", name, problem)
            return
        for topic in response.topics:
            error = ErrorCode(topic.error_code)
            if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                log.warning("cannot create %s: %s %s", name, error.name, topic.error_message)

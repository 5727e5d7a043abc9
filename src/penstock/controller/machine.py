"""The controller's decisions: one request at a time, against the latest state.

The machine keeps the state with every change that it has decided on, committed or not: the next
decision builds on it. Images are immutable, so going back to what was committed, when leadership
is lost, is taking an older reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.controller import (
    acls,
    balance,
    brokers,
    configs,
    directories,
    features,
    in_sync,
    partitions,
    producer_ids,
    quotas,
    reassignments,
    scram,
    tokens,
    topics,
)
from penstock.controller.decision import THE_EPOCH, Context, Decision, Settings
from penstock.controller.sessions import Sessions
from penstock.controller.topic_names import TopicNames
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY, MetadataImage
from penstock.metadata.levels import SUPPORTED, LevelRange
from penstock.protocol.api_keys import ApiKey
from penstock.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.controller.config_rules import ConfigRules
    from penstock.controller.decision import Leave
    from penstock.model.ids import Millis
    from penstock.platform.chance import Chance

HANDLERS: Mapping[int, Callable[[Context, Any], Decision]] = {
    int(ApiKey.CREATE_TOPICS): topics.create_topics,
    int(ApiKey.DELETE_TOPICS): topics.delete_topics,
    int(ApiKey.CREATE_PARTITIONS): partitions.create_partitions,
    int(ApiKey.ALTER_CONFIGS): configs.alter_configs,
    int(ApiKey.INCREMENTAL_ALTER_CONFIGS): configs.incremental_alter_configs,
    int(ApiKey.ALTER_CLIENT_QUOTAS): quotas.alter_quotas,
    int(ApiKey.CREATE_ACLS): acls.create_acls,
    int(ApiKey.DELETE_ACLS): acls.delete_acls,
    int(ApiKey.ALTER_USER_SCRAM_CREDENTIALS): scram.alter_credentials,
    int(ApiKey.CREATE_DELEGATION_TOKEN): tokens.create_token,
    int(ApiKey.RENEW_DELEGATION_TOKEN): tokens.renew_token,
    int(ApiKey.EXPIRE_DELEGATION_TOKEN): tokens.expire_token,
    int(ApiKey.UPDATE_FEATURES): features.update_features,
    int(ApiKey.ALLOCATE_PRODUCER_IDS): producer_ids.allocate_producer_ids,
    int(ApiKey.BROKER_REGISTRATION): brokers.register_broker,
    int(ApiKey.BROKER_HEARTBEAT): brokers.heartbeat,
    int(ApiKey.ALTER_PARTITION): in_sync.alter_partition,
    int(ApiKey.ALTER_PARTITION_REASSIGNMENTS): reassignments.alter_reassignments,
    int(ApiKey.LIST_PARTITION_REASSIGNMENTS): reassignments.list_reassignments,
    int(ApiKey.ELECT_LEADERS): balance.elect_leaders,
    int(ApiKey.ASSIGN_REPLICAS_TO_DIRS): directories.assign_replicas,
    int(ApiKey.UNREGISTER_BROKER): brokers.unregister_broker,
    int(ApiKey.CONTROLLER_REGISTRATION): brokers.register_controller,
}
"""Requests that change metadata, by API."""


class Controller:
    """Turns requests into records and replies."""

    __slots__ = ("_names", "image", "rules", "sessions", "settings", "supported")

    def __init__(
        self,
        settings: Settings,
        rules: ConfigRules,
        supported: Mapping[str, LevelRange] = SUPPORTED,
    ) -> None:
        self.settings = settings
        self.rules = rules
        self.supported = supported
        # A heartbeat and a half: the next one is late, not only due.
        self.sessions = Sessions(settings.session_timeout_ms, settings.heartbeat_ms * 3 // 2)
        self.image = EMPTY
        """Everything decided so far."""
        self._names = TopicNames()

    def take_over(self, image: MetadataImage, now: Millis) -> None:
        """Lead from here: `image` is all that was committed before this node's epoch.

        The broker in this very process has no session: whatever ran under its id before is gone,
        since it held the lock on the same directories.
        """
        self.image = image
        self._names = TopicNames(image.topics.by_name)
        self.sessions.begin((b for b in image.cluster.brokers if b != self.settings.node_id), now)

    def decide(
        self,
        api_key: int,
        request: Any,
        *,
        now: Millis,
        chance: Chance,
        next_offset: int,
        version: int,
        wall: Millis = THE_EPOCH,
        principal: Principal = ANONYMOUS,
        leave: Leave | None = None,
    ) -> Decision:
        """What to commit and what to answer. Nothing has changed yet: see `adopt`."""
        context = self._context(now, chance, next_offset, version, wall, principal, leave)
        return HANDLERS[api_key](context, request)

    def chore(
        self,
        work: Callable[[Context], Decision | None],
        *,
        now: Millis,
        chance: Chance,
        next_offset: int,
        wall: Millis = THE_EPOCH,
    ) -> Decision | None:
        """What time alone brings about, such as fencing a silent broker; None if nothing is due."""
        return work(self._context(now, chance, next_offset, 0, wall, ANONYMOUS))

    def fold(self, records: Sequence[Any]) -> MetadataDelta:
        """What records would change. Raises, and nothing has happened, if they make no sense."""
        return MetadataDelta(self.image).replay_all(records)

    def adopt(self, delta: MetadataDelta, last_offset: int, epoch: int) -> MetadataImage:
        """Take a change as decided: its records stand in the log up to `last_offset`."""
        if delta.topics is not None:
            for topic in delta.topics.deleted.values():
                self._names.remove(topic.name)
            for change in delta.topics.changed.values():
                if change.before is None:
                    self._names.add(change.name)
        self.image = delta.apply(last_offset, epoch)
        return self.image

    def apply(self, records: Sequence[Any], last_offset: int, epoch: int) -> MetadataDelta:
        """`fold` and `adopt` in one, where nothing can come between."""
        delta = self.fold(records)
        self.adopt(delta, last_offset, epoch)
        return delta

    def _context(
        self,
        now: Millis,
        chance: Chance,
        next_offset: int,
        version: int,
        wall: Millis,
        principal: Principal,
        leave: Leave | None = None,
    ) -> Context:
        return Context(
            self.image,
            self.settings,
            self.supported,
            self.rules,
            self._names,
            self.sessions,
            now,
            chance,
            next_offset,
            version,
            wall,
            principal,
            leave,
        )

"""What a broker keeps for share groups: the sessions of members, and who holds which record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.configs import BROKER, GROUP
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.server.rights import may_group
from penstock.server.share_partitions import SharePartitions
from penstock.server.share_sessions import ShareSession, ShareSessions
from penstock.server.share_settings import ShareSettings

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta
    from penstock.net.connection import Connection
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_FEATURE = "share.version"

MEMBER_ID_MAX = 36
"""Characters: members name themselves, with a uuid."""

SETTINGS_MAX = 10_000
"""Groups whose settings are kept at hand; who asks about more has them read again."""


SESSION_ROOM = 1_000
"""Partitions that a session may name whatever there is: its member may know of new ones earlier."""


class Shares:
    """Members' sessions, and the share partitions that this broker leads."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._settings: dict[str, ShareSettings] = {}
        self.sessions = ShareSessions(broker.config.get_int("group.share.max.share.sessions"))
        self.partitions = SharePartitions(broker, self.settings)

    # -- configuration ------------------------------------------------------------------------

    def settings(self, group_id: str) -> ShareSettings:
        """What a group's configuration says now."""
        found = self._settings.get(group_id)
        if found is None:
            if len(self._settings) >= SETTINGS_MAX:
                self._settings.clear()
            broker = self._broker
            found = ShareSettings.of(group_id, broker.image, broker.config)
            self._settings[group_id] = found
        return found

    def on_image(self, delta: MetadataDelta) -> None:
        """Take on changed configurations; leads come and go through `lead` and `lose`."""
        if delta.configs is None:
            return
        changed = {*delta.configs.changed, *delta.configs.removed}
        if any(kind in (GROUP, BROKER) for kind, _ in changed):
            self._settings.clear()
            self.partitions.reconfigure()

    # -- leading ------------------------------------------------------------------------------

    def lead(self, partition: Partition) -> None:
        """The broker leads a partition, perhaps one that it led before in another epoch."""
        self.partitions.lead(partition)

    def lose(self, partition: Partition) -> None:
        """The broker no longer leads a partition, or it is gone."""
        self.partitions.lose(partition)

    # -- sessions -----------------------------------------------------------------------------

    def bind(self, connection: Connection) -> None:
        """Have the sessions that are opened on a connection end with it."""
        if connection.on_lost is None:
            connection.on_lost = lambda: self._hung_up(connection)

    def _hung_up(self, connection: Connection) -> None:
        for session in self.sessions.end_of_line(connection):
            self._release(session, clean=False)

    def names_too_many(self, session: ShareSession) -> bool:
        """Whether a session names many more partitions than there are. Each of them is looked at,
        and answered, with each fetch, however small that is."""
        named = len(session.partitions)
        if named <= SESSION_ROOM:
            return False
        topics = self._broker.image.topics.by_id.values()
        return named > SESSION_ROOM + 2 * sum(len(topic.partitions) for topic in topics)

    def close_session(self, session: ShareSession) -> None:
        """A member says good-bye."""
        self.sessions.end(session)
        self._release(session, clean=True)

    def _release(self, session: ShareSession, *, clean: bool) -> None:
        group_id, member_id = session.member
        self.partitions.release(group_id, member_id, clean=clean)
        if not self.sessions.has_group(group_id):
            self.partitions.retire(group_id)

    def close(self) -> None:
        """The node stops."""
        self.partitions.close()


Refusal = tuple[ErrorCode, str | None]
"""An error and what it says."""


def refusal(
    broker: Broker, call: Call, group_id: str | None, member_id: str | None
) -> Refusal | None:
    """Why a member of a share group is not listened to, if it is not."""
    if broker.image.features.levels.get(_FEATURE, 0) < 1:
        return ErrorCode.UNSUPPORTED_VERSION, None
    if group_id is None:
        return ErrorCode.INVALID_REQUEST, "A share group has to be named."
    if not may_group(broker, call, Operation.READ, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED, None
    if not member_id or len(member_id) > MEMBER_ID_MAX:
        return ErrorCode.INVALID_REQUEST, f"A member id has 1 to {MEMBER_ID_MAX} characters."
    return None

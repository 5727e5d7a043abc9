"""The share partitions of a broker: one for each share group on each partition that it leads.

They come into being when a member first fetches, and go when the lead is lost, when the topic or
the group's state is gone, or when nobody has needed them for long: all that counts is with the
share coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.server.share_partition import SharePartition
from penstock.server.share_persister import ShareKey

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Iterable, Iterator

    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.share_sessions import Key
    from penstock.server.share_settings import ShareSettings

COUNT_MAX = 200_000
"""Share partitions that a broker drives; each takes a few kilobytes."""

SWEEP_MS = 60_000
IDLE_MS_MAX = 600_000


class SharePartitions:
    """Finds, makes and forgets drivers."""

    def __init__(self, broker: Broker, settings: Callable[[str], ShareSettings]) -> None:
        self._broker = broker
        self._settings = settings
        self._by_group: dict[str, dict[Key, SharePartition]] = {}
        self._by_partition: dict[Key, dict[str, SharePartition]] = {}
        self._count = 0
        self._sweeping: TimerHandle | None = None

    def __len__(self) -> int:
        return self._count

    def find(self, group_id: str, key: Key) -> SharePartition | None:
        """The driver of a group on a partition, if there is one."""
        of_group = self._by_group.get(group_id)
        return None if of_group is None else of_group.get(key)

    def find_or_make(self, group_id: str, key: Key) -> SharePartition | ErrorCode:
        """The driver of a group on a partition that this broker leads, or why there is none."""
        found = self.find(group_id, key)
        if found is not None and found.may_be_outdated:
            found.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif found is not None:
            found.retiring = False
            return found
        partition = self._broker.hosted_by_id.get(key)
        if partition is None:
            return self._broker.why_not_hosted(*key)
        if partition.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not partition.leading:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._count >= COUNT_MAX:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        made = SharePartition(
            self._broker, ShareKey(group_id, *key), partition, self._settings, self._forget
        )
        self._by_group.setdefault(group_id, {})[key] = made
        self._by_partition.setdefault(key, {})[group_id] = made
        self._count += 1
        if self._sweeping is None:
            self._sweeping = self._broker.loop.call_later(SWEEP_MS / 1000, self._sweep)
        return made

    def verify(self, group_id: str, keys: Iterable[Key]) -> None:
        """A member comes: what is known of these partitions may be out of date."""
        of_group = self._by_group.get(group_id, {})
        for key in keys if of_group else ():
            if (driver := of_group.get(key)) is not None:
                driver.verify()

    def release(self, group_id: str, member_id: str, *, clean: bool) -> None:
        """A member's session is over: what it holds, on whatever partition, is for others."""
        for driver in list(self._by_group.get(group_id, {}).values()):
            driver.release(member_id, clean=clean)

    def retire(self, group_id: str) -> None:
        """A group has no member here any more. Its state may be changed now from outside: the next
        member is to find it as it is then."""
        for driver in list(self._by_group.get(group_id, {}).values()):
            driver.retire()

    # -- the broker's changes -----------------------------------------------------------------

    def lead(self, partition: Partition) -> None:
        """The broker leads in a new epoch, or goes on leading."""
        for driver in list(self._of(partition)):
            if driver.leader_epoch != partition.leader_epoch or driver.partition is not partition:
                driver.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def lose(self, partition: Partition) -> None:
        """The broker leads no longer."""
        for driver in list(self._of(partition)):
            driver.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _of(self, partition: Partition) -> Iterator[SharePartition]:
        yield from self._by_partition.get((partition.topic_id, partition.index), {}).values()

    def reconfigure(self) -> None:
        """Groups' configurations may have changed."""
        for driver in self._all():
            driver.reconfigure()

    def close(self) -> None:
        """The node stops."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for driver in self._all():
            driver.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- forgetting ---------------------------------------------------------------------------

    def _all(self) -> list[SharePartition]:
        return [driver for drivers in self._by_group.values() for driver in drivers.values()]

    def _forget(self, driver: SharePartition) -> None:
        group_id, topic_id, index = driver.key
        key = (topic_id, index)
        if self.find(group_id, key) is not driver:
            return
        self._count -= 1
        of_group, of_partition = self._by_group[group_id], self._by_partition[key]
        del of_group[key], of_partition[group_id]
        if not of_group:
            del self._by_group[group_id]
        if not of_partition:
            del self._by_partition[key]

    def _sweep(self) -> None:
        """Forget what nobody has needed for long."""
        self._sweeping = None
        now = self._broker.clock.monotonic()
        for driver in self._all():
            since = driver.idle_since()
            if since is not None and now - since > IDLE_MS_MAX:
                driver.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._count:
            self._sweeping = self._broker.loop.call_later(SWEEP_MS / 1000, self._sweep)

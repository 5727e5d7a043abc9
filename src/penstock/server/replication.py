"""Followers at work: what this broker copies from the leaders of its partitions.

One fetcher for each leader and number (num.replica.fetchers) asks for all of its partitions at
once, in a fetch session, and puts what comes into their logs. What to do about each answer decides
`replica.fetching`; here it is done.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from zlib import crc32

from penstock.metadata.configs import BROKER
from penstock.replica.fetching import Following, State
from penstock.server.config_changes import layers_of
from penstock.server.fetcher import Fetcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.metadata.delta import MetadataDelta
    from penstock.replica.fetch_session import Key
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.storage.flush import GroupCommit

log = logging.getLogger("penstock.server")

NOBODY = -1


class Replication:
    """The fetchers of one broker."""

    def __init__(self, broker: Broker, commits: GroupCommit) -> None:
        self.broker = broker
        self.commits = commits
        self._count = broker.config.get_int("num.replica.fetchers")
        self._backoff_ms = broker.config.get_int("replica.fetch.backoff.ms")
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._places: dict[Key, Fetcher] = {}
        self._sweeping = False
        self._closed = False

    def follow(self, partition: Partition) -> None:
        """Copy a partition from its leader, from now on; nothing changes if that is so already."""
        key = partition.topic_id, partition.index
        place = self._places.get(key)
        known = None if place is None else place.following(key)
        if (
            known is not None
            and known.leader == partition.leader
            and known.epoch == partition.leader_epoch
        ):
            return
        self.leave(partition)
        if partition.leader == NOBODY or partition.offline or self._closed:
            return
        following = Following(partition.leader, partition.leader_epoch, self._backoff_ms)
        fetcher = self._places[key] = self._fetcher_for(partition)
        fetcher.add(key, partition, following)

    def _fetcher_for(self, partition: Partition) -> Fetcher:
        number = (31 * crc32(partition.topic.encode()) + partition.index) % self._count
        found = self._fetchers.get((partition.leader, number))
        if found is None:
            found = Fetcher(self.broker, self.commits, partition.leader, number)
            self._fetchers[partition.leader, number] = found
        return found

    def on_image(self, delta: MetadataDelta) -> None:
        """The number of fetchers may have changed: then all partitions find their places anew."""
        if delta.configs is None or not any(kind == BROKER for kind, _ in delta.configs.changed):
            return
        count = layers_of(self.broker).current.get_int("num.replica.fetchers")
        if count == self._count:
            return
        self._count = count
        followed = [partition for partition, _ in self.lags()]
        for partition in followed:
            self.leave(partition)
        for partition in followed:
            self.follow(partition)

    def leave(self, partition: Partition) -> None:
        """Copy a partition no more: it leads, is gone, has no leader, or is copied elsewhere."""
        key = partition.topic_id, partition.index
        place = self._places.pop(key, None)
        if place is None:
            return
        place.remove(key)
        if place.idle and not self._sweeping:
            # Soon: the next change of the same image may need it.
            self._sweeping = True
            self.broker.loop.call_soon(self._sweep)

    def lags(self) -> Iterator[tuple[Partition, Following]]:
        """Each partition that is copied, and how far it is behind."""
        for fetcher in self._fetchers.values():
            yield from fetcher.members()

    @property
    def failed(self) -> int:
        """Partitions that are not copied until their next leader epoch."""
        return sum(following.state is State.FAILED for _, following in self.lags())

    def close(self) -> None:
        """Stop all fetchers: the node stops."""
        self._closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._places.clear()

    def _sweep(self) -> None:
        self._sweeping = False
        for key, fetcher in list(self._fetchers.items()):
            if fetcher.idle:
                fetcher.close()
                del self._fetchers[key]

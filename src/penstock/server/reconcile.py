"""Making what a broker hosts equal to what the metadata says it should.

A change of a few partitions is done before the next request is served, so that a topic can be
used as soon as its creation is answered. A change of thousands is done in slices, between which
other clients are served.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from penstock.metadata.configs import BROKER, TOPIC
from penstock.metadata.topics import DIRECTORY_UNASSIGNED
from penstock.model.errors import ErrorCode
from penstock.model.ids import TopicPartition
from penstock.replica.partition import Partition
from penstock.server.topic_configs import log_config_of
from penstock.storage.store import NoDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import PartitionImage, TopicImage
    from penstock.server.broker import Broker
    from penstock.storage.flush import GroupCommit
    from penstock.storage.log import Log
    from penstock.storage.log_config import LogConfig

log = logging.getLogger("penstock.server")

SLICE_SECONDS = 0.02

_Step = tuple[str, bytes, int]
"""Name, topic id and index of a partition to bring in line with the image."""


class Reconciler:
    """Applies metadata changes to the partitions of one broker."""

    def __init__(self, broker: Broker, commits: GroupCommit) -> None:
        self._broker = broker
        self._commits = commits
        self._high_watermarks = broker.store.high_watermarks
        self._steps: OrderedDict[_Step, None] = OrderedDict()  # each once, first come first
        self._slicing = False
        self._started = False
        self._configs: object = None
        self._plain_config: LogConfig | None = None

    @property
    def settled(self) -> bool:
        """Whether the broker hosts what the newest image says."""
        return not self._steps

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Open, lead, follow, reconfigure and close, as the delta says."""
        if delta.topics is not None:
            for topic in delta.topics.deleted.values():
                self._enqueue(topic.name, topic.id, topic.partitions)
            for change in delta.topics.changed.values():
                self._enqueue(change.name, change.id, change.partitions)
        if delta.configs is not None:
            changed = set(delta.configs.changed) | delta.configs.removed
            self._reconfigure(image, changed)
        if self._started and not self._slicing:
            self._work()

    def start(self) -> None:
        """Begin to act. Until then images only add up.

        A node that comes back is fenced, loses what it leads and gets it again, within a moment:
        only the last word of it is worth acting on.
        """
        self._started = True
        self._work()

    def _enqueue(self, name: str, topic_id: bytes, indexes: Iterable[int]) -> None:
        for index in indexes:
            self._steps[(name, topic_id, index)] = None

    def set_aside_strays(self, image: MetadataImage) -> None:
        """Move logs away that the metadata does not know: never deleted, never served."""
        for key, found in list(self._broker.store.logs.items()):
            topic = image.topics.by_id.get(found.topic_id)
            known = topic is not None and topic.name == found.topic
            state = topic.partitions.get(found.partition) if topic and known else None
            if state is None or self._broker.node_id not in state.replicas:
                log.warning("%s is not in the metadata: set aside as a stray", found.directory)
                self._broker.store.set_aside(key)

    def _work(self) -> None:
        loop = self._broker.loop
        until = loop.time() + SLICE_SECONDS
        steps = self._steps
        while steps:
            (name, topic_id, index), _ = steps.popitem(last=False)
            try:
                self._settle(name, topic_id, index)
            except OSError as problem:
                # The store has taken the directory offline; the partition is refused by name.
                log.error("cannot open %s-%d: %s", name, index, problem)
            except Exception:
                # Our own fault in one partition: it is not served, and the others are.
                log.exception("cannot bring %s-%d in line with the metadata", name, index)
            if loop.time() >= until and steps:
                self._slicing = True
                loop.call_soon(self._work)
                return
        self._slicing = False

    # -- one partition ------------------------------------------------------------------------

    def _settle(self, name: str, topic_id: bytes, index: int) -> None:
        broker = self._broker
        topic = broker.image.topics.by_id.get(topic_id)
        state = None if topic is None else topic.partitions.get(index)
        if topic is None or state is None or broker.node_id not in state.replicas:
            self._close(topic_id, index)
            return
        partition = broker.hosted_by_id.get((topic_id, index))
        if partition is None:
            stale = broker.hosted.get((name, index))
            if stale is not None:
                self._close(stale.topic_id, index)  # deleted and created again under its name
            partition = self._open(topic, index, state)
        if state.leader == broker.node_id:
            broker.replication.leave(partition)
            partition.lead(
                state.leader_epoch,
                state.isr,
                state.replicas,
                partition_epoch=state.partition_epoch,
                recovering=state.recovering,
                now=broker.clock.monotonic(),
            )
            broker.shares.lead(partition)
            broker.delays.lead(partition)
            broker.coordinators.lead(partition)
        else:
            broker.shares.lose(partition)
            broker.delays.lose(partition)
            broker.coordinators.lose(partition)
            partition.follow(state.leader_epoch, state.leader, state.isr, state.replicas)
            broker.replication.follow(partition)

    def _open(self, topic: TopicImage, index: int, state: PartitionImage) -> Partition:
        broker = self._broker
        config = self._config_of(broker.image, topic.name)
        key = TopicPartition(topic.name, index)
        found: Log | None = broker.store.logs.get(key)
        if found is not None and found.topic_id != topic.id:
            broker.store.set_aside(key)
            found = None
        if found is None:
            self._check_new(key, state)
            found = broker.store.create(
                topic.name, index, topic.id, config, self._directory_for(state)
            )
        found.config = config
        partition = Partition(
            broker.node_id,
            found,
            self._high_watermarks.pop(key, found.start),
            self._commits,
            broker.isr_changes.peers,
        )
        broker.hosted[key] = partition
        broker.hosted_by_id[(topic.id, index)] = partition
        if key in broker.store.moves:
            broker.log_moves.wake()  # the last stop interrupted it
        return partition

    def _check_new(self, key: TopicPartition, state: PartitionImage) -> None:
        """NoDirectory if the log may lie in a directory that is offline: an empty one in another
        place would be taken for it, and all that it holds would be forgotten."""
        node_id = self._broker.node_id
        is_new = state.leader_epoch == 0 and state.partition_epoch == 0
        # A replica that nobody counts on may begin empty where its place is ours to choose.
        is_new = is_new or (
            state.directory_of(node_id) == DIRECTORY_UNASSIGNED
            and node_id not in (*state.isr, *state.elr, *state.last_known_elr)
        )
        if not is_new and not all(each.online for each in self._broker.store.directories):
            raise NoDirectory(errno.EIO, f"the log of {key} may be in a directory that is offline")

    def _directory_for(self, state: PartitionImage) -> bytes | None:
        # The metadata may name a directory, or say that the choice is ours.
        wanted = state.directory_of(self._broker.node_id)
        known = {each.uuid for each in self._broker.store.directories}
        return wanted if wanted in known else None

    def _close(self, topic_id: bytes, index: int) -> None:
        broker = self._broker
        partition = broker.hosted_by_id.pop((topic_id, index), None)
        if partition is None:
            return
        key = TopicPartition(partition.topic, index)
        if broker.hosted.get(key) is partition:
            del broker.hosted[key]
        broker.shares.lose(partition)
        broker.delays.lose(partition)
        broker.coordinators.lose(partition)
        broker.replication.leave(partition)
        partition.leading = False
        partition.release_all(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if broker.store.logs.get(key) is partition.log:  # else it went with its directory
            broker.store.delete(key)
        broker.on_deleted(key)

    # -- configuration ------------------------------------------------------------------------

    def _config_of(self, image: MetadataImage, name: str) -> LogConfig:
        """A topic's configuration; topics that set nothing themselves share one."""
        if self._configs is not image.configs:
            self._configs = image.configs
            self._plain_config = None
        if image.configs.of(TOPIC, name):
            return log_config_of(self._broker.config, image, name)
        if self._plain_config is None:
            self._plain_config = log_config_of(self._broker.config, image, name)
        return self._plain_config

    def _reconfigure(self, image: MetadataImage, changed: set[tuple[int, str]]) -> None:
        broker = self._broker
        if any(kind == BROKER for kind, _ in changed):
            names = {partition.topic for partition in broker.hosted.values()}
        else:
            names = {name for kind, name in changed if kind == TOPIC}
        for name in names:
            topic = image.topics.by_name.get(name)
            if topic is None:
                continue
            config = self._config_of(image, name)
            for index in topic.partitions:
                partition = broker.hosted_by_id.get((topic.id, index))
                if partition is not None:
                    partition.reconfigure(config)


async def settle(reconciler: Reconciler) -> None:
    """Wait until all slices are done."""
    while not reconciler.settled:
        await asyncio.sleep(0.005)

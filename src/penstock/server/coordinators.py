"""The coordinators of a broker: runtimes of groups, transactions and shares over its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.group.settings import GroupSettings
from penstock.coordination.group.shard import GroupShard
from penstock.coordination.runtime import Runtime
from penstock.coordination.share.settings import ShareSettings
from penstock.coordination.share.shard import ShareShard
from penstock.coordination.txn.settings import TxnSettings
from penstock.coordination.txn.shard import TxnShard
from penstock.protocol.record_frames import GROUP, SHARE, TRANSACTION
from penstock.server.dead_letters import DeadLetters
from penstock.server.group_errands import GroupErrands
from penstock.server.internal_topics import (
    GROUPS_TOPIC,
    SHARES_TOPIC,
    TRANSACTIONS_TOPIC,
    InternalTopics,
)
from penstock.server.share_persister import SharePersister
from penstock.server.share_pruning import SharePruning
from penstock.server.streams_topics import StreamsTopics
from penstock.server.txn_first_batches import Verifications
from penstock.server.txn_markers import MarkerWriter
from penstock.server.txn_questions import CoordinatorQuestions
from penstock.server.txn_remote_markers import RemoteMarkers

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker


class Coordinators:
    """Leads and loses shards as the broker leads and loses partitions of internal topics."""

    def __init__(self, broker: Broker) -> None:
        config = broker.config
        settings = GroupSettings.of(config)
        self._group_errands = GroupErrands(broker)
        self.groups: Runtime[GroupShard] = Runtime(
            GROUPS_TOPIC,
            GROUP,
            lambda index: GroupShard(index, settings, broker.chance),
            broker.clock,
            broker.workers,
            config.get_int("offsets.load.buffer.size"),
            on_errand=self._group_errands.run,
            commit_ms_max=config.get_int("offsets.commit.timeout.ms"),
        )
        txn_settings = TxnSettings.of(config)
        self._remote_markers = RemoteMarkers(broker)
        self._markers = MarkerWriter(broker, self._remote_markers.send)
        self.transactions: Runtime[TxnShard] = Runtime(
            TRANSACTIONS_TOPIC,
            TRANSACTION,
            lambda index: TxnShard(index, txn_settings, broker.producer_ids.take),
            broker.clock,
            broker.workers,
            config.get_int("transaction.state.log.load.buffer.size"),
            on_errand=self._markers.run,
            commit_ms_max=config.get_int("request.timeout.ms"),
        )
        share_settings = ShareSettings.of(config)
        self.shares: Runtime[ShareShard] = Runtime(
            SHARES_TOPIC,
            SHARE,
            lambda index: ShareShard(index, share_settings),
            broker.clock,
            broker.workers,
            config.get_int("share.coordinator.load.buffer.size"),
            on_errand=SharePruning(broker).run,
            commit_ms_max=config.get_int("share.coordinator.write.timeout.ms"),
        )
        self.persister = SharePersister(broker)
        self.dead_letters = DeadLetters(broker)
        self.topics = InternalTopics(broker)
        self.streams_topics = StreamsTopics(broker)
        self.verifications = Verifications()
        self.questions = CoordinatorQuestions(broker)
        self._by_topic: dict[str, Runtime[Any]] = {
            GROUPS_TOPIC: self.groups,
            TRANSACTIONS_TOPIC: self.transactions,
            SHARES_TOPIC: self.shares,
        }

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """After the broker has become what the image says."""
        if delta.cluster is not None:
            self._remote_markers.on_image(image)
            self.questions.on_image(image)
            self.persister.on_image(image)
            self.dead_letters.on_image(image)
        for runtime in self._by_topic.values():
            runtime.on_image(image, delta)

    def lead(self, partition: Partition) -> None:
        """The broker leads a partition, perhaps one that it led before."""
        runtime = self._by_topic.get(partition.topic)
        if runtime is not None:
            runtime.lead(partition)

    def lose(self, partition: Partition) -> None:
        """The broker no longer leads a partition, or it is gone."""
        runtime = self._by_topic.get(partition.topic)
        if runtime is not None:
            runtime.lose(partition.index)

    def close(self) -> None:
        """The node stops."""
        self.topics.close()
        self.streams_topics.close()
        self._group_errands.close()
        self._markers.close()
        self._remote_markers.close()
        self.verifications.close()
        self.questions.close()
        self.persister.close()
        self.dead_letters.close()
        for runtime in self._by_topic.values():
            runtime.close()

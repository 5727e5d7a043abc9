"""A controller to ask, with as many brokers as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.controller.brokers import fence_stale
from penstock.controller.config_rules import ConfigRules
from penstock.controller.decision import Context, Decision, Settings
from penstock.controller.machine import Controller
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY
from penstock.metadata.levels import DEFAULT_LEVELS, SUPPORTED
from penstock.metadata.topics import PartitionImage
from penstock.model.config.node import NodeConfig
from penstock.model.ids import Millis, Uuid
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import broker_registration
from penstock.protocol.generated import create_topics as ct
from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from penstock.raft.format import feature_records
from penstock.security.principal import ANONYMOUS

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"


def node_config() -> NodeConfig:
    return NodeConfig.of(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "/tmp/none",
        }
    )


class Dice:
    """Randomness that repeats itself."""

    def __init__(self) -> None:
        self._drawn = 0

    def between(self, low: int, high: int) -> int:
        self._drawn += 1
        return low + self._drawn * 7919 % (high - low + 1)

    def uuid(self) -> Uuid:
        self._drawn += 1
        return Uuid(b"\x77" + self._drawn.to_bytes(15, "big"))

    def token_bytes(self, count: int) -> bytes:
        self._drawn += 1
        return self._drawn.to_bytes(count, "big")


class Stage:
    """Asks the machine and takes what it decides as committed."""

    def __init__(
        self, brokers: int = 1, racks: Sequence[str | None] | None = None, **settings: Any
    ) -> None:
        self.now = 1_000
        self.wall = 1_800_000_000_000
        self.principal = ANONYMOUS
        self.offset = 0
        self.chance = Dice()
        # Node 0 is no broker: every broker is somebody else's, and can be fenced.
        chosen = Settings(CLUSTER, 0, **settings)
        self.machine = Controller(chosen, ConfigRules(node_config()))
        self.take(feature_records(DEFAULT_LEVELS))
        self.epochs: dict[int, int] = {}
        for broker in range(1, brokers + 1):
            rack = racks[broker - 1] if racks else None
            assert self.register(broker, rack=rack).error_code == 0
            self.beat(broker)

    @property
    def image(self) -> Any:
        return self.machine.image

    def take(self, records: Sequence[Any]) -> None:
        if records:
            self.offset += len(records)
            self.machine.apply(records, self.offset - 1, 1)

    def decide(self, api: ApiKey, request: Any, version: int = 100) -> Decision:
        return self.machine.decide(
            int(api),
            request,
            now=Millis(self.now),
            chance=self.chance,
            next_offset=self.offset,
            version=version,
            wall=Millis(self.wall),
            principal=self.principal,
        )

    def ask(self, api: ApiKey, request: Any, version: int = 100) -> Any:
        decision = self.decide(api, request, version)
        self.take(decision.records)
        return decision.response

    def tick(self, work: Callable[[Context], Decision | None] = fence_stale) -> Decision | None:
        """Let time bring about what it does: a silent broker is fenced, unless told otherwise."""
        decision = self.machine.chore(
            work,
            now=Millis(self.now),
            chance=self.chance,
            next_offset=self.offset,
            wall=Millis(self.wall),
        )
        if decision is not None:
            self.take(decision.records)
        return decision

    # -- brokers ----------------------------------------------------------------------------------

    def registration(self, broker: int, **fields: Any) -> Any:
        defaults: dict[str, Any] = {
            "cluster_id": CLUSTER,
            "incarnation_id": bytes([broker]) * 16,
            "listeners": [broker_registration.Listener(name="PLAINTEXT", host="h", port=9092)],
            "features": [
                broker_registration.Feature(
                    name=name, min_supported_version=span.first, max_supported_version=span.last
                )
                for name, span in SUPPORTED.items()
            ],
            "log_dirs": [bytes([100 + broker]) * 16],
        }
        return broker_registration.BrokerRegistrationRequest(
            broker_id=broker, **{**defaults, **fields}
        )

    def register(self, broker: int, **fields: Any) -> Any:
        response = self.ask(ApiKey.BROKER_REGISTRATION, self.registration(broker, **fields))
        if not response.error_code:
            self.epochs[broker] = response.broker_epoch
        return response

    def beat(self, broker: int, **fields: Any) -> Any:
        defaults: dict[str, Any] = {
            "broker_epoch": self.epochs[broker],
            "current_metadata_offset": self.offset,
        }
        request = BrokerHeartbeatRequest(broker_id=broker, **{**defaults, **fields})
        return self.ask(ApiKey.BROKER_HEARTBEAT, request)

    # -- topics -----------------------------------------------------------------------------------

    def create(self, *topics: ct.CreatableTopic, **fields: Any) -> list[ct.CreatableTopicResult]:
        request = ct.CreateTopicsRequest(topics=list(topics), **fields)
        results: list[ct.CreatableTopicResult] = self.ask(ApiKey.CREATE_TOPICS, request).topics
        return results

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        found: PartitionImage = self.image.topics.by_name[topic].partitions[index]
        return found


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> ct.CreatableTopic:
    return ct.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            ct.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def manual(name: str, *assignments: list[int], **fields: Any) -> ct.CreatableTopic:
    return ct.CreatableTopic(
        name=name,
        num_partitions=fields.pop("num_partitions", -1),
        replication_factor=fields.pop("replication_factor", -1),
        assignments=[
            ct.CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in enumerate(assignments)
        ],
    )


def folded(records: Sequence[Any]) -> Any:
    """The image that records make on their own."""
    return MetadataDelta(EMPTY).replay_all(records).apply(1, 1)

"""Brokers and controllers as they registered themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.layers import merged
from penstock.metadata.levels import CONTROLLER_REGISTRATION_FROM, LevelRange
from penstock.model.invariants import invariant
from penstock.protocol.generated.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Endpoint(NamedTuple):
    """Where a node listens; `security` is Kafka's number (0 PLAINTEXT ... 3 SASL_SSL)."""

    name: str
    host: str
    port: int
    security: int


class BrokerImage(NamedTuple):
    """A broker's registration."""

    id: int
    incarnation: bytes
    epoch: int
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, LevelRange]
    rack: str | None = None
    fenced: bool = True
    shutting_down: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned: tuple[bytes, ...] | None = None
    """Directories that take no new replicas; None until the broker has said."""
    migrating: bool = False

    @property
    def active(self) -> bool:
        """May lead, and may be in an ISR."""
        return not self.fenced and not self.shutting_down

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((e for e in self.endpoints if e.name == listener), None)

    def record(self) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=self.id,
            is_migrating_zk_broker=self.migrating,
            incarnation_id=self.incarnation,
            broker_epoch=self.epoch,
            end_points=[
                BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security)
                for e in self.endpoints
            ],
            features=[
                BrokerFeature(
                    name=name, min_supported_version=span.first, max_supported_version=span.last
                )
                for name, span in self.features.items()
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.shutting_down,
            log_dirs=list(self.directories),
            cordoned_log_dirs=None if self.cordoned is None else list(self.cordoned),
        )


class ControllerImage(NamedTuple):
    """A controller's registration."""

    id: int
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, LevelRange]
    zk_migration_ready: bool = False

    def record(self) -> RegisterControllerRecord:
        return RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation,
            zk_migration_ready=self.zk_migration_ready,
            end_points=[
                ControllerEndpoint(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security
                )
                for e in self.endpoints
            ],
            features=[
                ControllerFeature(
                    name=name, min_supported_version=span.first, max_supported_version=span.last
                )
                for name, span in self.features.items()
            ],
        )


def _endpoints(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points)


def _features(record: RegisterBrokerRecord | RegisterControllerRecord) -> dict[str, LevelRange]:
    return {
        f.name: LevelRange(f.min_supported_version, f.max_supported_version)
        for f in record.features
    }


class ClusterImage:
    """Every registered broker and controller."""

    __slots__ = ("brokers", "controllers")

    def __init__(
        self,
        brokers: Mapping[int, BrokerImage] | None = None,
        controllers: Mapping[int, ControllerImage] | None = None,
    ) -> None:
        self.brokers: Mapping[int, BrokerImage] = brokers if brokers is not None else {}
        self.controllers: Mapping[int, ControllerImage] = (
            controllers if controllers is not None else {}
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ClusterImage)
            and self.brokers == other.brokers
            and self.controllers == other.controllers
        )

    __hash__ = None  # type: ignore[assignment]

    def active(self, node_id: int) -> bool:
        """Whether a broker is registered, unfenced and not on its way out."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.active

    def records(
        self, metadata_version: int
    ) -> Iterator[RegisterBrokerRecord | RegisterControllerRecord]:
        if metadata_version >= CONTROLLER_REGISTRATION_FROM:
            for controller in self.controllers.values():
                yield controller.record()
        for broker in self.brokers.values():
            yield broker.record()


class ClusterDelta:
    """Registrations that changed: the new state, or None for a node that left."""

    __slots__ = ("brokers", "controllers", "image")

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.brokers: dict[int, BrokerImage | None] = {}
        self.controllers: dict[int, ControllerImage | None] = {}

    def register_broker(self, record: RegisterBrokerRecord) -> None:
        cordoned = record.cordoned_log_dirs
        self.brokers[record.broker_id] = BrokerImage(
            record.broker_id,
            record.incarnation_id,
            record.broker_epoch,
            _endpoints(record),
            _features(record),
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            tuple(record.log_dirs),
            None if cordoned is None else tuple(cordoned),
            record.is_migrating_zk_broker,
        )

    def unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self.brokers[record.broker_id] = None

    def fence(self, record: FenceBrokerRecord) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch)._replace(fenced=True)

    def unfence(self, record: UnfenceBrokerRecord) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch)._replace(fenced=False)

    def change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(shutting_down=True)
        if record.log_dirs:
            broker = broker._replace(directories=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned=tuple(record.cordoned_log_dirs))
        self.brokers[record.broker_id] = broker

    def register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = ControllerImage(
            record.controller_id,
            record.incarnation_id,
            _endpoints(record),
            _features(record),
            record.zk_migration_ready,
        )

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        found = self.brokers.get(broker_id, self.image.brokers.get(broker_id))
        invariant(found is not None, f"change of broker {broker_id}, which is not registered")
        assert found is not None
        invariant(found.epoch == epoch, f"change of broker {broker_id} at another epoch")
        return found

    def apply(self) -> ClusterImage:
        return ClusterImage(
            merged(self.image.brokers, self.brokers),
            merged(self.image.controllers, self.controllers),
        )

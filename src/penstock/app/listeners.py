"""The sockets of a node: taken before anything else starts, opened when there is who answers."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

from penstock.app.admission import Admissions, bounds_of, listener_bounds
from penstock.app.problems import CannotStart
from penstock.metadata.configs import BROKER
from penstock.model.config.layers import BrokerLayers
from penstock.net.buffers import BufferPool
from penstock.net.listener import Limits, Listener
from penstock.server.apis import CONTROLLER_HANDLERS, HANDLERS
from penstock.server.dispatch import Dispatcher
from penstock.server.topic_configs import EVERY_BROKER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.app.security import Security
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.model.config.endpoints import Listener as ListenerConfig
    from penstock.model.config.node import NodeConfig
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.app")

RECEIVE_BYTES_MAX = 512 * 1024 * 1024
"""Memory for requests that have not arrived whole, unless queued.max.request.bytes says less."""


class Listeners:
    """Those for clients and brokers, and those for the quorum."""

    def __init__(self, config: NodeConfig, security: Security) -> None:
        self._config = config
        self._security = security
        self._all: list[Listener] = []
        self._admissions = Admissions(config)

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._all)

    @property
    def for_clients(self) -> list[Listener]:
        names = self._config.controller_listener_names
        return [each for each in self._all if each.name not in names]

    @property
    def for_the_quorum(self) -> list[Listener]:
        names = self._config.controller_listener_names
        return [each for each in self._all if each.name in names]

    def bind(self) -> None:
        """Take every address; CannotStart if one cannot be had."""
        config = self._config
        wanted = config.get_int("queued.max.request.bytes")
        pool = BufferPool(wanted if wanted > 0 else RECEIVE_BYTES_MAX)
        for spec in config.listeners:
            tls = self._security.tls(spec)
            admission = self._admissions.of(spec.name)
            listener = Listener(spec.name, pool, self._limits(spec), tls, admission)
            try:
                listener.bind(spec.host, spec.port)
            except OSError as problem:
                raise CannotStart(
                    f"cannot listen on {spec.host}:{spec.port} ({spec.name}): {problem.strerror}; "
                    "stop what uses the address, or choose another port"
                ) from problem
            self._all.append(listener)

    def _limits(self, spec: ListenerConfig) -> Limits:
        config = self._config

        def integer(name: str) -> int:
            value = config.for_listener(spec.name, name)
            assert isinstance(value, int)
            return value

        connections_max, per_second_max = listener_bounds(config, spec.name)
        return Limits(
            frame_bytes_max=integer("socket.request.max.bytes"),
            stranger_frame_bytes_max=integer("sasl.server.max.receive.size"),
            connections_max=connections_max,
            per_second_max=per_second_max,
            idle_ms_max=integer("connections.max.idle.ms"),
            backlog=integer("socket.listen.backlog.size"),
            # Kafka's default of 100 KB holds a connection below what one read could bring. Left
            # alone, the kernel sizes the buffers by what the connection really does.
            send_buffer_bytes=_if_set(config, "socket.send.buffer.bytes"),
            receive_buffer_bytes=_if_set(config, "socket.receive.buffer.bytes"),
        )

    def answer_with(self, broker: Broker) -> None:
        """Who answers; to be said before any is started."""
        broker.judge_keys = self._security.judge
        broker.quotas.on_addresses = self._admissions.for_clients.grant_rates
        entrances = {spec.name: self._security.entrance(spec) for spec in self._config.listeners}
        for listener in self.for_clients:
            listener.service = Dispatcher(broker, HANDLERS, entrances[listener.name])
        for listener in self.for_the_quorum:
            listener.service = Dispatcher(broker, CONTROLLER_HANDLERS, entrances[listener.name])

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Some bounds, and keys, can be altered while the node runs."""
        if delta.configs is None:
            return
        if all(kind != BROKER for kind, _ in {*delta.configs.changed, *delta.configs.removed}):
            return
        own = image.configs.of(BROKER, str(self._config.node_id))
        layers = BrokerLayers(self._config, own, image.configs.of(BROKER, EVERY_BROKER))
        config = layers.current
        self._security.on_config(config)
        try:
            bounds = bounds_of(config, looks_up=False)
        except CannotStart as problem:
            log.warning("bounds on connections stay as they are: %s", problem)
            return
        for listener in self._all:
            listener.admission.bounds = bounds
            listener.admission.adjust(listener.name, *listener_bounds(config, listener.name))

    def with_ports(self, listeners: Iterable[ListenerConfig]) -> list[ListenerConfig]:
        """Listeners with the names and ports that were really taken."""
        ports = {listener.name: listener.port for listener in self._all}
        return [
            spec._replace(
                host=spec.host or socket.getfqdn(),
                port=spec.port or ports.get(spec.name, 0),
            )
            for spec in listeners
        ]


def _if_set(config: NodeConfig, name: str) -> int:
    return config.get_int(name) if config.is_set(name) else -1

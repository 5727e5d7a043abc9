"""What configuration says about who may come in, with bounds where Kafka has none."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from penstock.app.problems import CannotStart
from penstock.model.config.problems import shortened
from penstock.net.admission import INT_MAX, Admission, Bounds
from penstock.platform.open_files import connections_share, raise_limit

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig

_OTHERS_SHARE = 10
"""One part in so many is left for others by an address, unless max.connections.per.ip is set."""


class Admissions:
    """Of a node: for clients and brokers, and for the quorum, which is not kept out by them."""

    def __init__(self, config: NodeConfig) -> None:
        bounds = bounds_of(config)
        self.for_clients = Admission(bounds, config.inter_broker_listener_name)
        self.for_the_quorum = Admission(bounds)
        self._quorum = config.controller_listener_names

    def of(self, listener: str) -> Admission:
        """The one that counts for a listener."""
        return self.for_the_quorum if listener in self._quorum else self.for_clients


def bounds_of(config: NodeConfig, *, looks_up: bool = True) -> Bounds:
    """What a node grants in all; CannotStart if that makes no sense.

    Names of hosts are looked up, which takes time: a node that runs knows addresses only.
    """
    connections_max = _connections_max(config)
    per_address_max = config.get_int("max.connections.per.ip")
    if not config.is_set("max.connections.per.ip"):
        per_address_max = connections_max - connections_max // _OTHERS_SHARE
    return Bounds(
        connections_max=connections_max,
        connections_per_address_max=per_address_max,
        overrides=_overrides(config.get_str("max.connections.per.ip.overrides") or "", looks_up),
        per_second_max=config.get_int("max.connection.creation.rate"),
        samples=config.get_int("quota.window.num"),
        sample_ms=1000 * config.get_int("quota.window.size.seconds"),
    )


def listener_bounds(config: NodeConfig, listener: str) -> tuple[int, float]:
    """Connections, and new ones a second, that one listener grants."""
    connections_max = config.for_listener(listener, "max.connections")
    per_second_max = config.for_listener(listener, "max.connection.creation.rate")
    assert isinstance(connections_max, int)
    assert isinstance(per_second_max, int)
    if connections_max == INT_MAX:
        connections_max = _connections_max(config)
    return connections_max, per_second_max


def _connections_max(config: NodeConfig) -> int:
    """As many as there are descriptors for them, unless somebody chose a number."""
    if config.is_set("max.connections"):
        return config.get_int("max.connections")
    return connections_share(raise_limit())


def _overrides(text: str, looks_up: bool) -> dict[str, int]:
    """HOST:COUNT, and so on; a host counts by its addresses."""
    found: dict[str, int] = {}
    flags = 0 if looks_up else socket.AI_NUMERICHOST
    for each in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = each.rpartition(":")
        try:
            addresses = socket.getaddrinfo(
                host.strip("[]"), None, type=socket.SOCK_STREAM, flags=flags
            )
            found.update((str(address[4][0]), int(count)) for address in addresses)
        except (OSError, ValueError) as problem:  # ValueError: no name, or no number, can be so
            reason = getattr(problem, "strerror", None) or "it cannot be read"
            raise CannotStart(
                f"max.connections.per.ip.overrides names {shortened(host)}, which has no address "
                f"or no count: {reason}"
            ) from problem
    return found

"""For tests, ours and other people's: an embedded broker, a pytest plugin, checkers.

Shipped. Owns what a test needs around a node; never a node's inside, which it reaches over the wire
like anyone else. Enter at `Broker` and `Cluster`, or in pytest at the fixtures of `plugin`:

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.testing.broker import Broker as Broker
    from penstock.testing.broker import BrokerFailed as BrokerFailed
    from penstock.testing.cluster import Cluster as Cluster

__all__ = ["Broker", "BrokerFailed", "Cluster"]


def __getattr__(name: str) -> object:
    # Found at first use: the broker's own process passes through this package too, and every
    # millisecond of its start is waited for by somebody's test.
    if name in __all__:
        from penstock.testing import broker, cluster

        return getattr(cluster if name == "Cluster" else broker, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Penstock: an event-streaming platform that speaks the Apache Kafka protocol.

The rooms, from the ground up: `model`, `platform`, `protocol`, `records`, `storage` and `net`,
`metadata`, `raft`, `controller` and `replica`, `coordination`, `server`, `app`, `cli`, `testing`.
A room imports only rooms named before it; docs/architecture.md is the map.
"""

from penstock.version import VERSION as __version__

__all__ = ["__version__"]

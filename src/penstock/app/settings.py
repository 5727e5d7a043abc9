"""What `penstock up` means in Kafka's own keys."""

from __future__ import annotations

import socket
from collections.abc import Mapping

ANY_ADDRESS = ("", "0.0.0.0", "::")


def settings_for_up(
    data: str, host: str, port: int, overrides: Mapping[str, str], protocol: str = "PLAINTEXT"
) -> dict[str, str]:
    """One node that is broker and controller, on this machine. `overrides` win.

    The listener for clients bears the name of its `protocol`.
    """
    address = f"[{host}]" if ":" in host else host
    # Clients cannot connect to "any address": those who listen on it are known by name.
    name = socket.gethostname() if host in ANY_ADDRESS else address
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"{protocol}://{address}:{port},CONTROLLER://localhost:0",
        "advertised.listeners": f"{protocol}://{name}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@localhost:{port or 9093}",
        "log.dirs": data,
        # One node: nobody else could hold a copy of what coordinators write down.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # On one machine members start together or not at all: waiting three seconds for more of
        # them would only make the first consumer slow.
        "group.initial.rebalance.delay.ms": "0",
        **overrides,
    }

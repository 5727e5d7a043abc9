"""What `penstock up` means in Kafka's own keys."""

from __future__ import annotations

from collections.abc import Mapping


def settings_for_up(
    data: str, host: str, port: int, overrides: Mapping[str, str]
) -> dict[str, str]:
    """One node that is broker and controller, on this machine. `overrides` win."""
    address = f"[{host}]" if ":" in host else host
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{address}:{port},CONTROLLER://{address}:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{address}:{port}",
        "log.dirs": data,
        **overrides,
    }

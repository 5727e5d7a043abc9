"""Several brokers on one machine as one cluster: `penstock up --brokers N`.

A broker is one process with one event loop, so a machine with more cores runs more brokers. They
share the machine's fate, and its name is their rack: replicas of a partition go to other machines
where there are any. Of up to two brokers the first one is the controller; of more, the first three
are, and the cluster goes on while one of them is started again.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from penstock.app import COMPANY_NOTE
from penstock.app.secure import BROKERS, PROTOCOL
from penstock.app.settings import settings_for_up
from penstock.model.ids import uuid_text
from penstock.platform.chance import SystemChance
from penstock.platform.clock import SystemClock
from penstock.platform.disk import Disk
from penstock.raft.format import Formatter, Identity
from penstock.storage.checkpoints import META_PROPERTIES, format_properties, parse_properties

if TYPE_CHECKING:
    from penstock.app.secure import Secured
    from penstock.protocol.generated.metadata_records import UserScramCredentialRecord

BROKERS_MAX = 64
CONTROLLERS = 3
CONTROLLER_PORTS_AWAY = 10_000
"""How far a controller's port is from the first broker's: 19092 and on for 9092. The listeners that
brokers have for each other, where they are secured, are as far again: 29092 and on."""
_REPLICATION = "default.replication.factor"


class CannotForm(ValueError):
    """The directory or the numbers do not fit; the message says what to do."""


class Member(NamedTuple):
    """One broker of the company."""

    node_id: int
    settings: Mapping[str, str]


def members(
    count: int,
    data: str,
    host: str,
    port: int,
    overrides: Mapping[str, str],
    secured: Secured | None = None,
) -> list[Member]:
    """The settings of each broker, its directory made ready. CannotForm if that cannot be.

    Those that are `secured` talk to each other on a listener of their own, by certificates.
    """
    if not 1 < count <= BROKERS_MAX:
        raise CannotForm(f"{count} brokers: give 2 to {BROKERS_MAX}, or leave --brokers out")
    cluster_id, voters = _found(count, data)
    ports, voter_ports, inner_ports = _ports(count, voters, port, inner=secured is not None)
    quorum = ",".join(f"{node}@localhost:{voter_ports[node]}" for node in sorted(voter_ports))
    credentials = [] if secured is None else secured.credentials()
    made = []
    for node in range(1, count + 1):
        directory = os.path.join(data, f"broker.{node}")
        protocol = "PLAINTEXT" if secured is None else PROTOCOL
        settings = settings_for_up(directory, host, ports[node - 1], {}, protocol)
        if node in voter_ports:
            listener = f"CONTROLLER://localhost:{voter_ports[node]}"
            settings["listeners"] = settings["listeners"].replace(
                "CONTROLLER://localhost:0", listener
            )
        else:
            settings["process.roles"] = "broker"
            settings["listeners"] = settings["listeners"].partition(",")[0]
        if secured is not None:
            listener = f",{BROKERS}://localhost:{inner_ports[node - 1]}"
            settings["listeners"] += listener
            settings["advertised.listeners"] += listener
            settings |= {**secured.settings(), "inter.broker.listener.name": BROKERS}
        settings["node.id"] = str(node)
        settings["controller.quorum.voters"] = quorum
        settings["broker.rack"] = socket.gethostname()
        # Who dies is started again at once, and may come back when its session is over.
        settings["broker.session.timeout.ms"] = "3000"
        settings["broker.heartbeat.interval.ms"] = "500"
        settings |= _replication(overrides)
        made.append(Member(node, {**settings, **overrides}))
        _format(directory, cluster_id, node, credentials)
    return made


def _found(count: int, data: str) -> tuple[str, int]:
    """The cluster's id and how many vote, as they were chosen when the directory was new."""
    if os.path.exists(os.path.join(data, META_PROPERTIES)):
        raise CannotForm(f"{data} holds the data of one broker: give another --data")
    path = os.path.join(data, COMPANY_NOTE)
    try:
        with open(path) as file:
            known = parse_properties(file.read())
    except FileNotFoundError:
        cluster_id = uuid_text(SystemChance().uuid())
        voters = CONTROLLERS if count >= CONTROLLERS else 1
        note = format_properties({"cluster.id": cluster_id, "controllers": str(voters)})
        disk = Disk()
        disk.mkdir(data)
        disk.write_atomic(path, note.encode())
        return cluster_id, voters
    voters = int(known["controllers"])
    if count < voters:
        raise CannotForm(
            f"{data} holds a cluster with {voters} controllers, which needs as many brokers: "
            f"give --brokers {voters} or more"
        )
    return known["cluster.id"], voters


def _ports(
    count: int, voters: int, port: int, *, inner: bool
) -> tuple[list[int], dict[int, int], list[int]]:
    """Those of the brokers, those of the voters by id, and the brokers' for each other."""
    if port == 0:
        free = _free_ports(2 * count + voters)
        return free[:count], dict(enumerate(free[2 * count :], 1)), free[count : 2 * count]
    away = CONTROLLER_PORTS_AWAY
    if port + away * (2 if inner else 1) + count > 65536:
        away = -away
    if port + count > 65536 or port + away * (2 if inner else 1) < 1:
        raise CannotForm(f"port {port} leaves no room for {count} brokers: give a lower --port")
    ports = list(range(port, port + count))
    voter_ports = {node: port + away + node - 1 for node in range(1, voters + 1)}
    return ports, voter_ports, [each + 2 * away for each in ports]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]


def _replication(overrides: Mapping[str, str]) -> dict[str, str]:
    """What coordinators write down is kept as often as topics are by default."""
    replicas = overrides.get(_REPLICATION, "1")
    in_sync = overrides.get("min.insync.replicas", "1")
    return {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _format(
    directory: str,
    cluster_id: str,
    node_id: int,
    credentials: Sequence[UserScramCredentialRecord],
) -> None:
    disk = Disk()
    identity = Identity(cluster_id, node_id, credentials=credentials)
    formatter = Formatter(disk, [directory], directory)
    for each in formatter.unformatted(identity):
        formatter.format(each, identity, SystemClock().now(), SystemChance())

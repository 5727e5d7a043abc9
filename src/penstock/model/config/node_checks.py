"""Checks across several keys of a node's configuration.

Each check yields problems, so that an operator sees all of them at once. The order follows the
keys' weight: who the node is, where it listens, then sizes and times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import cast

from penstock.model.config.endpoints import SECURITY_PROTOCOLS, Listener, listener_parts
from penstock.model.config.groups import bound_problems
from penstock.model.config.node import NodeConfig
from penstock.model.config.problems import Problem

_UNROUTABLE = "0.0.0.0"
_HOST = r"[0-9a-zA-Z\-._:%\[\]]+"
_CLEANER_BUFFER_BYTES_MIN = 1 << 20
_LOCAL_FOLLOWS_TOTAL = -2


def check_node(config: NodeConfig) -> list[Problem]:
    """Everything that does not go together; empty if all is well."""
    problems = [problem for check in _FIRST for problem in check(config)]
    if problems:
        return problems  # listeners that do not parse would show up again as missing ones
    return [problem for check in _THEN for problem in check(config)]


def _problem(config: NodeConfig, key: str, reason: str) -> Problem:
    return Problem(key, reason, config.line_of(key))


def _identity(config: NodeConfig) -> Iterator[Problem]:
    if config["broker.id"] != config["node.id"]:
        yield _problem(
            config, "broker.id", "broker.id and node.id must be the same, if both are set."
        )
    if config.is_set("config.providers"):
        yield _problem(
            config,
            "config.providers",
            "config.providers is not supported yet: write the values in place of ${...}.",
        )


def _protocol_map(config: NodeConfig) -> Iterator[Problem]:
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in (config.get_str(key) or "").split(","):
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        if not entry.strip():
            continue
        if not colon or not name or protocol.upper() not in SECURITY_PROTOCOLS:
            expected = f"expected NAME:PROTOCOL, with a protocol of {', '.join(SECURITY_PROTOCOLS)}"
            yield _problem(config, key, f"{key}: {entry.strip()!r}: {expected}.")
        elif protocols.setdefault(name.upper(), protocol.upper()) != protocol.upper():
            yield _problem(config, key, f"{key}: {name} stands there with two protocols.")


def _listener_texts(config: NodeConfig) -> Iterator[Problem]:
    for key in ("listeners", "advertised.listeners"):
        for entry in config.get_list(key):
            parts = listener_parts(entry)
            if parts is None:
                expected = "expected NAME://HOST:PORT, with a port from 0 to 65535"
                yield _problem(config, key, f"{key}: {entry!r}: {expected}.")
            elif parts[0] not in config.security_protocols:
                missing = f"{parts[0]} has no entry in listener.security.protocol.map"
                yield _problem(config, key, f"{key}: {missing}.")


def _listener_names(config: NodeConfig) -> Iterator[Problem]:
    for key, listeners in (
        ("listeners", config.listeners),
        ("advertised.listeners", config.advertised_listeners),
    ):
        names = [listener.name for listener in listeners]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield _problem(config, key, f"{key}: {name} stands there twice.")


def _listener_ports(config: NodeConfig) -> Iterator[Problem]:
    by_port: dict[int, list[Listener]] = {}
    for listener in config.listeners:
        if listener.port != 0:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if len(sharing) > 1 and not _one_of_each_family(sharing):
            names = ", ".join(listener.name for listener in sharing)
            reason = f"listeners: {names} share port {port}, which only an IPv4 and an IPv6"
            yield _problem(config, "listeners", f"{reason} address can do.")


def _one_of_each_family(listeners: list[Listener]) -> bool:
    families = sorted(_family(listener.host) for listener in listeners)
    return families == [4, 6]


def _family(host: str) -> int:
    if ":" in host:
        return 6
    numbers = host.split(".")
    return 4 if len(numbers) == 4 and all(number.isdigit() for number in numbers) else 0


def _broker_listeners(config: NodeConfig) -> Iterator[Problem]:
    if not config.is_broker:
        return
    key = "advertised.listeners" if config.is_set("advertised.listeners") else "listeners"
    told = {listener.name for listener in config.advertised_listeners}
    if not told:
        reason = f"{key}: a broker needs a listener that is not in controller.listener.names."
        yield _problem(config, key, reason)
        return
    if not told <= {listener.name for listener in config.listeners}:
        extra = sorted(told - {listener.name for listener in config.listeners})
        yield _problem(
            config, key, f"{key}: {', '.join(extra)} is advertised but not in listeners."
        )
    if config.inter_broker_listener_name not in told:
        yield _problem(
            config,
            "inter.broker.listener.name",
            f"The brokers' own listener {config.inter_broker_listener_name} is not advertised: "
            f"set inter.broker.listener.name to one of {', '.join(sorted(told))}.",
        )


def _advertised_hosts(config: NodeConfig) -> Iterator[Problem]:
    told = (*config.advertised_listeners, *config.advertised_controller_listeners)
    if any(listener.host == _UNROUTABLE for listener in told):
        yield _problem(
            config,
            "advertised.listeners",
            f"advertised.listeners: nobody can connect to {_UNROUTABLE}: advertise an address "
            "that clients reach, and keep listening on all with listeners.",
        )


def _inter_broker_protocol(config: NodeConfig) -> Iterator[Problem]:
    names = ("inter.broker.listener.name", "security.inter.broker.protocol")
    if all(config.is_set(name) for name in names):
        yield _problem(config, names[0], f"Only one of {names[0]} and {names[1]} may be set.")
    name = config.inter_broker_listener_name
    protocol = config.security_protocols.get(name)
    if not config.is_broker:
        if config.is_set(names[0]) and name in config.controller_listener_names:
            reason = f"{names[0]}: {name} is the controllers', which brokers do not listen on."
            yield _problem(config, names[0], reason)
        return
    if protocol is None:
        reason = f"{name} has no entry in listener.security.protocol.map"
        yield _problem(config, names[0], f"{names[0]}: {reason}.")
    elif protocol.startswith("SASL"):
        mechanisms = config.for_listener(name, "sasl.enabled.mechanisms")
        mechanism = config["sasl.mechanism.inter.broker.protocol"]
        if mechanism not in cast("tuple[str, ...]", mechanisms):
            key = "sasl.mechanism.inter.broker.protocol"
            yield _problem(config, key, f"{key}: {mechanism} is not in sasl.enabled.mechanisms.")


def _controllers(config: NodeConfig) -> Iterator[Problem]:
    listening = {listener.name for listener in config.listeners}
    names = config.controller_listener_names
    key = "controller.listener.names"
    if config.is_controller:
        absent = [name for name in names if name not in listening]
        if absent:
            reason = f"{key}: a controller must listen on {', '.join(absent)}: add it to listeners"
            yield _problem(config, key, f"{reason}.")
        if not config.is_broker and len(config.controller_listeners) != len(config.listeners):
            reason = f"listeners: a node that is only a controller has only those of {key}"
            yield _problem(config, "listeners", f"{reason}.")
    else:
        if config.controller_listeners:
            reason = f"listeners: a node that is only a broker has none of {key}"
            yield _problem(config, "listeners", f"{reason}.")
        if config.get_bool("controller.quorum.auto.join.enable"):
            auto = "controller.quorum.auto.join.enable"
            yield _problem(config, auto, f"{auto}: only a controller can join the quorum.")
    if not config.is_controller or not config.is_set("listener.security.protocol.map"):
        for name in names:
            if name not in config.security_protocols:
                reason = f"{key}: {name} has no entry in listener.security.protocol.map"
                yield _problem(config, key, f"{reason}.")


def _quorum(config: NodeConfig) -> Iterator[Problem]:
    key = "controller.quorum.voters"
    voters = config.get_list(key)
    if not voters and not config.get_list("controller.quorum.bootstrap.servers"):
        reason = f"Set {key} or controller.quorum.bootstrap.servers: the node must find the quorum."
        yield _problem(config, key, reason)
    ids = [voter.node_id for voter in config.quorum_voters]
    if len(set(ids)) != len(ids):
        yield _problem(config, key, f"{key}: each id may stand there once.")
    if len(ids) > 1 and any(voter.host == _UNROUTABLE for voter in config.quorum_voters):
        yield _problem(config, key, f"{key}: the others cannot connect to {_UNROUTABLE}.")
    if config.is_controller and ids and config.node_id not in ids:
        reason = f"{key}: the controller's own node.id {config.node_id} is not among the voters."
        yield _problem(config, key, reason)
    if not config.is_controller and config.node_id in ids:
        reason = f"{key}: node.id {config.node_id} is a voter, but process.roles has no controller."
        yield _problem(config, key, reason)


def _directories(config: NodeConfig) -> Iterator[Problem]:
    if not config.is_broker:
        return
    key = "cordoned.log.dirs"
    cordoned = config.get_list(key)
    if "*" in cordoned and len(cordoned) > 1:
        yield _problem(config, key, f"{key}: * stands for all and must stand alone.")
    unknown = [path for path in cordoned if path != "*" and path not in config.log_dirs]
    if unknown:
        yield _problem(config, key, f"{key}: {', '.join(unknown)} is not in log.dirs.")


def _times(config: NodeConfig) -> Iterator[Problem]:
    if config.roll_ms < 1:
        yield _problem(config, "log.roll.ms", "log.roll.ms must be at least 1.")
    if config.roll_jitter_ms < 0:
        yield _problem(config, "log.roll.jitter.ms", "log.roll.jitter.ms must be at least 0.")
    if config.retention_ms == 0:
        reason = "log.retention.ms (or .minutes, .hours) must be at least 1, or -1 for ever."
        yield _problem(config, "log.retention.ms", reason)
    idle = config.get_int("connections.max.idle.ms")
    delay = config.get_int("connection.failed.authentication.delay.ms")
    if 0 <= idle <= delay:
        key = "connection.failed.authentication.delay.ms"
        yield _problem(config, key, f"{key} ({delay}) must be less than connections.max.idle.ms.")
    wait = config.get_int("replica.fetch.wait.max.ms")
    for key in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if wait > config.get_int(key):
            reason = f"replica.fetch.wait.max.ms ({wait}) must not exceed {key}"
            yield _problem(config, "replica.fetch.wait.max.ms", f"{reason}.")


def _sizes(config: NodeConfig) -> Iterator[Problem]:
    queued = config.get_int("queued.max.request.bytes")
    request = config.get_int("socket.request.max.bytes")
    if 0 < queued < request:
        reason = f"queued.max.request.bytes ({queued}) must hold one request of {request} bytes"
        yield _problem(config, "queued.max.request.bytes", f"{reason} (socket.request.max.bytes).")
    threads = config.get_int("log.cleaner.threads")
    buffer = config.get_int("log.cleaner.dedupe.buffer.size")
    if threads < 1:
        yield _problem(config, "log.cleaner.threads", "log.cleaner.threads must be at least 1.")
    elif buffer // threads <= _CLEANER_BUFFER_BYTES_MIN:
        key = "log.cleaner.dedupe.buffer.size"
        yield _problem(config, key, f"{key} must be more than 1 MiB for each cleaner thread.")
    low = config.get_int("log.cleaner.min.compaction.lag.ms")
    if low > config.get_int("log.cleaner.max.compaction.lag.ms"):
        key = "log.cleaner.min.compaction.lag.ms"
        yield _problem(config, key, f"{key} must not exceed log.cleaner.max.compaction.lag.ms.")


def check_local_retention(config: NodeConfig) -> Iterator[Problem]:
    """What tiered storage keeps locally is at most what it keeps at all."""
    for key, total in (
        ("log.local.retention.ms", config.retention_ms),
        ("log.local.retention.bytes", config.get_int("log.retention.bytes")),
    ):
        local = config.get_int(key)
        if total >= 0 and local != _LOCAL_FOLLOWS_TOTAL and not 0 <= local <= total:
            name = key.replace(".local", "")
            yield _problem(config, key, f"{key} ({local}) must be -2 or at most {name} ({total}).")


def _tiered(config: NodeConfig) -> Iterator[Problem]:
    if config.get_bool("remote.log.storage.system.enable"):
        yield from check_local_retention(config)


def _groups(config: NodeConfig) -> Iterator[Problem]:
    for key, reason in bound_problems(config):
        yield _problem(config, key, reason)
    key = "group.coordinator.rebalance.protocols"
    if "classic" not in config.get_list(key):
        yield _problem(config, key, f"{key}: classic cannot be left out.")


def _connections(config: NodeConfig) -> Iterator[Problem]:
    key = "max.connections.per.ip.overrides"
    overrides = (config.get_str(key) or "").strip()
    if config.get_int("max.connections.per.ip") == 0 and not overrides:
        name = "max.connections.per.ip"
        yield _problem(config, name, f"{name}=0 lets nobody in unless {key} names an exception.")
    for entry in overrides.split(",") if overrides else ():
        host, colon, count = entry.rpartition(":")
        if (
            not colon
            or not re.fullmatch(_HOST, host.strip())
            or not re.fullmatch(r"[0-9]{1,9}", count.strip())
        ):
            yield _problem(config, key, f"{key}: {entry.strip()!r}: expected HOST:COUNT.")


Check = Callable[[NodeConfig], Iterator[Problem]]
_FIRST: tuple[Check, ...] = (_identity, _protocol_map, _listener_texts)
_THEN: tuple[Check, ...] = (
    _listener_names,
    _listener_ports,
    _controllers,
    _broker_listeners,
    _advertised_hosts,
    _inter_broker_protocol,
    _quorum,
    _directories,
    _times,
    _sizes,
    _tiered,
    _groups,
    _connections,
)

"""A node's static configuration: Kafka's server.properties, parsed, checked and resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from operator import is_
from typing import TypeVar, cast

from penstock.model.config.endpoints import Listener, Voter, listener_parts, voter_of
from penstock.model.config.keys import BROKER_KEYS, ConfigKey
from penstock.model.config.names import (
    PLUGIN_KEYS,
    base_name,
    is_plugin,
    key_of,
    nearest,
    same_thing,
    unknown_reason,
)
from penstock.model.config.problems import ConfigProblems, InvalidConfig, Problem
from penstock.model.config.status import HONOURED, IGNORED, PLANNED, listener_status_of
from penstock.model.config.values import HIDDEN, parse

T = TypeVar("T")

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


class NodeConfig:
    """What the operator wrote, with Kafka's defaults for the rest.

    `config["num.partitions"]` gives the typed value, `get_int` and its kin give it with a type for
    the checker, and the properties below give what several keys say together. Make one with
    `load(path)` or `of(mapping)`; both raise ConfigProblems with everything that is wrong.
    """

    __slots__ = ("__dict__", "_derived", "_layers", "_lines", "_overlaid", "_values", "texts")

    def __init__(self, texts: dict[str, str], values: dict[str, object], lines: dict[str, int]):
        self.texts: Mapping[str, str] = texts
        """The entries as written, by name; `node.id` and `broker.id` stand in for each other."""
        self._values = values
        self._lines = lines
        self._derived: dict[str, object] = {}
        self._layers: tuple[Mapping[str, str], ...] = ()
        self._overlaid = self

    @classmethod
    def load(cls, path: str, overrides: Mapping[str, str] | None = None) -> NodeConfig:
        """Read a .properties file, or TOML if the name ends in .toml. `overrides` win over it."""
        from penstock.model.config.sources import read_entries  # `penstock up` has no file

        entries: list[tuple[str, str, int]] = [*read_entries(path)]
        entries += [(key, text, 0) for key, text in (overrides or {}).items()]
        return cls._of_entries(entries, path)

    @classmethod
    def of(cls, mapping: Mapping[str, str]) -> NodeConfig:
        """A configuration from names and texts."""
        entries = [(key, text, 0) for key, text in mapping.items()]
        return cls._of_entries(entries, "configuration")

    @classmethod
    def _of_entries(cls, entries: Iterable[tuple[str, str, int]], source: str) -> NodeConfig:
        from penstock.model.config.node_checks import check_node

        texts: dict[str, str] = {}
        lines: dict[str, int] = {}
        for name, text, line in entries:
            texts[name] = text
            lines[name] = line
        values, problems = _parse_all(texts, lines)
        for name, synonym in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name not in texts and synonym in texts:
                texts[name] = texts[synonym]
                lines[name] = lines[synonym]
                values[name] = values.get(synonym)
        problems += _missing(texts)
        config = cls(texts, values, lines)
        if not problems:
            # Checks across keys would only repeat what is already wrong with one of them.
            problems = check_node(config)
        if problems:
            raise ConfigProblems(problems, source)
        return config

    def overlaid(self, *layers: Mapping[str, str]) -> NodeConfig:
        """This configuration with dynamic ones on top, later layers over earlier ones.

        What was altered while the node ran was checked then; an entry that does not parse now
        was stored by another version, and the node must start in spite of it: it is left out.
        Layers are taken to be immutable, as those of a metadata image are: the last result is
        kept, since thousands of topics ask for the same one.
        """
        layers = tuple(layer for layer in layers if layer)
        if not layers:
            return self
        if len(layers) == len(self._layers) and all(map(is_, layers, self._layers)):
            return self._overlaid
        self._overlaid = self._overlay(layers)
        self._layers = layers
        return self._overlaid

    def _overlay(self, layers: tuple[Mapping[str, str], ...]) -> NodeConfig:
        texts = dict(self.texts)
        values = dict(self._values)
        for layer in layers:
            for name, text in layer.items():
                key = key_of(name)
                try:
                    value = parse(key, text) if key is not None else text
                except InvalidConfig:
                    continue
                for synonym in same_thing(name):
                    texts.pop(synonym, None)
                    values.pop(synonym, None)
                texts[name] = text
                values[name] = value
        return NodeConfig(texts, values, self._lines)

    # Typed access

    def __getitem__(self, name: str) -> object:
        """The typed value: as written, or else the default."""
        try:
            return self._values[name]
        except KeyError:
            return (BROKER_KEYS.get(name) or PLUGIN_KEYS[name]).default

    def get_int(self, name: str) -> int:
        return cast(int, self[name])

    def get_bool(self, name: str) -> bool:
        return cast(bool, self[name])

    def get_float(self, name: str) -> float:
        return cast(float, self[name])

    def get_str(self, name: str) -> str | None:
        return cast("str | None", self[name])

    def get_list(self, name: str) -> tuple[str, ...]:
        return cast("tuple[str, ...] | None", self[name]) or ()

    def is_set(self, name: str) -> bool:
        """Whether the operator wrote the key."""
        return name in self.texts

    def for_listener(self, listener: str, name: str) -> object:
        """The value that counts for one listener: `listener.name.LISTENER.KEY` wins over KEY."""
        prefixed = f"listener.name.{listener.lower()}.{name}"
        return self._values[prefixed] if prefixed in self._values else self[name]

    def forget(self, name: str) -> None:
        """Keep a secret no longer than it takes to use it; that it is set is still known."""
        cast("dict[str, str]", self.texts)[name] = HIDDEN
        self._values[name] = HIDDEN

    def remember(self, what: str, make: Callable[[NodeConfig], T]) -> T:
        """What `make` derives from this configuration, which never changes: made only once."""
        if what not in self._derived:
            self._derived[what] = make(self)
        return cast(T, self._derived[what])

    def line_of(self, name: str) -> int:
        """The line of the file that set the key; 0 if none did."""
        return self._lines.get(name, 0)

    def notices(self) -> list[str]:
        """What to tell the operator once: keys that are accepted and have no effect."""
        by_status: dict[str, list[str]] = {}
        for name in self.texts:
            by_status.setdefault(_status_of(name), []).append(name)
        by_status.pop(HONOURED, None)
        words = {PLANNED: "not honoured yet", IGNORED: "known and ignored"}
        return [f"{words[status]}: {', '.join(names)}" for status, names in by_status.items()]

    # Who the node is

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def process_roles(self) -> tuple[str, ...]:
        return self.get_list("process.roles")

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @cached_property
    def log_dirs(self) -> tuple[str, ...]:
        """Where data goes: log.dirs, or else log.dir."""
        return self.get_list("log.dirs") or self.get_list("log.dir")

    @cached_property
    def metadata_log_dir(self) -> str:
        """Where `__cluster_metadata` goes: metadata.log.dir, or else the first of the log dirs."""
        return self.get_str("metadata.log.dir") or self.log_dirs[0]

    # Where it listens, and to whom it talks

    @cached_property
    def security_protocols(self) -> dict[str, str]:
        """Security protocol by listener name.

        Unless the map is written out, controller listeners without a protocol's name are
        plaintext, as long as nothing in sight is secured: then a guess would open a door.
        """
        pairs = (entry.partition(":") for entry in self._map_entries())
        protocols = {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}
        if self.is_set("listener.security.protocol.map"):
            return protocols
        seen = [entry.partition(":")[0].upper() for entry in self.get_list("listeners")]
        seen += self.controller_listener_names
        if not any(name in ("SSL", "SASL_SSL", "SASL_PLAINTEXT") for name in seen):
            for name in self.controller_listener_names:
                protocols.setdefault(name, "PLAINTEXT")
        return protocols

    def _map_entries(self) -> list[str]:
        text = self.get_str("listener.security.protocol.map") or ""
        return [entry for entry in text.split(",") if entry.strip()]

    @cached_property
    def controller_listener_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in self.get_list("controller.listener.names"))

    @cached_property
    def listeners(self) -> tuple[Listener, ...]:
        """Every socket to open, controllers' included."""
        return self._listeners("listeners")

    @cached_property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The sockets for clients and other brokers."""
        names = self.controller_listener_names
        return tuple(listener for listener in self.listeners if listener.name not in names)

    @cached_property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The sockets for the quorum."""
        names = self.controller_listener_names
        return tuple(listener for listener in self.listeners if listener.name in names)

    @cached_property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """What brokers tell clients; an empty host stands for this machine's own name."""
        if self["advertised.listeners"] is None:
            return self.broker_listeners
        names = self.controller_listener_names
        told = self._listeners("advertised.listeners")
        return tuple(listener for listener in told if listener.name not in names)

    @cached_property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        """What controllers tell other nodes: as advertised, or else as they listen."""
        told: tuple[Listener, ...] = ()
        if self["advertised.listeners"] is not None:
            told = self._listeners("advertised.listeners")
        by_name = {listener.name: listener for listener in (*self.controller_listeners, *told)}
        return tuple(by_name[name] for name in self.controller_listener_names if name in by_name)

    @cached_property
    def inter_broker_listener_name(self) -> str:
        """The listener on which brokers talk to each other."""
        name = self.get_str("inter.broker.listener.name")
        return name.upper() if name else self.get_str("security.inter.broker.protocol") or ""

    @cached_property
    def quorum_voters(self) -> tuple[Voter, ...]:
        """The static quorum of controller.quorum.voters."""
        voters = (voter_of(entry) for entry in self.get_list("controller.quorum.voters"))
        return tuple(voter for voter in voters if voter is not None)

    def _listeners(self, name: str) -> tuple[Listener, ...]:
        """Listeners of a list, without those that do not parse: `check_node` reports them."""
        found = []
        for entry in self.get_list(name):
            parts = listener_parts(entry)
            if parts is not None and parts[0] in self.security_protocols:
                found.append(Listener(*parts, self.security_protocols[parts[0]]))
        return tuple(found)

    # Times that several keys can set; the finer unit wins

    @cached_property
    def retention_ms(self) -> int:
        """log.retention.ms, or else .minutes, or else .hours; -1 means for ever."""
        value = self["log.retention.ms"]
        if value is None:
            minutes = self["log.retention.minutes"]
            value = (
                cast(int, minutes) * _MINUTE_MS
                if minutes is not None
                else self.get_int("log.retention.hours") * _HOUR_MS
            )
        return max(cast(int, value), -1)

    @cached_property
    def roll_ms(self) -> int:
        """log.roll.ms, or else log.roll.hours."""
        value = self["log.roll.ms"]
        return self.get_int("log.roll.hours") * _HOUR_MS if value is None else cast(int, value)

    @cached_property
    def roll_jitter_ms(self) -> int:
        """log.roll.jitter.ms, or else log.roll.jitter.hours."""
        value = self["log.roll.jitter.ms"]
        hours = self.get_int("log.roll.jitter.hours")
        return hours * _HOUR_MS if value is None else cast(int, value)

    @cached_property
    def flush_ms(self) -> int:
        """log.flush.interval.ms, or else log.flush.scheduler.interval.ms."""
        value = self["log.flush.interval.ms"]
        scheduled = self.get_int("log.flush.scheduler.interval.ms")
        return scheduled if value is None else cast(int, value)


def _status_of(name: str) -> str:
    key = key_of(name)
    if key is None:
        return PLANNED  # a plugin's, and plugins are not loaded yet
    return key.status if base_name(name) is None else listener_status_of(key.name)


def _parse_all(
    texts: Mapping[str, str], lines: Mapping[str, int]
) -> tuple[dict[str, object], list[Problem]]:
    """Typed values by name, and what is wrong with single keys."""
    values: dict[str, object] = {}
    problems: list[Problem] = []
    for name, text in texts.items():
        if is_plugin(name):
            continue
        key = key_of(name)
        if key is None:
            reason = unknown_reason(name)
            problems.append(Problem(name, reason, lines[name], nearest(name)))
            continue
        try:
            values[name] = parse(key, text)
        except InvalidConfig as error:
            problems.append(Problem(name, f"{error.reason}.", lines[name]))
    return values, problems


def _missing(texts: Mapping[str, str]) -> list[Problem]:
    keys = (key for key in BROKER_KEYS.values() if key.required and key.name not in texts)
    return [Problem(key.name, f"{key.name} is missing: {_advice(key)}.") for key in keys]


def _advice(key: ConfigKey) -> str:
    return {
        "process.roles": "say broker, controller or, for a node that is both, broker,controller",
        "node.id": "give the node a number of its own in the cluster",
        "controller.listener.names": "name the listener of the controllers, usually CONTROLLER",
    }[key.name]

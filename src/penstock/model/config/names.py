"""From the name in a file to the key that it means: listener prefixes, plugins, removed keys."""

from __future__ import annotations

from penstock.model.config.keys import BROKER_KEYS, THROTTLE_KEYS, ConfigKey
from penstock.model.config.problems import QUOTE_LENGTH_MAX

_LISTENER_PREFIX = "listener.name."

# Below a listener these also take a SASL mechanism in front: listener.name.X.plain.sasl.jaas.config
_MECHANISM_KEYS = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)

# Keys that Kafka's own plugins define beside the broker's.
PLUGIN_KEYS = {
    name: ConfigKey("broker", name, kind, default, "", "MEDIUM", "read-only")
    for name, kind, default in (
        ("super.users", "STRING", ""),
        ("allow.everyone.if.no.acl.found", "BOOLEAN", False),
    )
}
PLUGIN_PREFIXES = ("config.providers.", "rlmm.config.", "rsm.config.")

_UNITS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")

# Names, or prefixes that end in a dot, that older releases had; and what to do instead.
_REMOVED = (
    ("zookeeper.", "ZooKeeper is gone; see process.roles and controller.quorum.*"),
    ("inter.broker.protocol.version", "the feature metadata.version replaced it"),
    ("log.message.format.version", "only the current record format is left"),
    ("log.message.downconversion.enable", "only the current record format is left"),
    (
        "log.message.timestamp.difference.max.ms",
        "set log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
    ),
    ("delegation.token.master.key", "set delegation.token.secret.key"),
    ("password.encoder.", "secrets in dynamic configuration are no longer encoded"),
    ("broker.id.generation.enable", "give each node its node.id"),
    ("reserved.broker.max.id", "give each node its node.id"),
    ("control.plane.listener.name", "see controller.listener.names"),
    ("offsets.commit.required.acks", "commits always wait for all in-sync replicas"),
    ("host.name", "see listeners"),
    ("port", "see listeners"),
    ("advertised.host.name", "see advertised.listeners"),
    ("advertised.port", "see advertised.listeners"),
)


def key_of(name: str) -> ConfigKey | None:
    """The broker key that a name means, a listener in front or not; None if there is none."""
    key = BROKER_KEYS.get(name) or PLUGIN_KEYS.get(name)
    if key is not None:
        return key
    rest = base_name(name)
    if rest is None:
        return None
    for mechanism_key in _MECHANISM_KEYS:
        if rest.endswith(f".{mechanism_key}"):
            return BROKER_KEYS[mechanism_key]
    return BROKER_KEYS.get(rest)


def base_name(name: str) -> str | None:
    """What follows the listener in a prefixed name; None without a prefix."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    return name[len(_LISTENER_PREFIX) :].partition(".")[2] or None


def is_plugin(name: str) -> bool:
    """Whether a name belongs to a plugin, which alone knows what it takes."""
    return name.startswith(PLUGIN_PREFIXES)


def same_thing(name: str) -> tuple[str, ...]:
    """The broker keys that say the same thing in different units, finest first."""
    for units in _UNITS:
        if name in units:
            return units
    return _FLUSH if name == _FLUSH[0] else (name,)


def unknown_reason(name: str) -> str:
    """Why a name that means no key is refused."""
    if not name:
        return "The line has a value but no key."
    if name in THROTTLE_KEYS:
        return f"{name} can only be altered while the node runs (penstock config set)."
    for removed, advice in _REMOVED:
        if name == removed or (removed.endswith(".") and name.startswith(removed)):
            return f"{name} no longer exists in Kafka 4: {advice}."
    return f"{name} is not a configuration key."


def nearest(name: str) -> str:
    """The known key that a mistyped one probably meant, or an empty text."""
    import difflib  # only ever needed on the way to an error message

    close = difflib.get_close_matches(
        name[:QUOTE_LENGTH_MAX], [*BROKER_KEYS, *PLUGIN_KEYS], 1, 0.75
    )
    return close[0] if close else ""

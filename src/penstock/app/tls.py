"""The TLS of a node while it runs: one set of keys and trust for each listener, and for each kind
of other nodes that it enters. When their files or settings change, new connections use the new."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.app.problems import CannotStart
from penstock.app.quorum import is_sole
from penstock.security.stores import StoreError
from penstock.security.tls import (
    Context,
    TlsSettings,
    client_context,
    server_context,
    settings_of,
    stamps_of,
    would_agree,
)
from penstock.server import audit

if TYPE_CHECKING:
    import ssl

    from penstock.model.config.node import NodeConfig
    from penstock.platform.clock import Clock
    from penstock.platform.workers import Workers

log = logging.getLogger("penstock.security")

CHECK_SECONDS = 2.0
"""How often files are looked at."""

_DAY_MS = 86_400_000
EXPIRY_NOTICE_MS = 14 * _DAY_MS
"""How long before its end a certificate is worth a word."""

_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What the system may be out of for a while."""


class Changes(NamedTuple):
    """What new keys may differ in from those before."""

    subject: bool
    hosts: bool


class Live:
    """A context that is made anew when what it was made of changes."""

    def __init__(
        self,
        listener: str,
        settings: TlsSettings,
        make: Callable[[TlsSettings], Context],
        changes: Changes,
    ) -> None:
        """CannotStart if it cannot be made for the first time."""
        self.listener = listener
        self._make = make
        self._changes = changes
        self._settings = settings
        self._stamps = stamps_of(settings)
        try:
            self.current = make(settings)
        except StoreError as problem:
            raise CannotStart(f"listener {listener}: {problem}") from problem

    @property
    def context(self) -> ssl.SSLContext:
        return self.current.ssl

    @property
    def ends_ms(self) -> int | None:
        """When the certificate expires, if there is one."""
        return None if self.current.keys is None else self.current.keys.ends_ms

    def renewed(self, settings: TlsSettings) -> Context | None:
        """A new context, if the files or the settings changed; None if they did not.

        StoreError if they did and cannot be used. It reads files: call it off the event loop.
        """
        stamps = stamps_of(settings)
        if stamps == self._stamps and settings == self._settings:
            return None
        # Remembered first: what cannot be used is told once, and tried again when it changes.
        self._stamps, self._settings = stamps, settings
        try:
            return self._made(settings)
        except (StoreError, OSError) as problem:
            cause = problem.__cause__ or problem
            if isinstance(cause, OSError) and cause.errno in _SHORT:
                self._stamps = ()  # not their fault: try again
            raise

    def judge(self, settings: TlsSettings) -> None:
        """StoreError if these settings, where they are new, could not be used."""
        if settings != self._settings:
            self._made(settings)

    def _made(self, settings: TlsSettings) -> Context:
        context = self._make(settings)
        self._check_changes(context)
        return context

    def use(self, context: Context) -> None:
        """New connections use this one."""
        self.current = context

    def _check_changes(self, context: Context) -> None:
        """As in Kafka, other names are probably the files of another node."""
        old, new = self.current.keys, context.keys
        if old is None or new is None:
            return
        if new.subject != old.subject and not self._changes.subject:
            raise StoreError(
                f"the new certificate is for {new.subject} instead of {old.subject}: "
                "allow it with ssl.allow.dn.changes=true"
            )
        missing = sorted(old.hosts - new.hosts)
        if missing and not self._changes.hosts:
            raise StoreError(
                f"the new certificate no longer names {', '.join(missing)}: "
                "allow it with ssl.allow.san.changes=true"
            )


class ListenerTls:
    """What a listener knows of it."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def context(self) -> ssl.SSLContext:
        return self._live.context

    def failed(self, host: str, reason: str) -> None:
        audit.login_failed(host, self._live.listener, "TLS", "", reason)


class NodeTls:
    """All of a node's."""

    def __init__(self, config: NodeConfig) -> None:
        """Read every file that configuration names; CannotStart if one cannot be used."""
        self._config = config
        self._servers = {
            each.name: self._live(each.name, server_context)
            for each in config.listeners
            if each.protocol.endswith("SSL")
        }
        self._clients = {
            name: self._live(name, client_context)
            for name in _entered(config)
            if config.security_protocols.get(name, "").endswith("SSL")
        }
        self._check_among_nodes()
        self._wanted = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    def _live(self, name: str, make: Callable[[TlsSettings], Context]) -> Live:
        try:
            settings = settings_for(self._config, name)
        except ValueError as problem:
            raise CannotStart(f"listener {name}: {problem}") from problem
        if settings.suites is not None and settings.suites.narrowed:
            log.warning(
                "listener %s: ssl.cipher.suites names some of the suites of TLS 1.3; "
                "all three of them are offered",
                name,
            )
        changes = Changes(
            subject=bool(self._config.for_listener(name, "ssl.allow.dn.changes")),
            hosts=bool(self._config.for_listener(name, "ssl.allow.san.changes")),
        )
        return Live(name, settings, make, changes)

    def _check_among_nodes(self) -> None:
        """Nodes have the same settings, but for their own keys: they have to believe each other."""
        for name in self._servers.keys() & self._clients.keys():
            wrong = would_agree(self._servers[name].current, self._clients[name].current)
            if wrong is None:
                continue
            told = (
                f"listener {name}: nodes with keys and trust like these would not let each other "
                f"in: {wrong}; the truststore has to hold the authority of the keystore, whose "
                "certificate has to be good for servers and clients"
            )
            if not is_sole(self._config):
                raise CannotStart(told)
            log.warning("%s", told)  # there are no others yet

    def of_listener(self, name: str) -> ListenerTls:
        """What a listener encrypts with."""
        return ListenerTls(self._servers[name])

    def to_enter(self, name: str) -> ssl.SSLContext | None:
        """What this node enters the listeners of others with; None if they do not encrypt."""
        live = self._clients.get(name)
        return None if live is None else live.context

    # -- changes --------------------------------------------------------------------------------

    def start(self, workers: Workers, clock: Clock) -> None:
        """Look for changes, from now on."""
        self._say_what_ends(clock)
        self._watch = asyncio.get_running_loop().create_task(self._look_for_ever(workers, clock))

    async def stop(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch

    def on_config(self, config: NodeConfig) -> None:
        """The settings that count may have changed."""
        if config is not self._config:
            self._config = config
            self._wanted.set()

    def judge(self, config: NodeConfig) -> str | None:
        """Why these settings could not be used; None if they could."""
        for live in self._all:
            try:
                live.judge(settings_for(config, live.listener))
            except ValueError as problem:
                return f"listener {live.listener}: {problem}"
        return None

    async def _look_for_ever(self, workers: Workers, clock: Clock) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), CHECK_SECONDS)
            self._wanted.clear()
            changed = [await self._look(each, workers) for each in self._all]
            if any(changed):
                self._say_what_ends(clock)

    @property
    def _all(self) -> list[Live]:
        return [*self._servers.values(), *self._clients.values()]

    async def _look(self, live: Live, workers: Workers) -> bool:
        """Whether there was something new."""
        config = self._config
        try:
            renewed = await workers.submit(
                lambda: live.renewed(settings_for(config, live.listener))
            )
        except (ValueError, OSError) as problem:
            log.error(
                "listener %s: the new keys cannot be used, the old ones stay: %s",
                live.listener,
                problem,
            )
            return False
        if renewed is None:
            return False
        live.use(renewed)
        log.info("listener %s: new connections use the new keys", live.listener)
        return True

    def _say_what_ends(self, clock: Clock) -> None:
        for live in self._all:
            left = None if live.ends_ms is None else live.ends_ms - clock.now()
            if left is not None and left < EXPIRY_NOTICE_MS:
                told = "has expired" if left < 0 else f"expires in {left // _DAY_MS} days"
                log.warning("listener %s: the certificate %s", live.listener, told)


def settings_for(config: NodeConfig, listener: str) -> TlsSettings:
    """The ssl.* settings that count for a listener. ValueError if they make no sense."""
    # Behind SASL a certificate says nothing about who somebody is: only the listener's own prefix
    # asks for one there, as in Kafka.
    own = f"listener.name.{listener.lower()}.ssl.client.auth"
    protocol = config.security_protocols.get(listener, "")
    asks = protocol == "SSL" or config.is_set(own)
    return settings_of(lambda name: _value(config, listener, name), asks)


def _value(config: NodeConfig, listener: str, name: str) -> object:
    # Nobody's choice and Java's own kind are one word in Kafka's default.
    if name.endswith("store.type") and not (
        config.is_set(name) or config.is_set(f"listener.name.{listener.lower()}.{name}")
    ):
        return None
    return config.for_listener(listener, name)


def _entered(config: NodeConfig) -> list[str]:
    """The listeners of others that this node enters."""
    names = [config.controller_listener_names[0]] if config.controller_listener_names else []
    if config.is_broker:
        names.append(config.inter_broker_listener_name)
    return list(dict.fromkeys(names))

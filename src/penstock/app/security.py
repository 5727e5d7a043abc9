"""What configuration says about proof and rights: who may enter through which listener, and how
this node enters those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.app.problems import CannotStart
from penstock.net.connection import CloseConnection
from penstock.security.authorizer import Authorizer
from penstock.security.principal import Principal, principal_of
from penstock.server import audit
from penstock.server.gate import Gate

if TYPE_CHECKING:
    import ssl

    from penstock.app.sasl import Sasl
    from penstock.app.tls import NodeTls
    from penstock.model.config.endpoints import Listener as ListenerConfig
    from penstock.model.config.node import NodeConfig
    from penstock.net.connection import Connection
    from penstock.net.peer import Ask, Door
    from penstock.net.tls import ServerTls
    from penstock.platform.chance import Chance
    from penstock.platform.clock import Clock
    from penstock.platform.workers import Workers
    from penstock.raft.driver import RaftDriver
    from penstock.security.principal_rules import PrincipalRules
    from penstock.server.gate import Entrance

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Security:
    """The node's own, made once from its configuration."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._tls: NodeTls | None = None
        self._sasl: Sasl | None = None
        self.authorizer: Authorizer | None = None

    def open(self, workers: Workers, chance: Chance) -> None:
        """Read what configuration names; CannotStart if it makes no sense or cannot be read."""
        self.authorizer = _authorizer(self._config)
        protocols = _protocols_in_use(self._config)
        # An open node does without all that these two bring along.
        if any(each.endswith("SSL") for each in protocols):
            from penstock.app.tls import NodeTls

            self._tls = NodeTls(self._config)
        if any(each.startswith("SASL") for each in protocols):
            from penstock.app.sasl import Sasl

            self._sasl = Sasl(self._config)
            self._sasl.open(workers, chance)

    def know_early(self, raft: RaftDriver) -> None:
        """Believe, before there is a leader, whom this node's own log knows."""
        if self._sasl is not None and self._config.is_controller:
            from penstock.app.early_credentials import early_credentials

            self._sasl.know_early(early_credentials(raft, self._config.metadata_log_dir))

    def start(self, workers: Workers, clock: Clock) -> None:
        """Notice when keys change."""
        if self._tls is not None:
            self._tls.start(workers, clock)

    async def stop(self) -> None:
        """Notice no more."""
        if self._tls is not None:
            await self._tls.stop()

    def tls(self, listener: ListenerConfig) -> ServerTls | None:
        """What a listener encrypts with; None if it does not."""
        if not listener.protocol.endswith("SSL"):
            return None
        assert self._tls is not None, "open comes first"
        return self._tls.of_listener(listener.name)

    def entrance(self, listener: ListenerConfig) -> Entrance | None:
        """What a listener asks of those who come in; None if it lets everybody do everything."""
        if listener.protocol.startswith("SASL"):
            assert self._sasl is not None, "open comes first"
            return self._sasl.entrance(listener.name, self.authorizer)
        if listener.protocol == "SSL":
            rules = self._principal_rules(listener.name)
            return _CertifiedEntrance(listener.name, self.authorizer, rules)
        return None if self.authorizer is None else _OpenEntrance(self.authorizer)

    def _principal_rules(self, listener: str) -> PrincipalRules:
        from penstock.security.principal_rules import PrincipalRules

        rules = self._config.for_listener(listener, "ssl.principal.mapping.rules")
        assert isinstance(rules, str)
        try:
            return PrincipalRules(rules)
        except ValueError as problem:
            raise CannotStart(f"ssl.principal.mapping.rules: {problem}") from problem

    def door(self, listener: str) -> Door | None:
        """How this node enters the others' listeners of this name; None if they are open.

        It is used after `open`, and may be made before.
        """
        protocol = self._config.security_protocols.get(listener, "PLAINTEXT")
        return None if protocol == "PLAINTEXT" else _Door(self, listener)

    def to_enter(self, listener: str) -> ssl.SSLContext | None:
        """What this node enters the others' listeners of this name with."""
        return None if self._tls is None else self._tls.to_enter(listener)

    async def log_in(self, listener: str, ask: Ask) -> float | None:
        """Prove who this node is, at a listener of another that asks for it."""
        if not self._config.security_protocols[listener].startswith("SASL"):
            return None
        assert self._sasl is not None, "open comes first"
        return await self._sasl.own_login(listener).log_in(ask)

    def on_config(self, config: NodeConfig) -> None:
        """What was altered while the node runs may concern its keys."""
        if self._tls is not None:
            self._tls.on_config(config)

    def judge(self, config: NodeConfig) -> str | None:
        """What is wrong with the keys of a configuration that is to count from now on."""
        return None if self._tls is None else self._tls.judge(config)


class _Door:
    """Into the others' listeners of one name."""

    def __init__(self, security: Security, listener: str) -> None:
        self._security = security
        self._listener = listener

    def tls(self) -> ssl.SSLContext | None:
        return self._security.to_enter(self._listener)

    def server_name(self, host: str) -> str | None:
        return host

    async def log_in(self, ask: Ask) -> float | None:
        return await self._security.log_in(self._listener, ask)


class _CertifiedEntrance:
    """Who shows a certificate that is believed is who it names; ssl.client.auth may be altered."""

    def __init__(self, listener: str, authorizer: Authorizer | None, rules: PrincipalRules) -> None:
        self._listener = listener
        self._authorizer = authorizer
        self._rules = rules

    def gate(self, connection: Connection) -> Gate | None:
        host = connection.peer[0]
        tls: ssl.SSLObject = connection.transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True)
        if certificate is None:
            return None if self._authorizer is None else Gate(host, self._authorizer)
        principal = Principal(self._name_in(certificate, host))
        audit.logged_in(host, self._listener, "TLS", principal)
        return Gate(host, self._authorizer, principal)

    def _name_in(self, certificate: bytes, host: str) -> str:
        from penstock.security.distinguished_names import subject_of

        try:
            subject = subject_of(certificate)
        except ValueError as problem:
            audit.login_failed(host, self._listener, "TLS", "", "its certificate has no name")
            raise CloseConnection("a certificate without a name that can be read") from problem
        name = self._rules.name_of(subject)
        if name is None:
            reason = "no rule of ssl.principal.mapping.rules applies"
            audit.login_failed(host, self._listener, "TLS", subject, reason)
            raise CloseConnection(f"{subject}: {reason}")
        return name


class _OpenEntrance:
    """No proof is asked for, but rights are."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def gate(self, connection: Connection) -> Gate:
        return Gate(connection.peer[0], self._authorizer)


def _protocols_in_use(config: NodeConfig) -> set[str]:
    """Of this node's listeners, and of those that it enters."""
    names = (*config.controller_listener_names[:1], config.inter_broker_listener_name)
    entered = {config.security_protocols.get(name, "PLAINTEXT") for name in names}
    return entered | {each.protocol for each in config.listeners}


def _protocols(config: NodeConfig) -> set[str]:
    """Those of this node's listeners, and of the listeners that it enters."""
    entered = (config.inter_broker_listener_name, *config.controller_listener_names)
    return {each.protocol for each in config.listeners} | {
        config.security_protocols.get(name, "PLAINTEXT") for name in entered
    }


def _authorizer(config: NodeConfig) -> Authorizer | None:
    name = config.get_str("authorizer.class.name")
    if not name:
        return None
    if name != STANDARD_AUTHORIZER:
        raise CannotStart(
            f"authorizer.class.name={name} cannot be loaded: the authorizer of this node is "
            f"{STANDARD_AUTHORIZER}, or none"
        )
    users = [each for each in (config.get_str("super.users") or "").split(";") if each.strip()]
    try:
        super_users = [principal_of(each.strip()) for each in users]
    except ValueError as problem:
        raise CannotStart(f"super.users: {problem}") from problem
    return Authorizer(super_users, config.get_bool("allow.everyone.if.no.acl.found"))

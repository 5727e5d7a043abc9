"""What configuration says about proof and rights: who may enter through which listener, and how
this node enters those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.app.problems import CannotStart
from penstock.security.authorizer import Authorizer
from penstock.security.principal import principal_of
from penstock.server.gate import Gate

if TYPE_CHECKING:
    import ssl

    from penstock.metadata.image import MetadataImage
    from penstock.model.config.endpoints import Listener as ListenerConfig
    from penstock.model.config.node import NodeConfig
    from penstock.net.connection import Connection
    from penstock.net.peer import Door
    from penstock.server.gate import Entrance

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Security:
    """The node's own, made once from its configuration."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self.authorizer: Authorizer | None = None

    def open(self) -> None:
        """Read what configuration names; CannotStart if it makes no sense or cannot be read."""
        self.authorizer = _authorizer(self._config)

    def tls(self, listener: ListenerConfig) -> ssl.SSLContext | None:
        """What a listener encrypts with; None if it does not."""
        if listener.protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
            return None
        raise CannotStart(f"listener {listener.name} asks for {listener.protocol}: not built yet")

    def entrance(self, listener: ListenerConfig) -> Entrance | None:
        """What a listener asks of those who come in; None if it lets everybody do everything."""
        if listener.protocol.startswith("SASL_"):
            raise CannotStart(
                f"listener {listener.name} asks for {listener.protocol}: not built yet"
            )
        if listener.protocol == "PLAINTEXT" and self.authorizer is None:
            return None
        return _OpenEntrance(self.authorizer)

    def door(self, listener: str) -> Door | None:
        """How this node enters the others' listeners of this name; None if they are open.

        It is used after `open`, and may be made before.
        """
        protocol = self._config.security_protocols.get(listener, "PLAINTEXT")
        assert protocol == "PLAINTEXT", "not built yet"
        return None

    def on_image(self, image: MetadataImage) -> None:
        """Credentials may have changed."""


class _OpenEntrance:
    """No proof is asked for, but rights are."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer

    def gate(self, connection: Connection) -> Gate:
        return Gate(connection.peer[0], self._authorizer)


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

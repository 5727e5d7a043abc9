"""What configuration says about SASL: how clients prove who they are at each listener, and what
this node shows at the listeners of others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from penstock.app.problems import CannotStart
from penstock.app.quorum import is_sole
from penstock.app.sasl_own import OwnLogin, own_credentials
from penstock.security.jaas import MODULE_OF, JaasProblem, LoginModule, login_module, parse_jaas
from penstock.security.mechanisms import KNOWN, OAUTHBEARER, PLAIN
from penstock.security.plain import Kept, PlainMechanism, keep
from penstock.security.scram import ScramMechanism
from penstock.security.scram_keys import BY_NAME, SALT_BYTES
from penstock.server.login import Desk, SaslEntrance, Toll

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.metadata.image import MetadataImage
    from penstock.metadata.scram import ScramImage
    from penstock.model.config.node import NodeConfig
    from penstock.platform.chance import Chance
    from penstock.platform.workers import Workers
    from penstock.security.authorizer import Authorizer
    from penstock.security.mechanisms import Mechanism
    from penstock.security.oauth_keys import Keys

log = logging.getLogger("penstock.app")

_SECURED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_HANDLERS = (_SECURED, _SECURED.replace("oauthbearer.", "oauthbearer.secured."))
"""The checks of tokens that are built in, by the names that Kafka has had for them."""


class Sasl:
    """The node's own, made once from its configuration."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._desks: dict[str, Desk] = {}
        self._own: dict[str, OwnLogin] = {}
        self._early: Callable[[MetadataImage], ScramImage | None] = lambda _: None

    def open(self, workers: Workers, chance: Chance) -> None:
        """Read what configuration says; CannotStart if it makes no sense."""
        config = self._config
        toll = Toll(config.get_int("connection.failed.authentication.delay.ms"))
        for listener in config.listeners:
            if listener.protocol.startswith("SASL_"):
                desk = self._desks[listener.name] = self._desk(listener.name, toll, chance)
                if listener.protocol == "SASL_PLAINTEXT" and not _is_near(listener.host):
                    _warn_of_eavesdroppers(listener.name, desk)
        for name in (config.inter_broker_listener_name, *config.controller_listener_names):
            if config.security_protocols.get(name, "").startswith("SASL_"):
                self._open_own(name, workers, chance)
        for key in [each for each in config.texts if each.endswith("sasl.jaas.config")]:
            config.forget(key)  # of users' passwords only what was made of them stays

    def know_early(self, users: Callable[[MetadataImage], ScramImage | None]) -> None:
        """Whom to believe as long as `users` answers with somebody, instead of the metadata."""
        self._early = users

    def entrance(self, listener: str, authorizer: Authorizer | None) -> SaslEntrance:
        """What a listener asks of those who come in."""
        return SaslEntrance(self._desks[listener], authorizer)

    def own_login(self, listener: str) -> OwnLogin:
        """How this node proves who it is, at the listeners of this name."""
        return self._own[listener]

    # -- listeners --------------------------------------------------------------------------------

    def _desk(self, listener: str, toll: Toll, chance: Chance) -> Desk:
        config = self._config
        names = cast("tuple[str, ...]", config.for_listener(listener, "sasl.enabled.mechanisms"))
        strange = [name for name in names if name not in KNOWN]
        if strange or not names:
            raise CannotStart(
                f"sasl.enabled.mechanisms of listener {listener}: {', '.join(strange) or 'none'} "
                f"cannot be offered; choose from {', '.join(KNOWN)}"
            )
        keys: list[Keys] = []
        mechanisms = [self._mechanism(listener, name, chance, keys) for name in names]
        reauth = {name: self._reauth_ms(listener, name) for name in names}
        return Desk(
            mechanisms,
            config.get_str("delegation.token.secret.key"),
            toll,
            reauth,
            keys[0].refresh if keys else None,
            lambda image: self._early(image),
        )

    def _mechanism(self, listener: str, name: str, chance: Chance, keys: list[Keys]) -> Mechanism:
        handler = self._of_mechanism(listener, name, "sasl.server.callback.handler.class")
        if handler and (name != OAUTHBEARER or handler not in _HANDLERS):
            raise CannotStart(
                f"sasl.server.callback.handler.class of listener {listener} names a class that "
                f"cannot be loaded; leave it out, or for OAUTHBEARER write {_SECURED}"
            )
        module = jaas_module(self._config, listener, name)
        if name == OAUTHBEARER:
            from penstock.app.sasl_oauth import oauth_mechanism

            mechanism, found = oauth_mechanism(self._config, listener, module)
            keys.append(found)
            return mechanism
        if name == PLAIN:
            return PlainMechanism({} if module is None else _users(listener, module, chance))
        return ScramMechanism(BY_NAME[name])

    def _reauth_ms(self, listener: str, mechanism: str) -> int:
        value = self._of_mechanism(listener, mechanism, "connections.max.reauth.ms")
        return cast(int, value)

    def _of_mechanism(self, listener: str, mechanism: str, key: str) -> object:
        prefixed = f"listener.name.{listener.lower()}.{mechanism.lower()}.{key}"
        if self._config.is_set(prefixed):
            return self._config[prefixed]
        return self._config.for_listener(listener, key)

    # -- this node at others' ---------------------------------------------------------------------

    def _open_own(self, listener: str, workers: Workers, chance: Chance) -> None:
        config = self._config
        key = "sasl.mechanism.inter.broker.protocol"
        if listener in config.controller_listener_names:
            key = "sasl.mechanism.controller.protocol"
        mechanism = config.get_str(key) or ""
        if mechanism not in KNOWN:
            raise CannotStart(f"{key}={mechanism}: choose from {', '.join(KNOWN)}")
        module = jaas_module(config, listener, mechanism)
        credentials = own_credentials(config, listener, mechanism, module)
        if credentials is None and not is_sole(config):
            prefix = f"listener.name.{listener.lower()}.{mechanism.lower()}"
            raise CannotStart(
                f"this node has to log in to others on listener {listener} with {mechanism}, and "
                f"has nothing to show: set {prefix}.sasl.jaas.config to {MODULE_OF[mechanism]} "
                "with its credentials"
            )
        self._own[listener] = OwnLogin(credentials, workers, chance)


def jaas_module(config: NodeConfig, listener: str, mechanism: str) -> LoginModule | None:
    """The login module for a mechanism at a listener; CannotStart if what is there is none.

    listener.name.LISTENER.MECHANISM.sasl.jaas.config wins, as in Kafka; failing that, the key
    without the mechanism or without both, which may hold the modules of several.
    """
    of_listener = f"listener.name.{listener.lower()}"
    exact = f"{of_listener}.{mechanism.lower()}.sasl.jaas.config"
    for key in (exact, f"{of_listener}.sasl.jaas.config", "sasl.jaas.config"):
        text = config.get_str(key) if config.is_set(key) else None
        if text is None:
            continue
        try:
            if key == exact and [each.name for each in parse_jaas(text)] != [MODULE_OF[mechanism]]:
                raise JaasProblem(f"expected one entry, of {MODULE_OF[mechanism]}")
            return login_module(text, mechanism)
        except JaasProblem as problem:
            raise CannotStart(f"{key}: {problem}") from None
    return None


def _is_near(host: str) -> bool:
    """Whether only this machine can connect there."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _warn_of_eavesdroppers(listener: str, desk: Desk) -> None:
    open_to_all = [name for name in (PLAIN, OAUTHBEARER) if name in desk.mechanisms]
    if open_to_all:
        log.warning(
            "listener %s takes %s without TLS: whoever sees the traffic can log in as anybody",
            listener,
            " and ".join(open_to_all),
        )


def _users(listener: str, module: LoginModule, chance: Chance) -> dict[str, Kept]:
    """The users that a listener's configuration names: user_NAME="password"."""
    users: dict[str, Kept] = {}
    for option, password in module.options.items():
        if option in ("username", "password"):
            continue  # what this node shows to others
        name = option.removeprefix("user_")
        if name == option or not name or not password:
            raise CannotStart(
                f"the JAAS configuration of PLAIN at listener {listener} takes username, password "
                'and user_NAME="password", and has something else, or a name or password is empty'
            )
        try:
            users[name] = keep(password, chance.token_bytes(SALT_BYTES))
        except ValueError as problem:
            raise CannotStart(f"PLAIN at listener {listener}, user {name}: {problem}") from None
    return users

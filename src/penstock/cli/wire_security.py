"""How a connection is encrypted and who logs in on it, by librdkafka's names for the settings."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.cli.failure import USAGE, Failure

if TYPE_CHECKING:
    from penstock.cli.wire import Answer
    from penstock.protocol.message import Message

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
KEYS = (
    "bootstrap.servers",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
)
"""The settings that mean something to the commands that speak through `wire`."""


class Ask(Protocol):
    """How to ask a broker something."""

    def __call__(self, request: Message, answer: type[Answer], /) -> Answer: ...


class Security(NamedTuple):
    """What the user said with -X about encryption and identity."""

    encrypted: bool = False
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    check_host: bool = True
    mechanism: str | None = None
    user: str = ""
    password: str = ""

    def encrypt(self, plain: socket.socket, host: str) -> socket.socket:
        """The connection as it is, or inside TLS."""
        if not self.encrypted:
            return plain
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.authority)
            context.check_hostname = self.check_host
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, self.key_password)
            return context.wrap_socket(plain, server_hostname=host)
        except FileNotFoundError as missing:
            raise Failure(
                f"a file that -X names is not there: {missing.filename or missing}", "", USAGE
            ) from None
        except OSError as fault:
            raise Failure(
                f"no TLS with {host}: {fault}",
                "check -X ssl.ca.location, and whether this listener speaks TLS",
            ) from None

    def log_in(self, ask: Ask) -> None:
        """Tell the broker who we are, if it is to know."""
        if self.mechanism is None:
            return
        from penstock.model.errors import ErrorCode
        from penstock.protocol.generated.sasl_authenticate import (
            SaslAuthenticateRequest,
            SaslAuthenticateResponse,
        )
        from penstock.protocol.generated.sasl_handshake import (
            SaslHandshakeRequest,
            SaslHandshakeResponse,
        )

        offered = ask(SaslHandshakeRequest(mechanism=self.mechanism), SaslHandshakeResponse)
        if offered.error_code != ErrorCode.NONE:
            raise Failure(
                f"the broker does not take {self.mechanism}",
                f"it takes {', '.join(offered.mechanisms) or 'no SASL at all'}",
            )
        proof = f"\0{self.user}\0{self.password}".encode()
        told = ask(SaslAuthenticateRequest(auth_bytes=proof), SaslAuthenticateResponse)
        if told.error_code != ErrorCode.NONE:
            reason = told.error_message or "it does not say why"
            raise Failure(
                f"the broker does not let {self.user} in: {reason}",
                "check -X sasl.username and -X sasl.password",
            )


def security_of(pairs: Mapping[str, str]) -> Security:
    """The security that -X words ask for; `Failure` for words that mean nothing here."""
    unknown = sorted(set(pairs) - set(KEYS))
    if unknown:
        raise Failure(
            f"-X {unknown[0]} means nothing to this command",
            f"it understands {', '.join(KEYS)}",
            USAGE,
        )
    protocol = pairs.get("security.protocol", "plaintext").lower()
    if protocol not in PROTOCOLS:
        raise Failure(
            f"-X security.protocol={protocol} is none", f"choose of {', '.join(PROTOCOLS)}", USAGE
        )
    return Security(
        encrypted=protocol.endswith("ssl"),
        authority=pairs.get("ssl.ca.location"),
        certificate=pairs.get("ssl.certificate.location"),
        key=pairs.get("ssl.key.location"),
        key_password=pairs.get("ssl.key.password"),
        check_host=pairs.get("ssl.endpoint.identification.algorithm", "https") != "none",
        **_identity(pairs) if protocol.startswith("sasl") else {},
    )


def _identity(pairs: Mapping[str, str]) -> dict[str, Any]:
    mechanism = pairs.get("sasl.mechanism") or pairs.get("sasl.mechanisms") or "unnamed"
    if mechanism.upper() != "PLAIN":
        raise Failure(
            f"this command cannot log in with {mechanism}",
            "it knows -X sasl.mechanism=PLAIN, and certificates with security.protocol=ssl",
            USAGE,
        )
    return {
        "mechanism": "PLAIN",
        "user": pairs.get("sasl.username", ""),
        "password": pairs.get("sasl.password", ""),
    }

"""How a connection is encrypted and who logs in on it, by librdkafka's names for the settings."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.cli.failure import USAGE, Failure
from penstock.cli.secure_properties import TAKEN

if TYPE_CHECKING:
    import ssl

    from penstock.cli.wire import Answer
    from penstock.protocol.message import Message
    from penstock.security.own_login import Credentials
    from penstock.security.stores import Store

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
STEPS_MAX = 10
NONCE_BYTES = 24


class Ask(Protocol):
    """How to ask a broker something."""

    def __call__(self, request: Message, answer: type[Answer], /) -> Answer: ...


class Security(NamedTuple):
    """What the user said about encryption and identity."""

    encrypted: bool = False
    pairs: Mapping[str, str] = {}
    mechanism: str | None = None

    def __repr__(self) -> str:
        return f"<Security {self.mechanism or 'without a login'}>"  # the rest holds secrets

    def encrypt(self, plain: socket.socket, host: str) -> socket.socket:
        """The connection as it is, or inside TLS."""
        if not self.encrypted:
            return plain
        import ssl

        context = _context(self.pairs)
        try:
            return context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as fault:
            raise Failure(
                f"{host} is not believed: {fault.verify_message}",
                "ssl.ca.location names the authority that signed its certificate",
            ) from None
        except OSError as fault:
            raise Failure(
                f"no TLS with {host}: {getattr(fault, 'reason', None) or fault}",
                "does this listener speak TLS, and does it want a certificate of yours?",
            ) from None

    def log_in(self, ask: Ask) -> None:
        """Tell the broker who we are, if it is to know."""
        if self.mechanism is None:
            return
        from penstock.model.errors import ErrorCode
        from penstock.protocol.generated import sasl_handshake as choosing
        from penstock.security.own_login import NotBelieved

        credentials = _credentials(self.mechanism, self.pairs)
        request = choosing.SaslHandshakeRequest(mechanism=self.mechanism)
        offered = ask(request, choosing.SaslHandshakeResponse)
        if offered.error_code != ErrorCode.NONE:
            raise Failure(
                f"the broker does not take {self.mechanism}",
                f"it takes {', '.join(offered.mechanisms) or 'no SASL at all'}",
            )
        try:
            _prove(credentials, ask)
        except NotBelieved as problem:
            user = self.pairs.get("sasl.username") or self.pairs.get("sasl.oauthbearer.client.id")
            raise Failure(
                f"the broker does not let {user or 'us'} in: {problem}",
                "check the user and the password",
            ) from None


def _prove(credentials: Credentials, ask: Ask) -> None:
    """One login, step by step, until there is nothing more to say."""
    from penstock.model.errors import ErrorCode
    from penstock.protocol.generated import sasl_authenticate as proving
    from penstock.security.own_login import NotBelieved, Slow

    exchange = credentials.begin(os.urandom(NONCE_BYTES))
    challenge = b""
    for _ in range(STEPS_MAX):
        message = exchange.step(challenge)
        if isinstance(message, Slow):
            message = message.then(message.run())
        if message is None:
            return
        request = proving.SaslAuthenticateRequest(auth_bytes=message)
        told = ask(request, proving.SaslAuthenticateResponse)
        if told.error_code != ErrorCode.NONE:
            raise NotBelieved(told.error_message or "it does not say why")
        challenge = bytes(told.auth_bytes)
    raise NotBelieved("it asks on and on")


def security_of(pairs: Mapping[str, str]) -> Security:
    """The security that settings ask for; `Failure` for words that mean nothing here."""
    unknown = sorted(set(pairs) - TAKEN)
    if unknown:
        raise Failure(
            f"-X {unknown[0]} means nothing to this command",
            f"it understands {', '.join(sorted(TAKEN))}",
            USAGE,
        )
    protocol = pairs.get("security.protocol", "plaintext").lower()
    if protocol not in PROTOCOLS:
        raise Failure(
            f"security.protocol={protocol} is none", f"choose of {', '.join(PROTOCOLS)}", USAGE
        )
    mechanism = None
    if protocol.startswith("sasl"):
        mechanism = pairs.get("sasl.mechanism") or pairs.get("sasl.mechanisms") or "unnamed"
        mechanism = mechanism.upper()
        if mechanism not in MECHANISMS:
            raise Failure(
                f"this command cannot log in with {mechanism}",
                f"sasl.mechanism is one of {', '.join(MECHANISMS)}",
                USAGE,
            )
    return Security(protocol.endswith("ssl"), dict(pairs), mechanism)


# -- who we are -----------------------------------------------------------------------------------


def _credentials(mechanism: str, pairs: Mapping[str, str]) -> Credentials:
    from penstock.security.own_login import BearerCredentials, PlainCredentials, ScramCredentials
    from penstock.security.scram_keys import BY_NAME

    if mechanism == "OAUTHBEARER":
        from penstock.cli.secure_bearer import bearer_token

        return BearerCredentials(lambda: bearer_token(pairs))
    user, password = pairs.get("sasl.username", ""), pairs.get("sasl.password", "")
    if not user:
        raise Failure(f"{mechanism} needs a user", "say sasl.username and sasl.password", USAGE)
    if mechanism == "PLAIN":
        return PlainCredentials(user, password)
    by_token = pairs.get("sasl.tokenauth", "").lower() == "true"
    return ScramCredentials(BY_NAME[mechanism], user, password, by_token)


# -- TLS ------------------------------------------------------------------------------------------


def _context(pairs: Mapping[str, str]) -> ssl.SSLContext:
    """The trust and the keys that settings name, as a node that enters others has them."""
    import ssl

    from penstock.security.stores import Store, StoreError
    from penstock.security.tls import TlsSettings, client_context

    algorithm = pairs.get("ssl.endpoint.identification.algorithm", "https")
    settings = TlsSettings(
        keystore=_keystore(pairs),
        truststore=Store(
            "truststore",
            location=None if "ssl.ca.pem" in pairs else pairs.get("ssl.ca.location"),
            certificates=pairs.get("ssl.ca.pem"),
        ),
        versions=frozenset({"TLSv1.2", "TLSv1.3"}),
        suites=None,
        client_auth="none",
        checks_host=algorithm.lower() == "https",
    )
    try:
        context = client_context(settings).ssl
    except StoreError as problem:
        raise Failure(str(problem), "", USAGE) from None
    if pairs.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _keystore(pairs: Mapping[str, str]) -> Store:
    """What we show ourselves: from a PKCS12 file, or from PEM for the key and the certificate."""
    from penstock.security.stores import Store

    password = pairs.get("ssl.key.password")
    if "ssl.keystore.location" in pairs:
        location = pairs["ssl.keystore.location"]
        return Store("keystore", None, location, pairs.get("ssl.keystore.password"), password)
    certificate, key = pairs.get("ssl.certificate.location"), pairs.get("ssl.key.location")
    if certificate is not None and certificate == key:
        return Store("keystore", location=key, key_password=password)
    return Store(
        "keystore",
        key_password=password,
        key=pairs.get("ssl.key.pem") or _content(key),
        certificates=pairs.get("ssl.certificate.pem") or _content(certificate),
    )


def _content(path: str | None) -> str | None:
    from penstock.cli.secure_secrets import read_secret

    return None if path is None else read_secret(path, "a file of TLS")

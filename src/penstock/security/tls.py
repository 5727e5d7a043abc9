"""What configuration says about TLS, and the OpenSSL contexts that it makes of it."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.net.tls import reason_of
from penstock.security.stores import Keys, Store, StoreError, read_keys, read_trusted, stamp_of
from penstock.security.suites import Suites, suites_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NONE, REQUESTED, REQUIRED = "none", "requested", "required"
"""ssl.client.auth: whether those who connect show a certificate."""

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    NONE: ssl.CERT_NONE,
    REQUESTED: ssl.CERT_OPTIONAL,
    REQUIRED: ssl.CERT_REQUIRED,
}


class TlsSettings(NamedTuple):
    """The ssl.* settings that count for one listener."""

    keystore: Store
    truststore: Store
    versions: frozenset[str]
    suites: Suites | None
    client_auth: str
    checks_host: bool
    """Whether a server's certificate has to bear the name under which it was reached."""

    def __repr__(self) -> str:
        return f"<TLS with {self.keystore} and {self.truststore}>"


class Context(NamedTuple):
    """A context that works, and what it was made of."""

    ssl: ssl.SSLContext
    keys: Keys | None


def settings_of(value: Callable[[str], object], asks_clients: bool) -> TlsSettings:
    """The settings that `value` gives by name. ValueError says what is wrong with them.

    `asks_clients`: whether ssl.client.auth counts here.
    """

    def text(name: str) -> str | None:
        found = cast("str | None", value(name))
        return found or None

    protocol = text("ssl.protocol") or "TLSv1.3"
    if protocol not in ("TLS", *_VERSIONS):
        raise ValueError(f"ssl.protocol={protocol}: expected TLSv1.3, TLSv1.2 or TLS")
    try:
        suites = suites_of(cast("tuple[str, ...]", value("ssl.cipher.suites") or ()))
    except ValueError as problem:
        raise ValueError(f"ssl.cipher.suites: {problem}") from problem
    for name in ("ssl.engine.factory.class", "ssl.provider"):
        if text(name):
            raise ValueError(f"{name} names a part of Java's, and cannot be used here: take it out")
    algorithm = text("ssl.endpoint.identification.algorithm") or ""
    if algorithm.lower() not in ("https", ""):
        raise ValueError(
            f"ssl.endpoint.identification.algorithm={algorithm}: expected https, or nothing"
        )
    return TlsSettings(
        keystore=Store(
            "keystore",
            text("ssl.keystore.type"),
            text("ssl.keystore.location"),
            text("ssl.keystore.password"),
            text("ssl.key.password"),
            text("ssl.keystore.key"),
            text("ssl.keystore.certificate.chain"),
        ),
        truststore=Store(
            "truststore",
            text("ssl.truststore.type"),
            text("ssl.truststore.location"),
            text("ssl.truststore.password"),
            certificates=text("ssl.truststore.certificates"),
        ),
        versions=_versions(cast("tuple[str, ...]", value("ssl.enabled.protocols") or ())),
        suites=suites,
        client_auth=(text("ssl.client.auth") or NONE) if asks_clients else NONE,
        checks_host=bool(algorithm),
    )


def _versions(names: tuple[str, ...]) -> frozenset[str]:
    chosen = frozenset(names) or frozenset(_VERSIONS)
    old = sorted(chosen - set(_VERSIONS))
    if old:
        raise ValueError(
            f"ssl.enabled.protocols: {', '.join(old)} can no longer be trusted: "
            "expected TLSv1.2, TLSv1.3 or both"
        )
    return chosen


def stamps_of(settings: TlsSettings) -> tuple[object, ...]:
    """Changes when one of the files does."""
    return stamp_of(settings.keystore), stamp_of(settings.truststore)


# -- contexts -------------------------------------------------------------------------------------


def server_context(settings: TlsSettings) -> Context:
    """For a listener. StoreError if it cannot be made."""
    if not settings.keystore.given:
        raise StoreError("there is no key: set ssl.keystore.location and ssl.keystore.type=PEM")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    keys = _common(context, settings)
    context.verify_mode = _VERIFY[settings.client_auth]
    if settings.client_auth != NONE:
        if not settings.truststore.given:
            raise StoreError(
                f"ssl.client.auth={settings.client_auth} without a truststore would believe every "
                "authority of this machine: set ssl.truststore.location to the one to believe"
            )
        _trust(context, settings.truststore)
    # One ticket for each handshake is enough to resume it; the second costs as much again.
    context.num_tickets = 1
    return Context(context, keys)


def client_context(settings: TlsSettings) -> Context:
    """For entering listeners of others: those of the truststore are believed, or the machine's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host
    keys = _common(context, settings)
    if settings.truststore.given:
        _trust(context, settings.truststore)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return Context(context, keys)


def _common(context: ssl.SSLContext, settings: TlsSettings) -> Keys | None:
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # As in Java, whatever stands in a truststore is believed: it need not be the root of a chain.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = set(settings.versions)
    if settings.suites is not None:
        if settings.suites.openssl:
            context.set_ciphers(settings.suites.openssl)
        else:
            versions.discard("TLSv1.2")
        if not settings.suites.tls13:
            versions.discard("TLSv1.3")
    if not versions:
        raise StoreError("ssl.cipher.suites has none that belongs to one of ssl.enabled.protocols")
    context.minimum_version = _VERSIONS[min(versions)]
    context.maximum_version = _VERSIONS[max(versions)]
    if not settings.keystore.given:
        return None
    keys = read_keys(settings.keystore)
    try:
        with _as_file(keys.key + keys.chain) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as problem:
        place = _place(settings.keystore)
        raise StoreError(f"{place} is refused by OpenSSL: {reason_of(problem)}") from problem
    return keys


def _trust(context: ssl.SSLContext, store: Store) -> None:
    try:
        context.load_verify_locations(cadata=read_trusted(store))
    except ssl.SSLError as problem:
        raise StoreError(
            f"{_place(store)} is refused by OpenSSL: {reason_of(problem)}"
        ) from problem


def _place(store: Store) -> str:
    return store.location or f"ssl.{store.what}"


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path under which the content can be read, by this process and not from any disk.

    Python hands keys to OpenSSL by path only.
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("penstock-keys", os.MFD_CLOEXEC)
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{number}"
    else:
        with tempfile.NamedTemporaryFile() as file:  # readable by its owner alone
            file.write(content)
            file.flush()
            yield file.name


# -- whether they go together ---------------------------------------------------------------------


def would_agree(server: Context, client: Context) -> str | None:
    """Why a node with these keys and this trust would not enter another with the same; None if it
    would. Under which name it is reached is not known here, and left aside."""
    hosts = server.keys.hosts if server.keys is not None else ()
    host = min((each for each in hosts if re.fullmatch(_HOST, each)), default=None)
    if host is None:
        return None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.ssl.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.ssl.wrap_bio(to_client, to_server, server_hostname=host.replace("*", "any"))
    for end in (theirs, ours) * _TURNS:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError as problem:
            return reason_of(problem)
    return None


_HOST = r"[\w.*-]+|[0-9a-fA-F:.]+"
_TURNS = 3
"""In which each side has said and heard all: two, and one more in TLS 1.2."""

"""Cipher suites: from the names that Java and the standards use to those of OpenSSL.

Only suites with forward secrecy are known. Those of TLS 1.3 are three, all sound, and Python cannot
choose among them: a list without any of the three leaves TLS 1.3 out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

TLS13 = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"}
)

_EXCHANGES = {
    "TLS_ECDHE_ECDSA_WITH_": "ECDHE-ECDSA-",
    "TLS_ECDHE_RSA_WITH_": "ECDHE-RSA-",
    "TLS_DHE_RSA_WITH_": "DHE-RSA-",
}
_CIPHERS = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
}
_OF_JAVA = {
    exchange + cipher: _EXCHANGES[exchange] + _CIPHERS[cipher]
    for exchange in _EXCHANGES
    for cipher in _CIPHERS
    if (exchange, cipher) != ("TLS_DHE_RSA_WITH_", "AES_256_CBC_SHA384")  # there is no such suite
}


class Suites(NamedTuple):
    """A choice of suites."""

    openssl: str
    """For TLS 1.2, as OpenSSL wants them; empty if none was named."""

    tls13: bool
    """Whether TLS 1.3 is to be had."""

    narrowed: bool
    """Whether some of TLS 1.3's suites were named, and not all: the others cannot be kept out."""


def suites_of(names: Iterable[str]) -> Suites | None:
    """What the names mean; None if there are none. ValueError names the first unknown one."""
    chosen = [name.strip() for name in names if name.strip()]
    if not chosen:
        return None
    for name in chosen:
        if name not in TLS13 and name not in _OF_JAVA:
            known = ", ".join((*sorted(TLS13), *_OF_JAVA))
            raise ValueError(f"{name} is unknown or too weak; expected some of {known}")
    newer = TLS13.intersection(chosen)
    older = ":".join(_OF_JAVA[name] for name in chosen if name in _OF_JAVA)
    return Suites(older, bool(newer), bool(newer) and newer != TLS13)

"""Whom a Java from the package index believes: the authorities that this machine believes.

Such a Java brings a list of its own. It has none of those that were added to the machine, as
companies do whose proxies look into TLS; and a machine's own Java is told by its administrator.
"""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.spark.java import PACKAGE, Java

if TYPE_CHECKING:
    from cryptography import x509

PASSWORD = "authorities"  # no secret: Java wants one, and there are no keys in it


def trust_options(java: Java, folder: Path) -> list[str]:
    """Options for `java`, whose files are put into the folder; none where it needs none."""
    if java.origin != PACKAGE:
        return []
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not authorities:
        return []  # what it brings is better than nobody
    store = folder / "authorities.p12"
    store.write_bytes(_store_of(authorities))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
    ]


def _store_of(authorities: list[bytes]) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    entries = [
        pkcs12.PKCS12Certificate(certificate, b"authority %d" % number)
        for number, certificate in enumerate(_certificates(authorities))
    ]
    return pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(PASSWORD.encode()))


def _certificates(authorities: list[bytes]) -> Iterator[x509.Certificate]:
    from cryptography.x509 import load_der_x509_certificate

    for each in authorities:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old roots break newer rules, and are believed still
            try:
                yield load_der_x509_certificate(each)
            except ValueError:
                continue  # one that cannot be read vouches for nobody

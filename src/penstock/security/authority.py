"""A small certificate authority: for `penstock up --secure`, for tests, and for trying things out.

It makes keys on the curve P-256, which every client of Kafka understands and whose handshakes cost
a server far less than those with RSA. A company has an authority of its own; this one is for a
machine or a test.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.platform.clock import Clock, SystemClock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import KeySerializationEncryption

DAYS = 825
"""How long what is issued holds: the longest that all operating systems accept."""

AUTHORITY_DAYS = 3650


class Issued:
    """A certificate with its key and with the certificate of who signed it."""

    __slots__ = ("_key", "_signer", "certificate")

    def __init__(
        self,
        certificate: x509.Certificate,
        key: ec.EllipticCurvePrivateKey,
        signer: x509.Certificate,
    ) -> None:
        self.certificate = certificate
        self._key = key
        self._signer = signer

    @property
    def chain_pem(self) -> str:
        """The certificate and its signer's: ssl.keystore.certificate.chain."""
        return _pem(self.certificate) + _pem(self._signer)

    def key_pem(self, password: str | None = None) -> str:
        """The private key, encrypted if there is a password: ssl.keystore.key.

        Java before 19 reads no encrypted one: give it PKCS12.
        """
        return _key_pem(self._key, password)

    def pem(self, password: str | None = None) -> str:
        """Key and chain in one text, as a PEM keystore file holds them."""
        return self.key_pem(password) + self.chain_pem

    def pkcs12(self, password: str, name: str = "node") -> bytes:
        """Key and chain as a PKCS12 keystore."""
        return pkcs12.serialize_key_and_certificates(
            name.encode(),
            self._key,
            self.certificate,
            [self._signer],
            serialization.BestAvailableEncryption(password.encode()),
        )


class Authority:
    """Issues certificates; `Authority.make()` makes a new one."""

    __slots__ = ("_certificate", "_clock", "_key")

    def __init__(
        self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, clock: Clock
    ) -> None:
        self._certificate = certificate
        self._key = key
        self._clock = clock

    @classmethod
    def make(cls, name: str = "Penstock local authority", clock: Clock | None = None) -> Authority:
        """A new authority with a key of its own."""
        clock = clock or SystemClock()
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        builder = _builder(subject, subject, key, clock, AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(signs=True), True)
        return cls(builder.sign(key, hashes.SHA256()), key, clock)

    @classmethod
    def read(cls, text: str, clock: Clock | None = None) -> Authority:
        """The authority that `pem` wrote down. ValueError if the text holds none."""
        raw = text.encode()
        key = serialization.load_pem_private_key(raw, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key of an authority lies on an elliptic curve")
        return cls(x509.load_pem_x509_certificate(raw), key, clock or SystemClock())

    @property
    def pem(self) -> str:
        """Key and certificate, for `read`: whoever has it can issue certificates."""
        return _key_pem(self._key, None) + self.certificate_pem

    @property
    def certificate_pem(self) -> str:
        """What others trust: a PEM truststore, or ssl.ca.location of librdkafka."""
        return _pem(self._certificate)

    def truststore(self, password: str, name: str = "authority") -> bytes:
        """The certificate as a PKCS12 truststore, with the mark by which Java trusts it."""
        entry = pkcs12.PKCS12Certificate(self._certificate, name.encode())
        encryption = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_java_truststore([entry], encryption)

    def issue(
        self,
        name: str,
        hosts: Iterable[str] = (),
        *,
        organization: str | None = None,
        unit: str | None = None,
        days: float = DAYS,
    ) -> Issued:
        """A certificate for somebody, who may serve under `hosts`: names or addresses.

        It is good for both ends of a connection, as nodes of a cluster need it. With `days` below
        zero it has expired already.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name, organization, unit)
        builder = _builder(subject, self._certificate.subject, key, self._clock, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(signs=False), True)
        ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(ends), False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, False)
        names = [_host(each) for each in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        return Issued(builder.sign(self._key, hashes.SHA256()), key, self._certificate)


def write_private(path: str, content: str | bytes) -> None:
    """Write a file that only its owner reads: a key never lies open, not even while it is written.

    An older one is replaced at once, so that nobody reads half of either.
    """
    raw = content.encode() if isinstance(content, str) else content
    fresh = f"{path}.new"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    clock: Clock,
    days: float,
) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(clock.now() // 1000, datetime.UTC)
    end = now + datetime.timedelta(days=days)
    # An hour back: clocks of two machines differ, and a new certificate should work at once.
    start = min(now, end) - datetime.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )


def _name(name: str, organization: str | None = None, unit: str | None = None) -> x509.Name:
    parts = (
        (NameOID.ORGANIZATION_NAME, organization),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
        (NameOID.COMMON_NAME, name),
    )
    # The other way round than it reads as text: CN=name,OU=unit,O=organization.
    return x509.Name([x509.NameAttribute(kind, text) for kind, text in parts if text is not None])


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey, password: str | None) -> str:
    encryption: KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    ).decode()

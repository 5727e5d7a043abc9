"""Keys and trusted certificates, read from the files and settings that configuration names.

PEM and PKCS12 are read; JKS is Java's own, and refused with the command that converts it. What is
read is given on as PEM, which is what OpenSSL takes.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

FILE_BYTES_MAX = 8 * 1024 * 1024
"""A bundle of all public authorities has a quarter of a megabyte."""

PEM = "PEM"
PKCS12 = "PKCS12"
JKS = "JKS"

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM_BLOCK = rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----"
_LINE = 64

STRETCHING_MAX = 2_000_000
"""Rounds of a key's password, or what scrypt has instead: a second of work."""

_ELEMENTS_MAX = 100
"""Of an encrypted key; an honest one has a dozen."""

_CONSTRUCTED = 0x20
_INTEGER = 0x02


class StoreError(ValueError):
    """A store that cannot be used; the message says why and what to do, and holds no secret."""


class Store(NamedTuple):
    """Where keys or trusted certificates come from: a file, or the text itself."""

    what: str
    """keystore or truststore: the word in the names of the settings."""

    kind: str | None = None
    """PEM, PKCS12 or JKS; None if nobody said."""

    location: str | None = None
    password: str | None = None
    key_password: str | None = None
    key: str | None = None
    certificates: str | None = None

    def __repr__(self) -> str:
        return f"<{self.what} {self.location or 'without a file'}>"  # the rest are secrets

    @property
    def given(self) -> bool:
        """Whether there is anything to be read."""
        return any((self.location, self.key, self.certificates))


class Keys(NamedTuple):
    """A private key and its certificates, the own one first."""

    key: bytes
    chain: bytes
    subject: str
    hosts: frozenset[str]
    ends_ms: int
    """When the own certificate expires."""

    def __repr__(self) -> str:
        return f"<keys of {self.subject}>"


def read_keys(store: Store) -> Keys:
    """The private key of a keystore and its chain. StoreError if they cannot be used."""
    kind, raw = _read(store)
    if kind == PKCS12:
        key, chain = _keys_of_pkcs12(store, raw)
    else:
        key, chain = _keys_of_pem(store, raw)
    try:
        belongs = key.public_key() == chain[0].public_key()
        # What a certificate holds is read when it is asked for, and damage is found then.
        keys = Keys(
            _key_pem(key),
            _certificates_pem(chain),
            chain[0].subject.rfc4514_string(),
            _hosts(chain[0]),
            int(chain[0].not_valid_after_utc.timestamp() * 1000),
        )
    except _damage() as problem:
        raise StoreError(f"{_name(store)}: the first certificate is damaged") from problem
    if not belongs:
        raise StoreError(f"{_name(store)}: the key does not belong to the first certificate")
    return keys


def _damage() -> tuple[type[Exception], ...]:
    """What is raised by a certificate with something in it that it should not have."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    own = (x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
    return (TypeError, ValueError, OverflowError, UnsupportedAlgorithm, *own)


def read_trusted(store: Store) -> str:
    """The trusted certificates of a truststore as PEM. StoreError if there are none."""
    kind, raw = _read(store)
    found = _trusted_of_pkcs12(store, raw) if kind == PKCS12 else _certificates(store, raw)
    if not found:
        raise StoreError(f"{_name(store)}: there is no certificate in it")
    return _certificates_pem(found).decode()


def stamp_of(store: Store) -> tuple[int, int, int] | None:
    """Changes when the file does; None where there is none."""
    if not store.location:
        return None
    try:
        told = os.stat(store.location)
    except OSError:
        return None
    return told.st_mtime_ns, told.st_size, told.st_ino


# -- files ----------------------------------------------------------------------------------------


def _read(store: Store) -> tuple[str, bytes]:
    """What kind it really is, and its bytes."""
    wanted = (store.kind or "").upper()
    if wanted and wanted not in (PEM, PKCS12, JKS):
        raise StoreError(f"ssl.{store.what}.type={store.kind}: expected PEM or PKCS12")
    if store.key or store.certificates:
        return PEM, _inline(store)
    raw = _content(store)
    found = _kind_of(raw)
    if found == JKS:
        raise StoreError(_no_jks(store))
    # Java opens PKCS12 where JKS was said, and JKS is what is said where nobody did.
    if found is None or wanted not in ("", JKS, found):
        raise StoreError(
            f"{_name(store)}: this is not {wanted or 'PEM or PKCS12'}"
            + (f" but {found}: set ssl.{store.what}.type={found}" if found else "")
        )
    return found, raw


def _inline(store: Store) -> bytes:
    if store.location:
        raise StoreError(
            f"ssl.{store.what}.location and a {store.what} written out are both set: keep one"
        )
    if (store.kind or PEM).upper() != PEM:
        raise StoreError(
            f"a {store.what} that is written out has to be PEM: set ssl.{store.what}.type=PEM"
        )
    if store.what == "keystore" and not (store.key and store.certificates):
        raise StoreError(
            "ssl.keystore.key and ssl.keystore.certificate.chain go together: set both"
        )
    return "\n".join(text for text in (store.key, store.certificates) if text).encode()


def _content(store: Store) -> bytes:
    assert store.location is not None
    try:
        with open(store.location, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StoreError(f"{_name(store)} is not a file")
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as problem:
        raise StoreError(
            f"{_name(store)} cannot be read: {problem.strerror}; "
            f"see ssl.{store.what}.location and the rights of the file"
        ) from problem
    if len(raw) > FILE_BYTES_MAX:
        raise StoreError(f"{_name(store)} has more than {FILE_BYTES_MAX} bytes")
    return raw


def _open_at_once(path: str, flags: int) -> int:
    """Without waiting for who writes to a pipe: where the keys are may be altered over the wire."""
    return os.open(path, flags | os.O_NONBLOCK)


def _kind_of(raw: bytes) -> str | None:
    if raw.startswith(_JKS_MAGIC):
        return JKS
    if b"-----BEGIN " in raw:
        return PEM
    return PKCS12 if raw[:1] == b"\x30" else None  # a sequence of DER


def _no_jks(store: Store) -> str:
    path = store.location or ""
    other = f"{os.path.splitext(path)[0]}.p12"
    return (
        f"{_name(store)} is a JKS keystore, which only Java reads. Convert it: "
        f"keytool -importkeystore -srckeystore {path} -destkeystore {other} "
        f"-deststoretype PKCS12; then set ssl.{store.what}.location={other} "
        f"and ssl.{store.what}.type=PKCS12"
    )


def _name(store: Store) -> str:
    return store.location or f"ssl.{store.what}"


# -- PKCS12 ---------------------------------------------------------------------------------------


def _keys_of_pkcs12(store: Store, raw: bytes) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import pkcs12

    for password in dict.fromkeys((store.password, store.key_password)):
        try:
            key, own, others = pkcs12.load_key_and_certificates(raw, _bytes(password))
        except (ValueError, UnsupportedAlgorithm):
            continue
        if key is None or own is None:
            raise StoreError(f"{_name(store)}: there is no private key with a certificate in it")
        return key, [own, *others]
    raise StoreError(_cannot_open(store))


def _trusted_of_pkcs12(store: Store, raw: bytes) -> list[x509.Certificate]:
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        found = pkcs12.load_pkcs12(raw, _bytes(store.password))
    except _damage() as problem:
        raise StoreError(_cannot_open(store)) from problem
    own = [] if found.cert is None else [found.cert.certificate]
    return own + [each.certificate for each in found.additional_certs]


def _cannot_open(store: Store) -> str:
    return (
        f"{_name(store)} cannot be opened: ssl.{store.what}.password is "
        f"{'wrong' if store.password else 'missing'}, or the file is damaged or of an old kind"
    )


# -- PEM ------------------------------------------------------------------------------------------


def _keys_of_pem(store: Store, raw: bytes) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
    if store.password:
        raise StoreError("ssl.keystore.password is not for PEM: set ssl.key.password instead")
    blocks = [block for label, block in _blocks(raw) if label.endswith(b"PRIVATE KEY")]
    if len(blocks) != 1:
        raise StoreError(f"{_name(store)}: expected one private key and found {len(blocks)}")
    chain = _certificates(store, raw)
    if not chain:
        raise StoreError(f"{_name(store)}: there is no certificate beside the private key")
    return _pem_key(store, blocks[0]), chain


def _pem_key(store: Store, block: bytes) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    password = store.key_password if b"ENCRYPTED" in block else None
    if password is not None and _takes_long(block):
        raise StoreError(f"{_name(store)}: the private key takes too long to open: fewer rounds")
    try:
        return load_pem_private_key(block, _bytes(password))
    except TypeError as problem:
        raise StoreError(
            f"{_name(store)}: the private key is encrypted, and ssl.key.password is not set"
        ) from problem
    except (ValueError, UnsupportedAlgorithm) as problem:
        wrong = ", or ssl.key.password is wrong" if password else ""
        raise StoreError(f"{_name(store)}: the private key is damaged{wrong}") from problem


def _takes_long(block: bytes) -> bool:
    """Whether opening an encrypted key is too much work, by the numbers that say so: they are all
    that stand in it in clear. What cannot be read is for others to refuse."""
    from penstock.security.distinguished_names import extent_of

    work = 1
    try:
        rest = [memoryview(base64.b64decode(b"".join(block.splitlines()[1:-1]), validate=True))]
        for _ in range(_ELEMENTS_MAX):
            while rest and not rest[-1]:
                rest.pop()
            if not rest or work > STRETCHING_MAX:
                return work > STRETCHING_MAX
            content = rest.pop()
            start, end = extent_of(content)
            rest.append(content[end:])
            if content[0] & _CONSTRUCTED:
                rest.append(content[start:end])
            elif content[0] == _INTEGER:
                work *= max(int.from_bytes(content[start:end]), 1)
    except (ValueError, IndexError):
        return False
    return True


def _certificates(store: Store, raw: bytes) -> list[x509.Certificate]:
    from cryptography import x509

    if store.what == "truststore" and store.password and _kind_of(raw) == PEM:
        raise StoreError("ssl.truststore.password is not for PEM: take it out")
    try:
        return [
            x509.load_pem_x509_certificate(block)
            for label, block in _blocks(raw)
            if label in (b"CERTIFICATE", b"X509 CERTIFICATE")
        ]
    except _damage() as problem:
        raise StoreError(f"{_name(store)}: a certificate in it is damaged") from problem


def _blocks(raw: bytes) -> list[tuple[bytes, bytes]]:
    """Label and text of each block, with the line breaks that a properties file takes away."""
    found = []
    for match in re.finditer(_PEM_BLOCK, raw, re.DOTALL):
        label, body = match.groups()
        if b":" in body:
            found.append((label, match[0]))  # headers of an old kind: their lines matter
            continue
        text = b"".join(body.split())
        lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
        block = b"\n".join((b"-----BEGIN %b-----" % label, *lines, b"-----END %b-----" % label))
        found.append((label, block + b"\n"))
    return found


# -- what comes out -------------------------------------------------------------------------------


def _bytes(password: str | None) -> bytes | None:
    return None if password is None else password.encode()


def _key_pem(key: PrivateKeyTypes) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _certificates_pem(certificates: list[x509.Certificate]) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def _hosts(certificate: x509.Certificate) -> frozenset[str]:
    """Under which names and addresses it may serve."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(each.value) for each in names)

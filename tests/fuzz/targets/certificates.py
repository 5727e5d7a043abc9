"""What comes with a connection, or beside it: names in certificates, stores, addresses, URLs."""

from __future__ import annotations

import base64
import functools
import logging
from collections.abc import Iterator

from penstock.coordination.group.classic.subscriptions import topics_of
from penstock.metadata.acls import Acl
from penstock.model.operations import Operation
from penstock.model.resources import PatternType, Permission, ResourceType
from penstock.protocol.generated.consumer_protocol import ConsumerProtocolSubscription
from penstock.security.authority import Authority, Issued
from penstock.security.distinguished_names import subject_of
from penstock.security.entries import Entries
from penstock.security.retrieval import check_url
from penstock.security.stores import Store, StoreError, read_keys, read_trusted
from tests.fuzz.target import Target


@functools.cache
def _issued() -> tuple[Authority, Issued]:
    authority = Authority.make()
    return authority, authority.issue("a,b\\c=d", ["localhost"], organization=" o ", unit="#x")


def _der(pem: str) -> bytes:
    return base64.b64decode("".join(pem.splitlines()[1:-1]))


def name(data: bytes) -> None:
    """The name in a certificate, whoever made it: a text or a ValueError."""
    try:
        subject = subject_of(data)
    except ValueError:
        return
    assert isinstance(subject, str)


def _certificates() -> Iterator[bytes]:
    authority, issued = _issued()
    yield _der(authority.certificate_pem)
    yield _der(issued.chain_pem.partition("-----END CERTIFICATE-----")[0] + "-----END")


def store(data: bytes) -> None:
    """Keys and trust as texts: read, or refused without repeating the key."""
    text = data.decode("latin-1")
    if len(text) < 2:
        return  # nothing is given, and nobody reads it
    middle = len(text) // 2
    for read in (
        lambda: read_keys(Store("keystore", "PEM", key=text[:middle], certificates=text[middle:])),
        lambda: read_keys(Store("keystore", "PEM", key=text, certificates=text)),
        lambda: read_trusted(Store("truststore", "PEM", certificates=text)),
    ):
        try:
            read()
        except StoreError as refusal:
            assert text[20:60] not in str(refusal) or len(text) < 100


def _stores() -> Iterator[bytes]:
    authority, issued = _issued()
    yield (issued.key_pem() + issued.chain_pem).encode()
    yield (issued.key_pem("secret") + issued.chain_pem).encode()
    yield authority.certificate_pem.encode()
    yield b"-----BEGIN PRIVATE KEY-----" * 100


def host(data: bytes) -> None:
    """An entry's host and a client's address, with a zero between: nothing is raised, and taking
    the entry away leaves nothing."""
    pattern, _, address = data.decode(errors="replace").partition("\0")
    kind = int(ResourceType.TOPIC)
    acl = Acl(
        kind, "t", int(PatternType.LITERAL), "User:a", pattern, int(Operation.READ),
        int(Permission.ALLOW),
    )  # fmt: skip
    entries = Entries()
    entries.add(acl)
    found = entries.verdict("User:a", address, kind, "t")
    assert not found.denied
    entries.remove(acl)
    assert not entries.verdict("User:a", address, kind, "t").allowed


def _hosts() -> Iterator[bytes]:
    for pattern in ("*", "10.0.0.0/8", "::/0", "fe80::1%eth0", "1.2.3.4", "x/y", "1/99999999999"):
        for address in ("10.1.2.3", "::ffff:10.1.2.3", "", "fe80::1%eth0"):
            yield f"{pattern}\0{address}".encode()


def url(data: bytes) -> None:
    """An address for keys: taken or refused, and never one that others can listen to."""
    text = data.decode(errors="replace")
    try:
        check_url(text)
    except ValueError:
        return
    # What stands before the scheme and cannot be printed is not part of an address.
    begin = "".join(each for each in text.lower() if each.isprintable()).strip()
    assert begin.startswith(("https:", "file:", "http:"))


def _urls() -> Iterator[bytes]:
    yield b"https://issuer.example:8443/keys?x=1"
    yield b"file:///etc/keys.json"
    yield b"http://127.0.0.1:80/keys"
    yield b"http://[::1]:99999/keys"
    yield b"http://user:secret@[fe80::1%25x]/"


def subscription(data: bytes) -> None:
    """What a member of a classic group says it reads."""
    said = logging.getLogger("penstock.coordination.classic")
    said.disabled = True  # or the log would be what is measured
    try:
        topics = topics_of("g", [data])
    finally:
        said.disabled = False
    assert topics is None or all(isinstance(topic, str) for topic in topics)


def _subscriptions() -> Iterator[bytes]:
    for version in ConsumerProtocolSubscription.VERSIONS:
        said = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"x")
        yield version.to_bytes(2, "big") + said.encode(version)
    yield b""


TARGETS = [
    Target("certificates", name, _certificates, memory_base=2 << 20),
    Target("stores", store, _stores, memory_base=4 << 20),
    Target("acl_hosts", host, _hosts, size_max=200, memory_base=4 << 20),
    Target("urls", url, _urls, size_max=300),
    Target("subscriptions", subscription, _subscriptions, size_max=500),
]

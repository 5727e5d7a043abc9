"""What is kept of a password for SCRAM (RFC 5802): enough to check it, too little to use it."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.scram import SHA_256, SHA_512, ScramCredential

if TYPE_CHECKING:
    from collections.abc import Mapping

ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 16_384
"""More would let whoever sets a password choose how long every login of it takes."""

SALT_BYTES_MAX = 1_024
SALT_BYTES = 32
"""Of a salt that is made here."""


class Mechanism(NamedTuple):
    """One of SCRAM's mechanisms."""

    number: int
    """In requests and in the metadata log."""
    name: str
    hash_name: str
    size: int
    """Bytes of a digest, and so of a salted password and of each key."""


MECHANISMS: Mapping[int, Mechanism] = {
    SHA_256: Mechanism(SHA_256, "SCRAM-SHA-256", "sha256", 32),
    SHA_512: Mechanism(SHA_512, "SCRAM-SHA-512", "sha512", 64),
}

BY_NAME: Mapping[str, Mechanism] = {each.name: each for each in MECHANISMS.values()}


def salted(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password: milliseconds of work, which belong on a worker and not on the loop.

    As in Kafka, the password is taken as it is, in UTF-8, without normalisation.
    """
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential(
    mechanism: Mechanism, salt: bytes, iterations: int, salted_password: bytes
) -> ScramCredential:
    """What the metadata log keeps."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.hash_name)
    return ScramCredential(
        salt,
        hashlib.new(mechanism.hash_name, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", mechanism.hash_name),
        iterations,
    )

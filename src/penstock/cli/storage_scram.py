"""The first users of a cluster, in the words of `storage format --add-scram`.

A word is MECHANISM=[name=...,password=...], with `salt`, `iterations` and, in place of a password,
`saltedpassword`: Kafka's own syntax. Nothing of a word is repeated in a complaint about it, since
it may hold a password.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from penstock.cli.failure import USAGE, Failure
from penstock.security.scram_keys import (
    BY_NAME,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    SALT_BYTES_MAX,
    credential,
    salted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.platform.chance import Chance
    from penstock.protocol.generated.metadata_records import UserScramCredentialRecord
    from penstock.security.scram_keys import Mechanism

OPTION = "--add-scram"
EXAMPLE = f"such as {OPTION} 'SCRAM-SHA-512=[name=alice,password=...]'"

_KEYS = ("name", "password", "salt", "saltedpassword", "iterations")
_PART = re.compile(r'(?P<key>[^=,]*)=(?P<value>"[^"]*"|[^,]*)(?:,|$)')


def credentials_of(words: Sequence[str], chance: Chance) -> list[UserScramCredentialRecord]:
    """What the metadata log of the new cluster begins with; Failure where a word makes no sense."""
    records = [_record(word, chance) for word in words]
    users = [(record.mechanism, record.name) for record in records]
    if len(set(users)) != len(users):
        raise _wrong("the same user has two passwords for the same mechanism")
    return records


def _record(word: str, chance: Chance) -> UserScramCredentialRecord:
    name, equals, text = word.strip().partition("=")
    mechanism = BY_NAME.get(name)
    if not equals or mechanism is None:
        raise _wrong(f"it begins with {' or '.join(f'{each}=' for each in BY_NAME)}")
    if not (text.startswith("[") and text.endswith("]")):
        raise _wrong("what comes after the mechanism stands between [ and ]")
    parts = _parts(text[1:-1])
    if not parts.get("name"):
        raise _wrong("the name of the user is missing")
    iterations = _iterations(parts.get("iterations"))
    salt = _salt(parts.get("salt"), chance)
    secret = _salted_password(mechanism, parts, salt, iterations)
    return credential(mechanism, salt, iterations, secret).record(mechanism.number, parts["name"])


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise _wrong("each part is KEY=VALUE, and a comma stands between them")
        key, value = found["key"].strip(), found["value"]
        if key not in _KEYS:
            # Not repeated: with a comma in it, the rest of a password looks like a key.
            raise _wrong(f"a part is none of {', '.join(_KEYS)}")
        if key in parts:
            raise _wrong(f"{key} stands there twice")
        if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
            value = value[1:-1]
        parts[key] = value
        at = found.end()
    return parts


def _iterations(text: str | None) -> int:
    if text is None:
        return ITERATIONS_MIN
    if not (text.isascii() and text.isdigit()) or not (
        ITERATIONS_MIN <= int(text) <= ITERATIONS_MAX
    ):
        raise _wrong(f"iterations is a number from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return int(text)


def _salt(text: str | None, chance: Chance) -> bytes:
    if text is None:
        return chance.token_bytes(SALT_BYTES)
    salt = _decoded("salt", text)
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise _wrong(f"a salt has 1 to {SALT_BYTES_MAX} bytes")
    return salt


def _salted_password(
    mechanism: Mechanism, parts: dict[str, str], salt: bytes, iterations: int
) -> bytes:
    password, given = parts.get("password"), parts.get("saltedpassword")
    if (password is None) == (given is None):
        raise _wrong("there is either a password or a saltedpassword")
    if given is None:
        if not password:
            raise _wrong("the password is empty")
        return salted(mechanism, password, salt, iterations)
    if "salt" not in parts:
        raise _wrong("a saltedpassword goes with its salt")
    secret = _decoded("saltedpassword", given)
    if len(secret) != mechanism.size:
        raise _wrong(f"a saltedpassword of {mechanism.name} has {mechanism.size} bytes")
    return secret


def _decoded(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _wrong(f"{key} is not in base64") from None


def _wrong(problem: str) -> Failure:
    return Failure(f"{OPTION}: {problem}", EXAMPLE, USAGE)

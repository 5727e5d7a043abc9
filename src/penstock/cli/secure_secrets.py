"""Secrets among settings: which ones they are, where they may be kept, and how they are not shown.

A password on a command line stands in the list of processes, and one in a file of settings in every
copy of it. So the value of a secret may name where it is: `env:NAME` or `file:PATH`.
"""

from __future__ import annotations

import os

from penstock.cli.failure import USAGE, Failure

SECRETS = frozenset(
    {
        "sasl.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)
MASK = "********"
SECRET_BYTES_MAX = 65_536

_ENVIRONMENT, _FILE = "env:", "file:"


def secret_of(key: str, value: str) -> str:
    """The value itself; for a secret that names where it is, what is there."""
    if key not in SECRETS:
        return value
    if value.startswith(_ENVIRONMENT):
        name = value.removeprefix(_ENVIRONMENT)
        found = os.environ.get(name)
        if found is None:
            raise Failure(
                f"{key} is to be taken from the environment variable {name}, which is not set",
                "set it, or say otherwise where the secret is",
                USAGE,
            )
        return found
    if value.startswith(_FILE):
        return read_secret(value.removeprefix(_FILE), key)
    return value


def read_secret(path: str, what: str) -> str:
    """What a file holds, without the end of its last line."""
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(SECRET_BYTES_MAX + 1)
        text = data.decode()
    except OSError as problem:
        raise Failure(f"{what}: {path}: {problem.strerror}", "", USAGE) from None
    except UnicodeDecodeError:
        raise Failure(f"{what}: {path} is not text in UTF-8", "", USAGE) from None
    if len(data) > SECRET_BYTES_MAX:
        raise Failure(f"{what}: {path} is too large for a secret", "", USAGE)
    # An editor ends the line; a key in PEM has many, and all of them belong to it.
    return text.removesuffix("\n").removesuffix("\r")


def shown(key: str, value: str) -> str:
    """The value as it may be printed: a secret only if it says where it is, not what."""
    if key not in SECRETS or value.startswith((_ENVIRONMENT, _FILE)):
        return value
    return MASK

"""Passwords of users: who gets one, who loses one, and what is kept of it."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from penstock.controller import scram
from penstock.metadata.scram import SHA_256, SHA_512
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import alter_user_scram_credentials as made
from penstock.protocol.generated.metadata_records import FeatureLevelRecord

from .stage import Stage

UNACCEPTABLE = ErrorCode.UNACCEPTABLE_CREDENTIAL
DUPLICATE = ErrorCode.DUPLICATE_RESOURCE
MISSING = ErrorCode.RESOURCE_NOT_FOUND
SALTED = {SHA_256: b"\x01" * 32, SHA_512: b"\x02" * 64}


def setting(user: str, mechanism: int = SHA_256, **fields: Any) -> made.ScramCredentialUpsertion:
    defaults = {
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": SALTED.get(mechanism, b"\x03" * 32),
    }
    return made.ScramCredentialUpsertion(name=user, mechanism=mechanism, **{**defaults, **fields})


def taking(user: str, mechanism: int = SHA_256) -> made.ScramCredentialDeletion:
    return made.ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(stage: Stage, *changes: Any) -> dict[str, ErrorCode]:
    request = made.AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, made.ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, made.ScramCredentialUpsertion)],
    )
    results = stage.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request).results
    assert all(bool(each.error_code) == (each.error_message is not None) for each in results)
    assert len({each.user for each in results}) == len(results)
    return {each.user: ErrorCode(each.error_code) for each in results}


def test_what_is_kept_checks_a_password_and_is_none() -> None:
    stage = Stage(1)
    assert alter(stage, setting("ann", SHA_512, iterations=8192)) == {"ann": 0}
    kept = stage.image.scram.users[SHA_512, "ann"]
    client_key = hmac.digest(SALTED[SHA_512], b"Client Key", "sha512")
    assert kept.stored_key == hashlib.sha512(client_key).digest()
    assert kept.server_key == hmac.digest(SALTED[SHA_512], b"Server Key", "sha512")
    assert (kept.salt, kept.iterations) == (b"salt", 8192)
    out = bytearray()
    for record in stage.image.scram.records():
        record.write(0, out)
    assert SALTED[SHA_512] not in bytes(out)


def test_mechanisms_are_set_and_taken_away_apart() -> None:
    stage = Stage(1)
    alter(stage, setting("ann", SHA_256))
    alter(stage, setting("ann", SHA_512))
    assert alter(stage, taking("ann", SHA_256)) == {"ann": 0}
    assert list(stage.image.scram.users) == [(SHA_512, "ann")]
    assert alter(stage, taking("ann", SHA_256)) == {"ann": MISSING}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (setting(""), UNACCEPTABLE),
        (setting("ann", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (setting("ann", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (setting("ann", iterations=4095), UNACCEPTABLE),
        (setting("ann", iterations=16385), UNACCEPTABLE),
        (setting("ann", iterations=-1), UNACCEPTABLE),
        (setting("ann", salt=b""), UNACCEPTABLE),
        (setting("ann", salt=b"x" * 1025), UNACCEPTABLE),
        (setting("ann", salted_password=b""), UNACCEPTABLE),
        (setting("ann", SHA_512, salted_password=SALTED[SHA_256]), UNACCEPTABLE),
        (taking(""), UNACCEPTABLE),
        (taking("ann", 7), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (taking("ann"), MISSING),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_and_the_others_are_not(change: Any, error: ErrorCode) -> None:
    stage = Stage(1)
    assert alter(stage, change, setting("bob")) == {change.name: error, "bob": 0}
    assert list(stage.image.scram.users) == [(SHA_256, "bob")]


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_both_ends_of_the_iterations_are_taken(iterations: int) -> None:
    assert alter(Stage(1), setting("ann", iterations=iterations)) == {"ann": 0}


@pytest.mark.parametrize(
    "changes",
    [
        (setting("ann"), setting("ann")),
        (setting("ann", SHA_256), setting("ann", SHA_512)),
        (taking("ann"), taking("ann")),
        (taking("ann"), setting("ann")),
        (setting("ann"), setting("ann"), setting("ann")),
    ],
)
def test_a_user_who_is_altered_twice_at_once_is_not_altered(changes: tuple[Any, ...]) -> None:
    stage = Stage(1)
    alter(stage, setting("ann", iterations=5000))
    assert alter(stage, *changes, setting("bob")) == {"ann": DUPLICATE, "bob": 0}
    assert stage.image.scram.users[SHA_256, "ann"].iterations == 5000


def test_a_cluster_that_is_not_upgraded_yet_has_no_credentials() -> None:
    stage = Stage(1)
    stage.take([FeatureLevelRecord(name="metadata.version", feature_level=10)])
    assert alter(stage, setting("ann"), taking("bob")) == {
        "ann": ErrorCode.UNSUPPORTED_VERSION,
        "bob": ErrorCode.UNSUPPORTED_VERSION,
    }


def test_there_is_an_end_to_how_many_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram, "CREDENTIALS_MAX", 2)
    stage = Stage(1)
    full = ErrorCode.POLICY_VIOLATION
    assert alter(stage, *map(setting, ("ann", "bob", "eve"))) == {"ann": 0, "bob": 0, "eve": full}
    assert alter(stage, setting("ann", iterations=5000)) == {"ann": 0}
    monkeypatch.setattr(scram, "CHANGES_MAX", 1)
    assert alter(stage, setting("ann"), setting("bob")) == {"ann": full, "bob": full}


def test_names_that_no_batch_would_carry_are_refused() -> None:
    long = [setting(f"{number}" + "x" * 30_000) for number in range(110)]
    errors = list(alter(Stage(1), *long).values())
    assert (errors[0], errors[-1]) == (ErrorCode.NONE, ErrorCode.POLICY_VIOLATION)

"""Users of SCRAM and their credentials, through `wire`.

The password is salted and stretched here: what travels, and what the cluster keeps, is what was
made of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.cli.failure import Failure, Failures
from penstock.cli.output import Table
from penstock.cli.wire_cluster import Cluster, Refusal, check
from penstock.model.errors import ErrorCode
from penstock.protocol.generated import alter_user_scram_credentials as altering
from penstock.protocol.generated import describe_user_scram_credentials as describing
from penstock.security.scram_keys import BY_NAME, MECHANISMS, SALT_BYTES, salted

Credentials = dict[str, dict[str, int]]
"""Iterations by mechanism, by user."""


def credentials(cluster: Cluster, names: Sequence[str] | None) -> Credentials:
    """What is known of some users, or of all; who has no credentials is left out."""
    wanted = None if names is None else [describing.UserName(name=name) for name in names]
    request = describing.DescribeUserScramCredentialsRequest(users=wanted)
    told = cluster.anyone.ask(request, describing.DescribeUserScramCredentialsResponse)
    check(told.error_code, "users cannot be listed", told.error_message)
    found: Credentials = {}
    for one in sorted(told.results, key=lambda one: one.user):
        if one.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        check(one.error_code, f"user {one.user} cannot be described", one.error_message)
        found[one.user] = {
            _mechanism_name(info.mechanism): info.iterations for info in one.credential_infos
        }
    return found


def _mechanism_name(number: int) -> str:
    known = MECHANISMS.get(number)
    return f"mechanism {number}" if known is None else known.name


def set_password(
    cluster: Cluster, user: str, password: str, mechanisms: Iterable[str], iterations: int
) -> None:
    """Give a user a password for some mechanisms, in place of the one there was.

    One after the other: a request may alter a user once.
    """
    for mechanism in map(BY_NAME.__getitem__, mechanisms):
        salt = os.urandom(SALT_BYTES)
        upsertion = altering.ScramCredentialUpsertion(
            name=user,
            mechanism=mechanism.number,
            iterations=iterations,
            salt=salt,
            salted_password=salted(mechanism, password, salt, iterations),
        )
        request = altering.AlterUserScramCredentialsRequest(upsertions=[upsertion])
        for failure in _alter(cluster, request, f"no password for {mechanism.name} was set"):
            raise failure


def delete(cluster: Cluster, found: Credentials) -> Failures:
    """Take all credentials from users."""
    failures = Failures()
    for mechanism in MECHANISMS.values():
        deletions = [
            altering.ScramCredentialDeletion(name=user, mechanism=mechanism.number)
            for user, known in found.items()
            if mechanism.name in known
        ]
        if deletions:
            request = altering.AlterUserScramCredentialsRequest(deletions=deletions)
            for failure in _alter(cluster, request, f"{mechanism.name} was not deleted"):
                failures.add(failure)
    return failures


def _alter(
    cluster: Cluster, request: altering.AlterUserScramCredentialsRequest, what: str
) -> list[Failure]:
    told = cluster.anyone.ask(request, altering.AlterUserScramCredentialsResponse)
    return [
        Refusal(one.error_code, f"user {one.user}: {what}", one.error_message)
        for one in told.results
        if one.error_code != ErrorCode.NONE
    ]


def documents(found: Credentials) -> list[dict[str, Any]]:
    """Users, for programs."""
    return [
        {
            "user": user,
            "mechanisms": [
                {"mechanism": name, "iterations": count} for name, count in sorted(known.items())
            ],
        }
        for user, known in found.items()
    ]


def table(found: Credentials) -> Table:
    rows = [
        (user, mechanism, iterations)
        for user, known in found.items()
        for mechanism, iterations in sorted(known.items())
    ]
    return Table(("user", "mechanism", "iterations"), rows)

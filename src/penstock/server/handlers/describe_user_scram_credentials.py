"""DescribeUserScramCredentials, version 0: which users there are, and with which mechanisms.

Of a credential only its mechanism and its iterations are told.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.metadata.scram import ScramCredential
    from penstock.protocol.generated.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse:
    """Answer from the image; a request that names nobody asks about everybody."""
    infos = _infos(broker.image.scram.users)
    asked = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[
            _twice(user) if count > 1 else _described(user, infos.get(user))
            for user, count in (asked or dict.fromkeys(sorted(infos), 1)).items()
        ],
    )


def _infos(
    users: Mapping[tuple[int, str], ScramCredential],
) -> dict[str, list[CredentialInfo]]:
    infos: dict[str, list[CredentialInfo]] = {}
    for (mechanism, user), credential in users.items():
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        infos.setdefault(user, []).append(info)
    return infos


def _described(user: str, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if infos is None:
        return _refused(user, ErrorCode.RESOURCE_NOT_FOUND, "The user has no SCRAM credentials.")
    return DescribeUserScramCredentialsResult(
        user=user,
        error_message=None,
        credential_infos=sorted(infos, key=lambda info: info.mechanism),
    )


def _twice(user: str) -> DescribeUserScramCredentialsResult:
    return _refused(user, ErrorCode.DUPLICATE_RESOURCE, "The request asks about this user twice.")


def _refused(user: str, error: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=error, error_message=message)

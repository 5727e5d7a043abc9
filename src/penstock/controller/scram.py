"""AlterUserScramCredentials, version 0: passwords of users, as what SCRAM keeps of them.

Each user is changed or refused alone. A request names a user once, whatever the mechanism: two
changes of one user in one request would have an order, and it has none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.controller.decision import ConfigRoom, Context, Decision, Refusal
from penstock.metadata.levels import METADATA_VERSION, SCRAM_FROM
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from penstock.protocol.generated.metadata_records import RemoveUserScramCredentialRecord
from penstock.security.scram_keys import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    SALT_BYTES_MAX,
    credential,
)

if TYPE_CHECKING:
    from penstock.protocol.generated.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )
    from penstock.protocol.generated.metadata_records import UserScramCredentialRecord

CHANGES_MAX = 10_000
"""Users whom one request may change."""

CREDENTIALS_MAX = 100_000
"""Credentials that there may be in all."""

_NONE = Refusal(ErrorCode.NONE)
_TWICE = Refusal(ErrorCode.DUPLICATE_RESOURCE, "The request alters this user more than once.")
_TOO_OLD = Refusal(
    ErrorCode.UNSUPPORTED_VERSION,
    f"SCRAM credentials need {METADATA_VERSION} {SCRAM_FROM} or later.",
)
_TOO_MANY = Refusal(
    ErrorCode.POLICY_VIOLATION, f"One request may alter at most {CHANGES_MAX} users."
)
_FULL = Refusal(
    ErrorCode.POLICY_VIOLATION, f"There may be at most {CREDENTIALS_MAX} credentials in all."
)


def alter_credentials(context: Context, request: AlterUserScramCredentialsRequest) -> Decision:
    """AlterUserScramCredentials: the answer names each user once."""
    times = Counter(each.name for each in request.deletions)
    times.update(each.name for each in request.upsertions)
    if len(times) > CHANGES_MAX:
        return Decision([], _answer(dict.fromkeys(times, _TOO_MANY)))
    outcomes: dict[str, Refusal] = {name: _TWICE for name, count in times.items() if count > 1}
    if context.image.features.levels.get(METADATA_VERSION, 0) < SCRAM_FROM:
        return Decision([], _answer({**dict.fromkeys(times, _TOO_OLD), **outcomes}))
    records: list[UserScramCredentialRecord | RemoveUserScramCredentialRecord] = []
    for deletion in request.deletions:
        if deletion.name in outcomes:
            continue
        refusal = outcomes[deletion.name] = _cannot_delete(context, deletion) or _NONE
        if refusal is _NONE:
            records.append(
                RemoveUserScramCredentialRecord(name=deletion.name, mechanism=deletion.mechanism)
            )
    room = Room(context)
    for upsertion in request.upsertions:
        if upsertion.name in outcomes:
            continue
        refusal = outcomes[upsertion.name] = _cannot_set(upsertion) or room.take(upsertion) or _NONE
        if refusal is _NONE:
            records.append(_record(upsertion))
    return Decision(records, _answer(outcomes))


class Room:
    """How many more credentials there may be, and how many bytes of them in one batch."""

    def __init__(self, context: Context) -> None:
        self._users = context.image.scram.users
        self._left = CREDENTIALS_MAX - len(self._users)
        self._bytes = ConfigRoom()

    def take(self, upsertion: ScramCredentialUpsertion) -> Refusal | None:
        """Why a credential has no room; None if it has, and takes it."""
        if not self._bytes.take_bytes(len(upsertion.name.encode()) + len(upsertion.salt)):
            return _TOO_MANY
        if (upsertion.mechanism, upsertion.name) not in self._users:
            if self._left <= 0:
                return _FULL
            self._left -= 1
        return None


def _cannot_delete(context: Context, deletion: ScramCredentialDeletion) -> Refusal | None:
    refusal = _misnamed(deletion.name, deletion.mechanism)
    if refusal is not None:
        return refusal
    if (deletion.mechanism, deletion.name) not in context.image.scram.users:
        return Refusal(
            ErrorCode.RESOURCE_NOT_FOUND, "The user has no credential for this mechanism."
        )
    return None


def _cannot_set(upsertion: ScramCredentialUpsertion) -> Refusal | None:
    refusal = _misnamed(upsertion.name, upsertion.mechanism)
    if refusal is not None:
        return refusal
    if upsertion.iterations < ITERATIONS_MIN:
        return _unacceptable(f"Too few iterations: there are at least {ITERATIONS_MIN}.")
    if upsertion.iterations > ITERATIONS_MAX:
        return _unacceptable(f"Too many iterations: there are at most {ITERATIONS_MAX}.")
    if not 0 < len(upsertion.salt) <= SALT_BYTES_MAX:
        return _unacceptable(f"A salt has 1 to {SALT_BYTES_MAX} bytes.")
    mechanism = MECHANISMS[upsertion.mechanism]
    if len(upsertion.salted_password) != mechanism.size:
        return _unacceptable(f"A salted password of {mechanism.name} has {mechanism.size} bytes.")
    return None


def _misnamed(user: str, mechanism: int) -> Refusal | None:
    if not user:
        return _unacceptable("The name of the user is empty.")
    if mechanism not in MECHANISMS:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "There is no such SCRAM mechanism.")
    return None


def _unacceptable(problem: str) -> Refusal:
    return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)


def _record(upsertion: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    """What the log keeps. The salted password is as good as the password, and stays out of it."""
    kept = credential(
        MECHANISMS[upsertion.mechanism],
        upsertion.salt,
        upsertion.iterations,
        upsertion.salted_password,
    )
    return kept.record(upsertion.mechanism, upsertion.name)


def _answer(outcomes: dict[str, Refusal]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name, error_code=refusal.error, error_message=refusal.message
            )
            for name, refusal in outcomes.items()
        ]
    )

"""AlterUserScramCredentials, version 0: passwords of users, as what SCRAM keeps of them.

Each user is changed or refused alone. A request names a user once, whatever the mechanism: two
changes of one user in one request would have an order, and it has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.decision import ConfigRoom, Context, Decision, Refusal
from penstock.metadata.levels import METADATA_VERSION, SCRAM_FROM
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
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
    )
    from penstock.protocol.generated.metadata_records import UserScramCredentialRecord

Change = ScramCredentialDeletion | ScramCredentialUpsertion

CHANGES_MAX = 10_000
"""Users whom one request may change."""

CREDENTIALS_MAX = 100_000
"""Credentials that there may be in all."""

_NONE = Refusal(ErrorCode.NONE)
_TWICE = Refusal(ErrorCode.DUPLICATE_RESOURCE, "The request alters this user more than once.")
_MISSING = Refusal(ErrorCode.RESOURCE_NOT_FOUND, "The user has no credential for this mechanism.")
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
    """AlterUserScramCredentials: the answer names each user once, with their first problem."""
    changes: list[Change] = [*request.deletions, *request.upsertions]
    names = dict.fromkeys(each.name for each in changes)
    if len(names) > CHANGES_MAX:
        return Decision([], _answer(dict.fromkeys(names, _TOO_MANY)))
    judge = Judge(context)
    accepted: dict[str, Change] = {}
    refused: dict[str, Refusal] = {}
    for change in changes:
        name = change.name
        if name in refused:
            continue
        refusal = _TWICE if accepted.pop(name, None) is not None else judge.refuses(change)
        if refusal is None:
            accepted[name] = change
        else:
            refused[name] = refusal
    records = [_record(change) for change in accepted.values()]
    return Decision(records, _answer({**dict.fromkeys(names, _NONE), **refused}))


class Judge:
    """Looks at one change after the other, and at how many more there may be."""

    def __init__(self, context: Context) -> None:
        self._users = context.image.scram.users
        self._too_old = context.image.features.levels.get(METADATA_VERSION, 0) < SCRAM_FROM
        self._left = CREDENTIALS_MAX - len(self._users)
        self._bytes = ConfigRoom()

    def refuses(self, change: Change) -> Refusal | None:
        """Why a change cannot be made; None if it can."""
        if self._too_old:
            return _TOO_OLD
        if not change.name:
            return _unacceptable("The name of the user is empty.")
        if change.mechanism not in MECHANISMS:
            text = "There is no such SCRAM mechanism."
            return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text)
        known = (change.mechanism, change.name) in self._users
        if isinstance(change, ScramCredentialUpsertion):
            return _misstated(change) or self._has_no_room(change, known=known)
        return None if known else _MISSING

    def _has_no_room(self, change: ScramCredentialUpsertion, *, known: bool) -> Refusal | None:
        if not self._bytes.take_bytes(len(change.name.encode()) + len(change.salt)):
            return _TOO_MANY
        if known:
            return None
        if self._left <= 0:
            return _FULL
        self._left -= 1
        return None


def _misstated(change: ScramCredentialUpsertion) -> Refusal | None:
    if change.iterations < ITERATIONS_MIN:
        return _unacceptable(f"Too few iterations: there are at least {ITERATIONS_MIN}.")
    if change.iterations > ITERATIONS_MAX:
        return _unacceptable(f"Too many iterations: there are at most {ITERATIONS_MAX}.")
    if not 0 < len(change.salt) <= SALT_BYTES_MAX:
        return _unacceptable(f"A salt has 1 to {SALT_BYTES_MAX} bytes.")
    mechanism = MECHANISMS[change.mechanism]
    if len(change.salted_password) != mechanism.size:
        return _unacceptable(f"A salted password of {mechanism.name} has {mechanism.size} bytes.")
    return None


def _unacceptable(problem: str) -> Refusal:
    return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)


def _record(change: Change) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    """What the log keeps. The salted password is as good as the password, and stays out of it."""
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    kept = credential(
        MECHANISMS[change.mechanism], change.salt, change.iterations, change.salted_password
    )
    return kept.record(change.mechanism, change.name)


def _answer(outcomes: dict[str, Refusal]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name, error_code=refusal.error, error_message=refusal.message
            )
            for name, refusal in outcomes.items()
        ]
    )

"""SCRAM credentials by mechanism and user."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.layers import changed
from penstock.protocol.generated.metadata_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


SHA_256, SHA_512 = 1, 2


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def record(self, mechanism: int, name: str) -> UserScramCredentialRecord:
        """A user's credential as the log holds it."""
        return UserScramCredentialRecord(
            name=name,
            mechanism=mechanism,
            salt=self.salt,
            stored_key=self.stored_key,
            server_key=self.server_key,
            iterations=self.iterations,
        )

    def __repr__(self) -> str:  # a log line must not carry what unlocks an account
        return f"ScramCredential(iterations={self.iterations})"


class ScramImage:
    __slots__ = ("users",)

    def __init__(self, users: Mapping[tuple[int, str], ScramCredential] | None = None) -> None:
        self.users: Mapping[tuple[int, str], ScramCredential] = users if users is not None else {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScramImage) and self.users == other.users

    __hash__ = None  # type: ignore[assignment]

    def records(self) -> Iterator[UserScramCredentialRecord]:
        for (mechanism, name), credential in self.users.items():
            yield credential.record(mechanism, name)


class ScramDelta:
    """Credentials that changed; None for one taken away."""

    __slots__ = ("changed", "image")

    def __init__(self, image: ScramImage) -> None:
        self.image = image
        self.changed: dict[tuple[int, str], ScramCredential | None] = {}

    def credential(self, record: UserScramCredentialRecord) -> None:
        self.changed[record.mechanism, record.name] = ScramCredential(
            record.salt, record.stored_key, record.server_key, record.iterations
        )

    def remove(self, record: RemoveUserScramCredentialRecord) -> None:
        self.changed[record.mechanism, record.name] = None

    def apply(self) -> ScramImage:
        return ScramImage(changed(self.image.users, self.changed))

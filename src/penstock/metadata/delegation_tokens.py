"""Delegation tokens by id. The secret itself is derived from a key that is not stored here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.layers import changed
from penstock.protocol.generated.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class DelegationToken(NamedTuple):
    """Whom a token stands for, who asked for it and who may renew it, as KIND:NAME; and when it was
    made, until when it can be renewed, and until when it is good, in wall-clock milliseconds."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued: int
    renewable_until: int
    expires: int

    def record(self, token_id: str) -> DelegationTokenRecord:
        """The token as the log holds it."""
        return DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=list(self.renewers),
            issue_timestamp=self.issued,
            max_timestamp=self.renewable_until,
            expiration_timestamp=self.expires,
            token_id=token_id,
        )


class DelegationTokensImage:
    __slots__ = ("by_id",)

    def __init__(self, by_id: Mapping[str, DelegationToken] | None = None) -> None:
        self.by_id: Mapping[str, DelegationToken] = by_id if by_id is not None else {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DelegationTokensImage) and self.by_id == other.by_id

    __hash__ = None  # type: ignore[assignment]

    def records(self) -> Iterator[DelegationTokenRecord]:
        for token_id, token in self.by_id.items():
            yield token.record(token_id)


class DelegationTokensDelta:
    """Tokens that changed; None for one taken away."""

    __slots__ = ("changed", "image")

    def __init__(self, image: DelegationTokensImage) -> None:
        self.image = image
        self.changed: dict[str, DelegationToken | None] = {}

    def token(self, record: DelegationTokenRecord) -> None:
        self.changed[record.token_id] = DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def remove(self, record: RemoveDelegationTokenRecord) -> None:
        self.changed[record.token_id] = None

    def apply(self) -> DelegationTokensImage:
        return DelegationTokensImage(changed(self.image.by_id, self.changed))

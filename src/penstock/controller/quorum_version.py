"""kraft.version in UpdateFeatures: whether the log, or every node's file, says who votes.

Unlike all other features it is no part of the image: the quorum writes it down in records of its
own, and knows best whether it can be raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.levels import KRAFT_VERSION, SUPPORTED
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from penstock.raft.driver import RaftDriver


def quorum_part(
    request: UpdateFeaturesRequest,
) -> tuple[FeatureUpdateKey | None, UpdateFeaturesRequest]:
    """What a request wants of the quorum's own version, and all the rest of it."""
    updates = request.feature_updates
    own = next((each for each in updates if each.feature == KRAFT_VERSION), None)
    if own is None:
        return None, request
    rest = UpdateFeaturesRequest(
        timeout_ms=request.timeout_ms,
        feature_updates=[each for each in updates if each.feature != KRAFT_VERSION],
        validate_only=request.validate_only,
    )
    return own, rest


async def raise_version(
    raft: RaftDriver, update: FeatureUpdateKey, *, only_check: bool
) -> UpdateFeaturesResponse | None:
    """Why the quorum's version cannot be raised; None if it can be, or was."""
    level = update.max_version_level
    if not SUPPORTED[KRAFT_VERSION].holds(level):
        span = SUPPORTED[KRAFT_VERSION]
        return _refused(level, f"This release supports levels {span.first} to {span.last}.")
    reply = await raft.upgrade_kraft_version(level, only_check=only_check)
    if reply.error is ErrorCode.NONE:
        return None
    if reply.error is ErrorCode.INVALID_UPDATE_VERSION:
        return _refused(level, reply.message or "")
    return UpdateFeaturesResponse(error_code=reply.error, error_message=reply.message)


def _refused(level: int, reason: str) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error_code=ErrorCode.INVALID_UPDATE_VERSION,
        error_message=f"No feature was updated: {KRAFT_VERSION} cannot be set to level {level}. "
        f"{reason}",
    )

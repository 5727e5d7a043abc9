"""UpdateFeatures: raising and lowering what the cluster has agreed to speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.controller.decision import Context, Decision, Refusal
from penstock.controller.isr_min import on_elr_enabled
from penstock.metadata.levels import (
    ELR_FROM,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    NO_LEVELS,
    RELEASES,
    LevelRange,
    loses_metadata,
)
from penstock.model.config.problems import shortened
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata_records import FeatureLevelRecord
from penstock.protocol.generated.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from penstock.protocol.generated.update_features import (
        FeatureUpdateKey,
        UpdateFeaturesRequest,
    )

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def update_features(context: Context, request: UpdateFeaturesRequest) -> Decision:
    """All the updates of a request are made, or none is."""
    wanted = {u.feature: u.max_version_level for u in request.feature_updates}
    records: list[Any] = []
    for update in request.feature_updates:
        refusal = _refused(context, update, wanted)
        if refusal is not None:
            return Decision([], _failed(refusal))
        enabled = update.feature == ELR_VERSION and update.max_version_level > 0
        if enabled and not context.image.features.elr_enabled:
            records += on_elr_enabled(context.image.configs, context.settings.isr_min_default)
        records.append(
            FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
        )
    results = [UpdatableFeatureResult(feature=name) for name in wanted]
    response = UpdateFeaturesResponse(results=results)
    return Decision([] if request.validate_only else records, response)


def _failed(refusal: Refusal) -> UpdateFeaturesResponse:
    # Kafka gives one reason for all, too: clients apply it to each feature that they asked for.
    return UpdateFeaturesResponse(
        error_code=refusal.error, error_message=f"No feature was updated: {refusal.message}"
    )


def _refused(context: Context, update: FeatureUpdateKey, wanted: dict[str, int]) -> Refusal | None:
    name, level = update.feature, update.max_version_level
    problem = (
        _unsupported(context, name, level)
        or _wrong_direction(context, update)
        or _unfit(context, name, level, wanted)
    )
    if problem is None:
        return None
    return Refusal(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"{shortened(name)} cannot be set to level {level}. {problem}",
    )


def _unsupported(context: Context, name: str, level: int) -> str | None:
    """Who in the cluster could not work at this level."""
    if level < 0:
        return "Levels begin at 0."
    if name == KRAFT_VERSION:
        return "The quorum's own version changes with its voters, not here."
    mine = _lacking("Local controller", context.settings.node_id, context.supported, name, level)
    if mine is not None:
        return mine
    cluster = context.image.cluster
    for broker in cluster.brokers.values():
        problem = _lacking("Broker", broker.id, broker.features, name, level)
        if problem is not None:
            return problem
    for controller in cluster.controllers.values():
        problem = _lacking("Controller", controller.id, controller.features, name, level)
        if problem is not None:
            return problem
    known = {context.settings.node_id, *cluster.controllers}
    absent = next((voter for voter in context.settings.quorum if voter not in known), None)
    if absent is not None:
        return f"Controller {absent} has not said yet which levels it supports."
    return None


def _lacking(who: str, node: int, features: Any, name: str, level: int) -> str | None:
    span: LevelRange = features.get(name, NO_LEVELS)
    if level == 0 or span.holds(level):
        return None
    if span == NO_LEVELS:
        return f"{who} {node} does not know the feature."
    return f"{who} {node} supports levels {span.first} to {span.last}."


def _wrong_direction(context: Context, update: FeatureUpdateKey) -> str | None:
    current = context.image.features.levels.get(update.feature, 0)
    kind = update.upgrade_type
    if context.version == 0:
        # The first version of the request had a flag where there now is a type.
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"There is no upgrade type {kind}."
    if update.max_version_level < current and kind == UPGRADE:
        return f"It is at {current}: to go down, ask for a downgrade."
    if update.max_version_level > current and kind != UPGRADE:
        return f"It is at {current}: going up is no downgrade."
    return None


def _unfit(context: Context, name: str, level: int, wanted: dict[str, int]) -> str | None:
    """What speaks against it in the levels of other features, or in what would be lost."""
    features = context.image.features
    if name == METADATA_VERSION:
        if level not in RELEASES:
            return "No release has it."
        if level < features.metadata_version and loses_metadata(features.metadata_version, level):
            return "Records written since could be lost on the way down."
    metadata_version = wanted.get(METADATA_VERSION, features.metadata_version)
    elr = wanted.get(ELR_VERSION, features.levels.get(ELR_VERSION, 0))
    if elr and metadata_version < ELR_FROM and name in (METADATA_VERSION, ELR_VERSION):
        return f"{ELR_VERSION} {elr} needs {METADATA_VERSION} {ELR_FROM} or later."
    return None

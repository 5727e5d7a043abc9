"""The first records of a new cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.controller.isr_min import on_elr_enabled
from penstock.metadata.image import EMPTY
from penstock.metadata.levels import (
    ELR_VERSION,
    METADATA_TRANSACTIONS_FROM,
    METADATA_VERSION,
)
from penstock.protocol.generated.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def first_records(formatted: Sequence[Any], isr_min: int) -> list[Any]:
    """What the first leader of a quorum commits, given what formatting left for it."""
    levels = {r.name: r.feature_level for r in formatted if isinstance(r, FeatureLevelRecord)}
    records = list(formatted)
    if levels.get(ELR_VERSION):
        records += on_elr_enabled(EMPTY.configs, isr_min)
    if levels.get(METADATA_VERSION, 0) < METADATA_TRANSACTIONS_FROM:
        return records
    return [BeginTransactionRecord(name="Bootstrap records"), *records, EndTransactionRecord()]

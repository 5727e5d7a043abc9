"""The first records of a new cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.metadata.configs import BROKER
from penstock.metadata.levels import (
    ELR_VERSION,
    METADATA_TRANSACTIONS_FROM,
    METADATA_VERSION,
)
from penstock.protocol.generated.metadata_records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def first_records(formatted: Sequence[Any], isr_min: int) -> list[Any]:
    """What the first leader of a quorum commits, given what formatting left for it.

    With eligible leader replicas, min.insync.replicas decides who may lead, so controllers must
    agree on it: it becomes part of the metadata instead of each node's own file.
    """
    levels = {r.name: r.feature_level for r in formatted if isinstance(r, FeatureLevelRecord)}
    records = list(formatted)
    if levels.get(ELR_VERSION):
        records.append(
            ConfigRecord(
                resource_type=BROKER,
                resource_name="",
                name="min.insync.replicas",
                value=str(isr_min),
            )
        )
    if levels.get(METADATA_VERSION, 0) < METADATA_TRANSACTIONS_FROM:
        return records
    return [BeginTransactionRecord(name="Bootstrap records"), *records, EndTransactionRecord()]

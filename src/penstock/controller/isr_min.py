"""min.insync.replicas, on which eligible leader replicas (ELR) depend.

A replica is eligible because nothing was acknowledged without it, and what may be acknowledged is
decided by min.insync.replicas. So all nodes must go by the same value, which lives in the metadata
and in no broker's own settings, and when it changes, nobody is eligible any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.controller.decision import Refusal
from penstock.metadata.configs import BROKER, TOPIC
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata_records import ClearElrRecord, ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.controller.decision import Context
    from penstock.metadata.configs import ConfigsImage

ISR_MIN = "min.insync.replicas"
EVERY_BROKER = ""


def isr_min_of(context: Context, topic: str) -> int:
    """What counts for a topic: its own, the cluster's, or the controller's setting."""
    configs = context.image.configs
    value = configs.of(TOPIC, topic).get(ISR_MIN) or configs.of(BROKER, EVERY_BROKER).get(ISR_MIN)
    return int(value) if value else context.settings.isr_min_default


def refused(
    context: Context, kind: int, name: str, wanted: Mapping[str, str | None]
) -> Refusal | None:
    """Why a change may not touch it while ELR is on."""
    if kind != BROKER or ISR_MIN not in wanted or not context.image.features.elr_enabled:
        return None
    if name != EVERY_BROKER:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"With eligible leader replicas, {ISR_MIN} is set for a topic or for all brokers, "
            "not for one.",
        )
    if wanted[ISR_MIN] is None:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"With eligible leader replicas, all brokers need one {ISR_MIN}: set another value.",
        )
    return None


def after_change(context: Context, record: ConfigRecord) -> list[Any]:
    """The records that must follow a change of configuration."""
    if record.name != ISR_MIN or not context.image.features.elr_enabled:
        return []
    if record.resource_type not in (TOPIC, BROKER):
        return []
    topic = record.resource_name if record.resource_type == TOPIC else ""
    return [ClearElrRecord(topic_name=topic)]


def on_elr_enabled(configs: ConfigsImage, isr_min_default: int) -> Sequence[ConfigRecord]:
    """The changes that make one value count everywhere, before ELR is switched on."""
    records = [
        ConfigRecord(resource_type=BROKER, resource_name=name, name=ISR_MIN, value=None)
        for name in configs.names(BROKER)
        if name != EVERY_BROKER and ISR_MIN in configs.of(BROKER, name)
    ]
    if ISR_MIN not in configs.of(BROKER, EVERY_BROKER):
        records.append(
            ConfigRecord(
                resource_type=BROKER,
                resource_name=EVERY_BROKER,
                name=ISR_MIN,
                value=str(isr_min_default),
            )
        )
    return records

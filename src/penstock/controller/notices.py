"""What an operator should read in the log about a change, pure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.metadata.topics import LEADER_UNCHANGED
from penstock.model.ids import NO_NODE
from penstock.protocol.generated.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.metadata.image import MetadataImage

UNCLEAN_MAX = 10
"""Unclean elections that are told one by one; of more, only how many there are."""

_FENCED, _UNFENCED, _LEAVING, _RECOVERING = 1, -1, 1, 1


class Notice(NamedTuple):
    level: int
    text: str


def notices(records: Iterable[Any], image: MetadataImage, own: int = NO_NODE) -> list[Notice]:
    """What records mean, in the order in which they stand; `image` is how things were before.

    The broker `own`, in this very process, speaks for itself; and how a cluster begins is no news.
    """
    told: list[Notice] = []
    changes: list[PartitionChangeRecord] = []
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            changes.append(record)
        elif isinstance(record, FeatureLevelRecord):
            told += _feature(record) if image.features.levels else []
        elif (tell := _TELL.get(type(record))) is not None and record.broker_id != own:
            told += tell(record)
    return [*told, *_leaders(changes), *_unclean(changes, image)]


def _info(text: str) -> list[Notice]:
    return [Notice(logging.INFO, text)]


def _registered(record: RegisterBrokerRecord) -> list[Notice]:
    return _info(f"broker {record.broker_id} registered, under epoch {record.broker_epoch}")


def _unregistered(record: UnregisterBrokerRecord) -> list[Notice]:
    return _info(f"broker {record.broker_id} is forgotten, as an operator wished")


def _changed(record: BrokerRegistrationChangeRecord) -> list[Notice]:
    who = f"broker {record.broker_id}"
    told = []
    if record.fenced == _FENCED:
        told += _info(f"{who} is fenced: it leads and follows nothing")
    if record.fenced == _UNFENCED:
        told += _info(f"{who} is unfenced: it takes part")
    if record.in_controlled_shutdown == _LEAVING:
        told += _info(f"{who} is leaving: its partitions are handed over")
    if record.log_dirs:
        left = len(record.log_dirs)
        told.append(Notice(logging.WARNING, f"{who} lost log directories and has {left} left"))
    return told


def _feature(record: FeatureLevelRecord) -> list[Notice]:
    return _info(f"{record.name} is at level {record.feature_level} now")


_TELL: dict[type, Callable[[Any], list[Notice]]] = {
    RegisterBrokerRecord: _registered,
    UnregisterBrokerRecord: _unregistered,
    BrokerRegistrationChangeRecord: _changed,
}


def _leaders(changes: list[PartitionChangeRecord]) -> list[Notice]:
    led = [change.leader for change in changes if change.leader != LEADER_UNCHANGED]
    nobody = led.count(NO_NODE)
    told = []
    if len(led) > nobody:
        told += _info(f"{_partitions(len(led) - nobody)} got a leader or a new epoch of it")
    if nobody:
        text = f"{_partitions(nobody)} left without a leader: nobody who may lead is up"
        told.append(Notice(logging.WARNING, text))
    return told


def _partitions(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count} partitions"


def _unclean(changes: list[PartitionChangeRecord], image: MetadataImage) -> list[Notice]:
    unclean = [change for change in changes if change.leader_recovery_state == _RECOVERING]
    told = []
    for change in unclean[:UNCLEAN_MAX]:
        topic = image.topics.by_id.get(change.topic_id)
        name = topic.name if topic is not None else "?"
        text = (
            f"unclean election: broker {change.leader} leads {name}-{change.partition_id} and may "
            "lack records that were acknowledged"
        )
        told.append(Notice(logging.WARNING, text))
    if len(unclean) > UNCLEAN_MAX:
        more = _partitions(len(unclean) - UNCLEAN_MAX)
        told.append(Notice(logging.WARNING, f"unclean elections of {more} more"))
    return told

"""Who leads a partition after its replicas came, went or failed.

`settle` works out the state that a partition should be in; `change_record` says how to get there.
Eligible leader replicas (ELR) left the ISR while it was below min.insync.replicas: nothing was
acknowledged without them, so each of them still holds every acknowledged record, and may lead.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from penstock.controller.assignment import completed
from penstock.metadata.topics import LEADER_UNCHANGED, RECOVERY_UNCHANGED, PartitionImage
from penstock.model.ids import NO_NODE
from penstock.protocol.generated.metadata_records import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Container


class Election(Enum):
    """How far to go for a leader."""

    ONLINE = "a replica that has every acknowledged record"
    PREFERRED = "the same, and the first replica if it can"
    UNCLEAN = "any replica that is alive, even if records are lost"


class Rules(NamedTuple):
    """What an election goes by."""

    acceptable: Callable[[int], bool]
    """Whether a broker is alive and may lead."""
    elr_enabled: bool
    isr_min: int
    election: Election = Election.ONLINE
    lost: Container[int] = ()
    """Brokers that stopped without flushing: what they acknowledged may be gone."""


def settle(old: PartitionImage, isr: tuple[int, ...], rules: Rules) -> PartitionImage:
    """The partition's state once `isr` is in sync and a leader is elected; epochs stay put.

    A move to other brokers is complete as soon as all of them are in sync.
    """
    old, isr = completed(old, isr)
    elr = _eligible(old, isr, rules)
    leader, clean = _elect(old, isr, elr, rules)
    recovering = old.recovering
    if not clean:
        isr, elr, recovering = (leader,), (), True
    elif leader in elr:
        isr = (leader,)
        elr = tuple(r for r in elr if r != leader and rules.elr_enabled)
    if not isr and not rules.elr_enabled:
        isr = old.isr  # without ELR the last of the ISR is remembered in the ISR itself
    return old._replace(
        isr=isr,
        elr=elr,
        leader=leader,
        recovering=recovering,
        last_known_elr=_last_known(old, leader, rules),
    )


def _eligible(old: PartitionImage, isr: tuple[int, ...], rules: Rules) -> tuple[int, ...]:
    if not rules.elr_enabled:
        # Switched off while nobody led: those who were eligible are still the ones to wait for.
        return old.elr if not isr and not old.isr else ()
    if len(isr) >= rules.isr_min:
        return ()
    kept = {*old.elr, *old.isr}.intersection(old.replicas).difference(isr)
    return tuple(sorted(r for r in kept if r not in rules.lost))


def _elect(
    old: PartitionImage, isr: tuple[int, ...], elr: tuple[int, ...], rules: Rules
) -> tuple[int, bool]:
    """The leader, and whether it is sure to hold every acknowledged record."""
    safe = isr or elr
    able = [r for r in old.replicas if r in safe and rules.acceptable(r)]
    if rules.election is Election.PREFERRED and able and able[0] == old.replicas[0]:
        return able[0], True
    if old.leader in able:
        return old.leader, True  # no reason to move
    if able:
        return able[0], True
    if _may_lead_again(old, safe, rules):
        return old.last_known_elr[0], False
    if rules.election is Election.UNCLEAN:
        alive = next((r for r in old.replicas if rules.acceptable(r)), None)
        if alive is not None:
            return alive, False
    return NO_NODE, True


def _may_lead_again(old: PartitionImage, safe: tuple[int, ...], rules: Rules) -> bool:
    # Nobody is known to have everything. The last leader has most, and is the only one whose
    # word producers ever took, so it may lead again when it returns, as recovering.
    return (
        rules.elr_enabled
        and not safe
        and len(old.last_known_elr) == 1
        and rules.acceptable(old.last_known_elr[0])
    )


def _last_known(old: PartitionImage, leader: int, rules: Rules) -> tuple[int, ...]:
    if not rules.elr_enabled:
        return old.last_known_elr
    if leader != NO_NODE:
        return ()
    return old.last_known_elr or ((old.leader,) if old.leader != NO_NODE else ())


def change_record(
    topic_id: bytes, index: int, old: PartitionImage, new: PartitionImage
) -> PartitionChangeRecord | None:
    """The record that turns `old` into `new`, or None if they are the same."""
    if new == old:
        return None
    # A replica that is dropped may go on asking: the next epoch tells it from one that belongs.
    dropped = not set(old.replicas) <= set(new.replicas)
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=None if new.isr == old.isr else list(new.isr),
        leader=LEADER_UNCHANGED if new.leader == old.leader and not dropped else new.leader,
        replicas=None if new.replicas == old.replicas else list(new.replicas),
        removing_replicas=None if new.removing == old.removing else list(new.removing),
        adding_replicas=None if new.adding == old.adding else list(new.adding),
        leader_recovery_state=(
            RECOVERY_UNCHANGED if new.recovering == old.recovering else int(new.recovering)
        ),
        directories=None if new.directories == old.directories else list(new.directories),
        eligible_leader_replicas=None if new.elr == old.elr else list(new.elr),
        last_known_elr=(
            None if new.last_known_elr == old.last_known_elr else list(new.last_known_elr)
        ),
    )

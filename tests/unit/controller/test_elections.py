from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.controller.elections import Election, Rules, change_record, settle
from penstock.metadata.topics import PartitionImage, merge

NOBODY = -1
STATE = PartitionImage(
    replicas=(1, 2, 3),
    directories=(b"a", b"b", b"c"),
    isr=(1, 2, 3),
    leader=1,
    leader_epoch=4,
    partition_epoch=9,
)


def rules(*alive: int, **fields: Any) -> Rules:
    defaults: dict[str, Any] = {"elr_enabled": True, "isr_min": 2}
    return Rules(acceptable=lambda node: node in alive, **{**defaults, **fields})


def test_a_leader_that_can_stay_stays() -> None:
    state = STATE._replace(leader=3)
    assert settle(state, (1, 2, 3), rules(1, 2, 3)) == state


def test_the_first_live_replica_in_sync_takes_over() -> None:
    after = settle(STATE, (2, 3), rules(2, 3))
    assert (after.leader, after.isr, after.elr) == (2, (2, 3), ())


def test_a_preferred_election_moves_the_lead_to_the_first_replica() -> None:
    state = STATE._replace(leader=3)
    assert settle(state, (1, 2, 3), rules(1, 2, 3, election=Election.PREFERRED)).leader == 1
    assert settle(state, (2, 3), rules(2, 3, election=Election.PREFERRED)).leader == 3


def test_who_leaves_a_small_isr_stays_eligible() -> None:
    after = settle(STATE._replace(isr=(1, 2)), (1,), rules(1))
    assert (after.isr, after.elr, after.leader) == ((1,), (2,), 1)


def test_the_last_one_to_leave_is_remembered_as_the_last_leader() -> None:
    after = settle(STATE._replace(isr=(1,)), (), rules())
    assert (after.isr, after.elr, after.leader) == ((), (1,), NOBODY)
    assert after.last_known_elr == (1,)


def test_an_eligible_replica_that_returns_leads_cleanly() -> None:
    state = STATE._replace(isr=(), elr=(1, 2), leader=NOBODY, last_known_elr=(1,))
    after = settle(state, (), rules(2))
    assert (after.leader, after.isr, after.elr) == (2, (2,), (1,))
    assert (after.recovering, after.last_known_elr) == (False, ())


def test_who_lost_what_it_acknowledged_is_not_eligible() -> None:
    state = STATE._replace(isr=(1,))
    after = settle(state, (), rules(lost=(1,)))
    assert (after.isr, after.elr, after.leader) == ((), (), NOBODY)
    assert after.last_known_elr == (1,)


def test_with_nobody_eligible_the_last_leader_may_lead_again_as_recovering() -> None:
    state = STATE._replace(isr=(), elr=(), leader=NOBODY, last_known_elr=(1,))
    assert settle(state, (), rules(2, 3)).leader == NOBODY
    after = settle(state, (), rules(1))
    assert (after.leader, after.isr, after.recovering) == (1, (1,), True)
    assert after.last_known_elr == ()


def test_an_unclean_election_takes_anybody_alive() -> None:
    state = STATE._replace(isr=(1,), leader=NOBODY)
    assert settle(state, (1,), rules(3)).leader == NOBODY
    after = settle(state, (1,), rules(3, election=Election.UNCLEAN))
    assert (after.leader, after.isr, after.recovering) == (3, (3,), True)


def test_without_elr_the_isr_never_becomes_empty() -> None:
    state = STATE._replace(isr=(1,))
    after = settle(state, (), rules(elr_enabled=False))
    assert (after.leader, after.isr, after.last_known_elr) == (NOBODY, (1,), ())


def test_nothing_to_change_needs_no_record() -> None:
    assert change_record(b"t", 0, STATE, STATE) is None


nodes = st.lists(st.integers(1, 4), unique=True, max_size=4).map(tuple)


@given(
    st.builds(
        PartitionImage,
        replicas=st.just((1, 2, 3, 4)),
        directories=st.just((b"",) * 4),
        isr=nodes,
        leader=st.sampled_from([-1, 1, 2, 3, 4]),
        leader_epoch=st.integers(0, 5),
        partition_epoch=st.integers(0, 5),
        elr=nodes,
        last_known_elr=st.sampled_from([(), (1,), (2,)]),
        adding=nodes,
        removing=nodes,
        recovering=st.booleans(),
    ),
    nodes,
    nodes,
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from(list(Election)),
)
def test_a_leader_is_alive_and_in_sync_and_the_record_says_it_all(
    old: PartitionImage,
    isr: tuple[int, ...],
    alive: tuple[int, ...],
    elr_enabled: bool,
    isr_min: int,
    election: Election,
) -> None:
    chosen = rules(*alive, elr_enabled=elr_enabled, isr_min=isr_min, election=election)
    new = settle(old, isr, chosen)
    assert new.leader == NOBODY or (new.leader in alive and new.leader in new.isr)
    assert not set(new.elr) & set(new.isr)
    assert len(new.directories) == len(new.replicas)
    assert set(new.elr) <= set(new.replicas)
    record = change_record(b"t", 0, old, new)
    if record is None:
        assert new == old
        return
    merged = merge(old, record)
    assert merged.partition_epoch == old.partition_epoch + 1
    dropped = set(old.replicas) - set(new.replicas)
    assert merged.leader_epoch == old.leader_epoch + (new.leader != old.leader or bool(dropped))
    same_epochs = merged._replace(
        leader_epoch=new.leader_epoch, partition_epoch=new.partition_epoch
    )
    assert same_epochs == new

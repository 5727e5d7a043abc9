"""Who may lead when brokers go one after the other, and return: eligible leader replicas."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.metadata.levels import DEFAULT_LEVELS, ELR_VERSION
from penstock.metadata.topics import PartitionImage
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import update_features as uf
from penstock.protocol.generated.unregister_broker import UnregisterBrokerRequest

from .stage import Stage, manual

assert DEFAULT_LEVELS[ELR_VERSION] == 1


class Cluster:
    """Three brokers and a partition on all of them, led by 1, of which 2 must be in sync."""

    def __init__(self, elr: bool = True) -> None:
        self.stage = Stage(3, isr_min_default=2)
        if not elr:
            self.switch_off()
        self.stage.create(manual("t", [1, 2, 3]))
        self._lives = 0

    def switch_off(self) -> None:
        update = uf.FeatureUpdateKey(feature=ELR_VERSION, max_version_level=0, upgrade_type=2)
        request = uf.UpdateFeaturesRequest(feature_updates=[update])
        assert self.stage.ask(ApiKey.UPDATE_FEATURES, request).error_code == 0

    def step(self, what: str) -> None:
        """`-2` is fenced, `+2` is back, `!2` crashes and registers anew, `~2` does so in order,
        `x2` is unregistered."""
        how, broker = what[0], int(what[1:])
        if how == "-":
            self.stage.beat(broker, want_fence=True)
        elif how == "+":
            self.stage.beat(broker)
        elif how == "x":
            request = UnregisterBrokerRequest(broker_id=broker)
            assert self.stage.ask(ApiKey.UNREGISTER_BROKER, request).error_code == 0
        else:
            self._lives += 1
            fields: dict[str, Any] = {"incarnation_id": bytes([200 + self._lives]) * 16}
            if how == "~":
                fields["previous_broker_epoch"] = self.stage.epochs[broker]
            self.stage.now += 10_000  # the old incarnation's session is over
            assert self.stage.register(broker, **fields).error_code == 0

    @property
    def state(self) -> PartitionImage:
        return self.stage.partition("t")


STORIES: list[tuple[str, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    # what happens, then: leader, ISR, ELR, last known leader
    ("-3", 1, (1, 2), (), ()),
    ("-3 -2", 1, (1,), (2,), ()),
    ("-3 -2 -1", -1, (), (1, 2), (1,)),
    ("-3 -2 -1 +3", -1, (), (1, 2), (1,)),  # 3 lacks what the others acknowledged without it
    ("-3 -2 -1 +2", 2, (2,), (1,), ()),  # 2 lacks nothing: less than two could acknowledge nothing
    ("-3 -2 -1 +1", 1, (1,), (2,), ()),
    ("-3 -2 -1 ~1 +1", 1, (1,), (2,), ()),
    ("-3 -2 -1 !1", -1, (), (2,), (1,)),  # what 1 acknowledged may be lost with it
    ("-3 -2 -1 !1 +1", -1, (), (2,), (1,)),
    ("-3 -2 -1 !1 +2", 2, (2,), (), ()),
    ("-3 -2 -1 !1 !2", -1, (), (), (1,)),
    ("-3 -2 -1 !1 !2 +2", -1, (), (), (1,)),
    ("-3 -2 -1 !1 !2 +1", 1, (1,), (), ()),  # recovering: it led last, and has most
    ("!1", 2, (2, 3), (), ()),
    ("!1 !2", 3, (3,), (), ()),
    ("-3 -2 x2", 1, (1,), (), ()),
    ("-2 -3 x1", -1, (), (3,), (1,)),
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story[0])
def test_leaders_are_those_who_have_everything(
    story: tuple[str, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]],
) -> None:
    steps, leader, isr, elr, last_known = story
    cluster = Cluster()
    for step in steps.split():
        cluster.step(step)
    state = cluster.state
    assert (state.leader, state.isr, state.elr) == (leader, isr, elr)
    assert state.last_known_elr == last_known
    assert state.recovering == (steps == "-3 -2 -1 !1 !2 +1")


WITHOUT: list[tuple[str, int, tuple[int, ...]]] = [
    ("-3 -2", 1, (1,)),
    ("-3 -2 -1", -1, (1,)),
    ("-3 -2 -1 +2", -1, (1,)),  # only the last one is known to have everything
    ("-3 -2 -1 +1", 1, (1,)),
    ("-3 -2 !1", -1, (1,)),  # taken at its word: nobody noticed crashes before ELR
    ("-3 -2 !1 +1", 1, (1,)),
]


@pytest.mark.parametrize("story", WITHOUT, ids=lambda story: story[0])
def test_without_eligible_replicas_the_last_in_sync_leads(
    story: tuple[str, int, tuple[int, ...]],
) -> None:
    steps, leader, isr = story
    cluster = Cluster(elr=False)
    for step in steps.split():
        cluster.step(step)
    state = cluster.state
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (leader, isr, (), ())
    assert not state.recovering


def test_who_was_eligible_when_that_was_switched_off_may_still_lead() -> None:
    cluster = Cluster()
    for step in ("-3", "-2", "-1"):
        cluster.step(step)
    cluster.switch_off()
    cluster.step("+3")
    assert (cluster.state.leader, cluster.state.elr) == (-1, (1, 2))
    cluster.step("+2")
    state = cluster.state
    assert (state.leader, state.isr, state.elr, state.recovering) == (2, (2,), (), False)


def test_each_time_a_broker_leads_it_leads_under_a_new_epoch() -> None:
    cluster = Cluster()
    epochs = [cluster.state.leader_epoch]
    for step in ("~1", "+1", "-2", "-3", "+3", "-1", "+1"):
        before = cluster.state.leader
        cluster.step(step)
        if cluster.state.leader != before:
            epochs.append(cluster.state.leader_epoch)
    assert epochs == sorted(set(epochs))

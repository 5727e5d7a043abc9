"""Whatever was asked of the share coordinator: whoever loads its log knows what it knew."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.coordination.delivery.effects import StateBatch
from penstock.coordination.share import shard
from penstock.coordination.share.settings import ShareSettings
from tests.unit.coordination.share.desk import BILLS, KEY, ORDERS, OTHER, Desk, image_of
from tests.unit.coordination.share.test_batches import batches

SETTINGS = ShareSettings(updates_per_snapshot=2, cold_ms=50, prune_ms=70)

keys = st.sampled_from([KEY, KEY._replace(group_id="others"), OTHER])


class Reloading(RuleBasedStateMachine):
    """One desk, and a look at what a second one makes of its log, cut as it asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._long = patch.object(shard, "LONG", 12)
        self._long.start()
        self.desk = Desk(SETTINGS)

    def teardown(self) -> None:
        self._long.stop()

    @rule(key=keys, epoch=st.integers(-1, 3), start=st.integers(-1, 9))
    def initialize(self, key: object, epoch: int, start: int) -> None:
        self.desk.initialize(key, epoch, start)  # type: ignore[arg-type]

    @rule(key=keys, leader=st.integers(-1, 4))
    def read(self, key: object, leader: int) -> None:
        self.desk.read(leader, key)  # type: ignore[arg-type]

    @rule(
        key=keys,
        new=st.lists(batches, max_size=4),
        start=st.integers(-1, 30),
        epoch=st.integers(-1, 3),
        leader=st.integers(-1, 4),
    )
    def write(
        self, key: object, new: list[StateBatch], start: int, epoch: int, leader: int
    ) -> None:
        self.desk.write(*new, start=start, epoch=epoch, leader=leader, key=key)  # type: ignore[arg-type]

    @rule(key=keys)
    def delete(self, key: object) -> None:
        self.desk.delete(key)  # type: ignore[arg-type]

    @rule(by_ms=st.integers(1, 100))
    def wait(self, by_ms: int) -> None:
        self.desk.run(by_ms)

    @rule()
    def delete_a_topic(self) -> None:
        self.desk.tell(image_of(BILLS))
        self.desk.tell(image_of(ORDERS, BILLS))

    @invariant()
    def a_new_leader_knows_the_same(self) -> None:
        desk = self.desk
        whole = Desk(SETTINGS, desk.log)
        assert whole.state() == desk.state()
        cut = Desk(SETTINGS, desk.cut(max((it.offset for it in desk.errands), default=0)))
        assert cut.state() == desk.state()


TestReloading = Reloading.TestCase
TestReloading.settings = settings(max_examples=40, stateful_step_count=25)

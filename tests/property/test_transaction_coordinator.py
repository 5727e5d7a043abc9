"""Whatever producers ask, in whatever order: the coordinator's promises hold, restarts included."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.coordination.txn.adding import Participation, add
from penstock.coordination.txn.beginning import Introduction, introduce
from penstock.coordination.txn.ending import Ending, Markers, end
from penstock.coordination.txn.states import ENDING, TxnState
from tests.unit.coordination.txn.desk import HERE, THERE, Desk, exhausted

versions = st.sampled_from([1, 2])


class Coordinator(RuleBasedStateMachine):
    """One transactional id, two producers that both believe to own it, and markers that dawdle."""

    @initialize(version=st.sampled_from([0, 1, 2]))
    def open(self, version: int) -> None:
        self.desk = Desk(version)
        self.desk.init()
        self.known = [self.desk.producer]
        self.highest: dict[int, int] = {}
        self.outcomes: dict[tuple[int, int], bool] = {}
        """What each decision was, by the producer and epoch of its markers."""

    def _who(self, at: int) -> tuple[int, int]:
        return self.known[at % len(self.known)]

    @rule()
    def introduce(self) -> None:
        answer = self.desk.init()
        if not answer.error_code:
            self.known.append((answer.producer_id, answer.producer_epoch))

    @rule(at=st.integers(0, 9))
    def resume(self, at: int) -> None:
        producer_id, epoch = self._who(-at)
        answer = self.desk.init(producer_id=producer_id, epoch=epoch)
        if not answer.error_code:
            assert answer.producer_epoch in (epoch, epoch + 1, 0)
            self.known.append((answer.producer_id, answer.producer_epoch))

    @rule(at=st.integers(0, 9), place=st.sampled_from([HERE, THERE]), version=versions)
    def add(self, at: int, place: tuple[str, int], version: int) -> None:
        who = producer_id, epoch = self._who(-at)
        current = self.desk.producer
        error = self.desk.add(
            place, version=version if version == 2 else 0, producer_id=producer_id, epoch=epoch
        )
        assert error or who == current, "somebody else joined the transaction"

    @rule(at=st.integers(0, 9), commit=st.booleans(), version=versions)
    def end(self, at: int, commit: bool, version: int) -> None:
        producer_id, epoch = self._who(-at)
        was, current = self.desk.state, self.desk.producer
        answer = self.desk.end(commit, producer_id, epoch, version)
        if was is TxnState.ONGOING and not answer.error_code:
            assert (producer_id, epoch) == current, "somebody else ended the transaction"
        if not answer.error_code and version == 2:
            self.known.append((answer.producer_id, answer.producer_epoch))

    @rule()
    def write_markers(self) -> None:
        for errand in self.desk.errands:
            self._decided(errand)
        self.desk.write_markers()

    def _decided(self, errand: Markers) -> None:
        if not errand.partitions:
            return
        if self.desk.transaction.client_version >= 2:
            key = errand.producer_id, errand.epoch
            assert self.outcomes.setdefault(key, errand.is_commit) == errand.is_commit

    @rule(seconds=st.integers(1, 120))
    def wait(self, seconds: int) -> None:
        self.desk.wait(seconds * 1000)

    @rule()
    def use_up_the_epochs(self) -> None:
        if self.desk.state is TxnState.EMPTY and self.desk.records:
            exhausted(self.desk)
            self.known.append(self.desk.producer)

    @rule()
    def restart(self) -> None:
        before = self.desk
        self.desk = before.reloaded()
        self.desk.timers = {key: before.now + at for key, at in self.desk.timers.items()}
        wanted = [each for each in before.errands if before.state in ENDING][-1:]
        assert self.desk.errands == wanted

    @rule(what=st.sampled_from(["init", "add", "end"]))
    def meet_a_log_that_refuses(self, what: str) -> None:
        before = self.desk.producer, self.desk.state, self.desk.transaction.last_epoch
        self.desk.full = True
        if what == "init":
            self.desk.ask(introduce, Introduction("orders", 1000))
        elif what == "add":
            self.desk.ask(add, Participation("orders", *self.desk.producer, [HERE], 2))
        else:
            self.desk.ask(end, Ending("orders", *self.desk.producer, True, True))
        self.desk.full = False
        after = self.desk.producer, self.desk.state, self.desk.transaction.last_epoch
        assert after == before

    @invariant()
    def epochs_never_go_back(self) -> None:
        producer_id, epoch = self.desk.producer
        assert epoch >= self.highest.get(producer_id, 0)
        self.highest[producer_id] = epoch

    @invariant()
    def what_is_decided_has_markers_on_their_way(self) -> None:
        assert (self.desk.state in ENDING) == bool(self.desk.errands)

    @invariant()
    def what_is_ongoing_is_watched(self) -> None:
        shard = self.desk.shard
        assert (self.desk.state is TxnState.ONGOING) == ("orders" in shard.ongoing)
        if shard.ongoing:
            assert shard.watching and any("timeouts" in key[0] for key in self.desk.timers)

    @invariant()
    def only_a_transaction_has_partitions(self) -> None:
        if self.desk.state not in (TxnState.ONGOING, *ENDING):
            assert self.desk.transaction.partitions == {}


TestCoordinator = Coordinator.TestCase

"""A coordinator's desk: one shard, a clock that the test turns, and a log that may refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.coordination.effects import Effects, Moment, NewRecord
from penstock.coordination.txn import adding, beginning, ending
from penstock.coordination.txn.adding import Participation, Verdict
from penstock.coordination.txn.beginning import Introduction
from penstock.coordination.txn.ending import Ending, Markers
from penstock.coordination.txn.settings import TxnSettings
from penstock.coordination.txn.shard import TxnShard
from penstock.coordination.txn.states import NEXT, TxnState
from penstock.coordination.txn.transaction import Transaction
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated.end_txn import EndTxnResponse
from penstock.protocol.generated.init_producer_id import InitProducerIdResponse
from penstock.protocol.record_frames import TRANSACTION

NOON = 1_700_000_000_000
SETTINGS = TxnSettings(
    timeout_max_ms=900_000,
    timeout_check_ms=10_000,
    expiration_ms=7 * 86_400_000,
    expiration_check_ms=3_600_000,
)
NAME = "orders"
HERE = ("t", 0)
THERE = ("t", 1)


class Desk:
    """Runs steps as the runtime does, and keeps what they wrote."""

    def __init__(self, version: int = 2, log: list[tuple[bytes, bytes | None]] | None = None):
        self.now = 0
        self.ids = iter(range(1000, 10_000))
        self.no_ids = False
        self.shard = TxnShard(0, SETTINGS, self._take)
        self.shard.version = version
        self.log: list[tuple[bytes, bytes | None]] = []
        self.records: list[NewRecord] = []
        self.errands: list[Markers] = []
        self.timers: dict[Any, int] = {}
        self.full = False
        for key, value in log or []:
            self._replay(key, value)
        self.step(self.shard.on_loaded)

    def _take(self) -> int | None:
        return None if self.no_ids else next(self.ids)

    def _replay(self, key: bytes, value: bytes | None) -> None:
        name = TRANSACTION.read_key(key)
        content = None if value is None else TRANSACTION.read_value(0, value)[0]
        self.shard.replay(len(self.log), name, content, -1)
        self.log.append((key, value))

    # -- steps --------------------------------------------------------------------------------

    def step(self, act: Callable[[Moment, Effects], None]) -> list[Any]:
        """Decide, write, replay; answers the replies."""
        out = Effects()
        act(Moment(Millis(NOON + self.now), Millis(self.now)), out)
        if out.records and self.full:
            amends = Effects()
            if out.undo is not None:
                out.undo(ErrorCode.COORDINATOR_NOT_AVAILABLE, amends)
            self.timers |= amends.timers
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE for _ in out.replies]
        for record in out.records:
            self._check(record)
            key = TRANSACTION.write_key(record.key)
            value = None
            if record.value is not None:
                value = TRANSACTION.write_value(record.value, record.version)
            self._replay(key, value)
        self.records += out.records
        self.errands += out.errands
        self.timers |= out.timers
        return [response for _, response in out.replies]

    def _check(self, record: NewRecord) -> None:
        """Every change of state is one that the table knows."""
        before = self.shard.transactions.get(record.key.transactional_id)  # type: ignore[attr-defined]
        was = TxnState.EMPTY if before is None else before.state
        value: Any = record.value
        to = TxnState.DEAD if value is None else TxnState(value.transaction_status)
        assert to in {after for (state, _), after in NEXT.items() if state is was}

    def ask(self, step: Callable[..., None], *arguments: Any) -> Any:
        """The reply to one request."""
        (reply,) = self.step(lambda at, out: step(self.shard, at, out, object(), *arguments))
        return reply

    def wait(self, ms: int) -> None:
        """Let time pass, and timers fire."""
        end = self.now + ms
        while True:
            due, key = min(((at, key) for key, at in self.timers.items()), default=(end + 1, None))
            if due > end:
                break
            self.now = max(self.now, due)
            del self.timers[key]
            self.step(lambda at, out, key=key: self.shard.on_timer(key, at, out))
        self.now = end

    # -- requests -----------------------------------------------------------------------------

    def init(
        self, name: str = NAME, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1
    ) -> InitProducerIdResponse:
        who = Introduction(name, timeout_ms, producer_id, epoch)
        answer: InitProducerIdResponse = self.ask(beginning.introduce, who)
        return answer

    def add(self, *places: tuple[str, int], version: int = 2, **who: int) -> ErrorCode:
        verdict: Verdict = self.ask(adding.add, self._participation(places, version, **who))
        return verdict.error

    def verify(self, *places: tuple[str, int], **who: int) -> Verdict:
        verdict: Verdict = self.ask(adding.verify, self._participation(places, 0, **who))
        return verdict

    def _participation(self, places: Any, version: int, **who: int) -> Participation:
        current = self.shard.transactions.get(NAME, Transaction(NAME, 0))
        producer_id = who.get("producer_id", current.producer_id)
        return Participation(NAME, producer_id, who.get("epoch", current.epoch), places, version)

    def end(
        self,
        commit: bool = True,
        producer_id: int | None = None,
        epoch: int | None = None,
        version: int = 2,
        name: str = NAME,
    ) -> EndTxnResponse:
        current = self.shard.transactions.get(name, Transaction(name, 0))
        what = Ending(
            name,
            current.producer_id if producer_id is None else producer_id,
            current.epoch if epoch is None else epoch,
            commit,
            version >= 2,
        )
        answer: EndTxnResponse = self.ask(ending.end, what)
        return answer

    def write_markers(self) -> None:
        """Carry out the errands."""
        errands, self.errands = self.errands, []
        for errand in errands:
            self.ask(ending.complete, errand)

    # -- looking ------------------------------------------------------------------------------

    @property
    def transaction(self) -> Transaction:
        return self.shard.transactions[NAME]

    @property
    def state(self) -> TxnState:
        return self.transaction.state

    @property
    def producer(self) -> tuple[int, int]:
        return self.transaction.producer_id, self.transaction.epoch

    def reloaded(self) -> Desk:
        """A new coordinator over what this one wrote."""
        desk = Desk(self.shard.version, self.log)
        desk.now = self.now
        desk.ids = self.ids
        return desk


def exhausted(desk: Desk) -> None:
    """Put the id into its last epoch but one."""
    value = desk.records[-1].value
    assert value is not None
    value.producer_epoch = 32766  # type: ignore[attr-defined]
    key = TRANSACTION.write_key(desk.records[-1].key)
    desk._replay(key, TRANSACTION.write_value(value, 1))

"""The deliveries of one share group from one partition: the machine, as its driver sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.coordination.delivery.effects import AckBatch, Acquired, Held, Outcome, Span
    from penstock.coordination.delivery.settings import DeliverySettings
    from penstock.coordination.effects import Moment
    from penstock.model.errors import ErrorCode
    from penstock.model.ids import Millis
    from penstock.platform.chance import Chance


class Delivery:
    """Made when the share coordinator has told what it holds; `held.start` is a real offset."""

    def __init__(self, held: Held, settings: DeliverySettings, chance: Chance, at: Moment) -> None:
        self.settings = settings
        self.start = held.start

    # -- handing out ------------------------------------------------------------------------------

    def next_offset(self, at: Moment) -> int | None:
        """Where whoever asks now should read: the first offset that may be acquired, or the first
        that was never read. None: as many are out as may be, or what is left waits for its time.
        """
        raise NotImplementedError

    def acquire(
        self,
        member: str,
        found: Sequence[Span],
        records_max: int,
        batch_size: int,
        strict: bool,
        at: Moment,
        out: Outcome,
        skip: Sequence[Span] = (),
    ) -> list[Acquired]:
        """Lock for `member` what is available in the batches that a reader found from `next_offset`
        on. Gaps before and between batches are done with. Whole batches go out, the last one too
        if that exceeds `records_max`, unless `strict`; ranges longer than `batch_size` come in
        pieces that end where batches of the log do, if they can. What is in `skip` (aborted,
        expired) is archived unseen.
        """
        raise NotImplementedError

    # -- taking back ------------------------------------------------------------------------------

    def acknowledge(
        self, member: str, said: Sequence[AckBatch], token: object, at: Moment, out: Outcome
    ) -> None:
        """All of what a member says, or none of it: `out.answers` has the token with its error now
        (INVALID_RECORD_STATE, INVALID_REQUEST), or after the write that this asks for."""
        raise NotImplementedError

    def release(self, member: str, at: Moment, out: Outcome) -> None:
        """The member's session is over: what it holds is available again. The delivery counts."""
        raise NotImplementedError

    def on_due(self, at: Moment, out: Outcome) -> None:
        """The time that `next_due` said has come: locks and waits that are over end here."""
        raise NotImplementedError

    @property
    def next_due(self) -> Millis | None:
        """The monotonic time at which something ends by itself."""
        raise NotImplementedError

    # -- what the world answers -------------------------------------------------------------------

    def on_written(self, ticket: int, error: ErrorCode, at: Moment, out: Outcome) -> None:
        """A write ended: its acknowledgements count, or are taken back."""
        raise NotImplementedError

    def on_buried(self, first: int, last: int, buried: bool, at: Moment, out: Outcome) -> None:
        """Dead letters are in their topic, or could not be written and come again after a while
        (never lost: they stay ARCHIVING until they are there)."""
        raise NotImplementedError

    def on_log_start(self, start: int, at: Moment, out: Outcome) -> None:
        """The log begins at `start` now: what lies below is done with."""
        raise NotImplementedError

    # -- looking ----------------------------------------------------------------------------------

    def view(self) -> list[tuple[int, int, str, int, str]]:
        """(first, last, state, count, member) of all in flight: for tests and descriptions."""
        raise NotImplementedError

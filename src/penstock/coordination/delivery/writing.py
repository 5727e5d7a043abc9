"""Writes on their way to the share coordinator, and the runs that wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.coordination.delivery.effects import Outcome, StateBatch, Write
from penstock.coordination.delivery.states import DONE
from penstock.coordination.delivery.window import Run, Window
from penstock.model.errors import ErrorCode

FATAL = frozenset(
    (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,  # there is no such state: the group was deleted
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)
"""The state belongs to another leader, or to nobody any more: no later write will succeed."""

_TOLD = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def told(error: ErrorCode) -> ErrorCode:
    """What the member hears whose acknowledgement could not be kept, as Kafka puts it."""
    return _TOLD.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


class Ended(NamedTuple):
    """A write that is no longer on its way."""

    runs: list[Run]
    """Those that waited for it and are still in the window."""
    token: object
    """Of the acknowledgement that waited for it, or None."""


class Writes:
    """Of one machine, in the order in which they must be done."""

    __slots__ = ("_on_their_way", "_ticket", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._ticket = 0
        self._on_their_way: dict[int, tuple[Sequence[Run], object]] = {}

    def send(
        self, runs: Sequence[Run], waiting: Sequence[Run], token: object, out: Outcome
    ) -> None:
        """Have the state of some runs kept. Nothing happens to those that are `waiting` until the
        write has ended."""
        self._ticket = ticket = self._ticket + 1
        window = self._window
        for run in waiting:
            run.ticket = ticket
            if run.state in DONE:
                window.closing += run.last - run.first + 1
        self._on_their_way[ticket] = (waiting, token)
        batches = tuple(
            [StateBatch(run.first, run.last, run.state, run.count, run.not_before) for run in runs]
        )
        out.writes.append(Write(ticket, window.start, batches, window.closed + window.closing))

    @property
    def is_empty(self) -> bool:
        return not self._on_their_way

    def ended(self, ticket: int) -> Ended | None:
        """A write has ended, one way or another; None if nobody waits for it."""
        sent = self._on_their_way.pop(ticket, None)
        if sent is None:
            return None
        runs = []
        for run in sent[0]:
            if run.ticket == ticket:  # or else the log has begun behind it meanwhile
                run.ticket = 0
                runs.append(run)
                if run.state in DONE:
                    self._window.closing -= run.last - run.first + 1
        return Ended(runs, sent[1])

    def give_up(self) -> list[object]:
        """No write will succeed any more: the tokens of all that waited."""
        tokens = [token for _, token in self._on_their_way.values() if token is not None]
        self._on_their_way.clear()
        return tokens

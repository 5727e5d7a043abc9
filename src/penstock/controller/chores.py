"""What the active controller looks after from time to time, without being asked.

Leadership goes back to preferred replicas, topics that allow it get a leader that lags, and tokens
that are no longer good go.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.controller import balance, tokens
from penstock.controller.config_rules import UNCLEAN_ELECTION
from penstock.protocol.generated.metadata_records import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from penstock.controller.decision import Context, Decision, Settings

    Work = Callable[[Context], Decision | None]

log = logging.getLogger("penstock.controller")


class Chores:
    """Timers, one for each chore, while this controller is the active one."""

    def __init__(self, settings: Settings, run: Callable[[Work], Decision | None]) -> None:
        """`run` decides and enacts, and answers what was decided."""
        self._run = run
        token_seconds = None if settings.tokens is None else settings.tokens.sweep_seconds
        self._work: Mapping[str, tuple[Work, float]] = {
            name: (work, seconds)
            for name, work, seconds in (
                ("balance", balance.balance, settings.balance_seconds),
                ("unclean", balance.elect_unclean, settings.unclean_seconds),
                ("tokens", tokens.sweep_tokens, token_seconds),
            )
            if seconds is not None
        }
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        for name, (_, seconds) in self._work.items():
            self._schedule(name, seconds)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def notice(self, records: Iterable[Any]) -> None:
        """A change was decided: what it allows need not wait for its turn."""
        if any(isinstance(r, ConfigRecord) and r.name == UNCLEAN_ELECTION for r in records):
            self._schedule("unclean", 0)

    def _schedule(self, name: str, seconds: float) -> None:
        before = self._timers.pop(name, None)
        if before is not None:
            before.cancel()
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(seconds, self._do, name)

    def _do(self, name: str) -> None:
        work, seconds = self._work[name]
        decision = self._run(work)
        if decision is None:
            self._schedule(name, seconds)
            return
        done = decision.response
        if isinstance(done, balance.Round):
            log.info("%s: elected leaders of %d partition(s)", name, done.elected)
        else:
            log.info("%d delegation token(s) have expired and are gone", done.gone)
        self._schedule(name, 0 if done.unfinished else seconds)

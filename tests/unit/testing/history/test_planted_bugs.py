"""Bugs that were planted on purpose are found, and none is found where none is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.testing import Broker
from penstock.testing.history import History, find, report
from penstock.testing.history.checks import groups, marks, order, records, transactions, zombies
from tests.unit.testing.history import planted
from tests.unit.testing.history.scenes import play

FOUND_AS = {
    "answers_without_appending": records.ONE_VALUE,
    "forgets_producers_on_restart": records.DUPLICATE,
    "takes_a_retry_for_new": records.DUPLICATE,
    "takes_batches_out_of_order": order.PRODUCER_ORDER,
    "reuses_offsets_after_restart": records.ONE_VALUE,
    "takes_back_what_was_visible": marks.HIGH_BACK,
    "shows_open_transactions": transactions.ABORTED,
    "shows_aborted_transactions": transactions.ABORTED,
    "loses_a_marker": records.UNREAD,
    "tears_transactions": transactions.TORN,
    "lets_zombies_write": zombies.ZOMBIE,
    "takes_commits_of_old_generations": groups.FENCED,
    "forgets_commits": groups.POSITION,
    "commits_positions_of_aborted_transactions": groups.POSITION,
}


class BrokerWithABug(Broker):
    """A broker in a process of its own, with one planted bug, or with none."""

    def __init__(self, bug: str) -> None:
        super().__init__({"group.initial.rebalance.delay.ms": "0"})
        script = str(Path(planted.__file__))
        self.COMMAND = (sys.executable, script, bug)  # type: ignore[assignment]


def test_every_planted_bug_is_looked_for() -> None:
    assert set(FOUND_AS) == set(planted.BUGS)


async def test_nothing_is_found_in_a_broker_without_a_bug() -> None:
    history = await history_of("none")
    assert find(history) == [], report(history, find(history))
    assert min(len(history.sends), len(history.polls), len(history.committed)) > 3


@pytest.mark.parametrize("bug", FOUND_AS)
async def test_the_checker_finds_a_broker_that(bug: str) -> None:
    history = await history_of(bug)
    found = find(history)
    assert FOUND_AS[bug] in {verdict.name for verdict in found}, report(history, found)


async def history_of(bug: str) -> History:
    with BrokerWithABug(bug) as broker:
        return History.of(*await play(broker))

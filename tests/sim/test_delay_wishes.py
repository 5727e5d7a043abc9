"""The judge of delayed records in the simulation: what it lets pass, and what it does not."""

from __future__ import annotations

import random

import pytest

from penstock.model.delays import DELIVER_AT
from penstock.testing.history import End, History, Operation, Outcome, Poll, Send
from penstock.testing.sim.clients.delay import Wish, Wishes
from penstock.testing.sim.clients.violation import Violation

DUE = 10_000


class Log:
    """What producers were told of a log, and what a reader saw in it."""

    def __init__(self) -> None:
        self.now = 0
        self.apart = 0
        self.wishes = Wishes(random.Random(1), lambda: self.now, lambda: self.apart)
        self.operations: list[Operation] = []

    def send(self, value: str, offset: int, due: int = DUE, transaction: str = "") -> None:
        self.wishes._wishes[value] = Wish(due, due, [(DELIVER_AT, b"%d" % due)])
        self.operations.append(
            Send(
                topic="late",
                partition=0,
                value=value,
                offset=offset,
                transaction=transaction,
                outcome=Outcome.OK,
            )
        )

    def end(self, transaction: str, outcome: Outcome, *, commit: bool) -> None:
        self.operations.append(End(transaction=transaction, commit=commit, outcome=outcome))

    def read(self, *records: tuple[int, str], at: int = DUE) -> None:
        self.now = at
        self.wishes.see(
            Poll(topic="late", partition=0, start=0, end=99, records=list(records), committed=True)
        )

    def judge(self) -> None:
        self.wishes.judge(History(self.operations))


def test_what_was_acknowledged_has_to_come() -> None:
    log = Log()
    log.send("a", 1)
    log.send("b", 2)
    log.read((5, "a"))
    with pytest.raises(Violation, match=r"not delivered: \['b'\]"):
        log.judge()
    log.read((6, "b"))
    log.judge()
    assert log.wishes.read == {"a": 5, "b": 6}


def test_nothing_comes_twice() -> None:
    log = Log()
    log.send("a", 1)
    log.read((5, "a"))
    log.read((5, "a"))
    with pytest.raises(Violation, match="a was delivered at 5 and at 6"):
        log.read((6, "a"))


def test_nothing_comes_before_its_time_but_for_clocks_that_are_wrong() -> None:
    log = Log()
    log.send("a", 1)
    log.apart = 100
    log.read((5, "a"), at=DUE - 100)
    with pytest.raises(Violation, match="a was read 101 ms too early"):
        log.read((5, "a"), at=DUE - 101)


def test_equal_times_come_in_the_order_of_arrival() -> None:
    log = Log()
    log.send("a", 1)
    log.send("b", 2)
    log.read((5, "b"), (6, "a"))
    with pytest.raises(Violation, match=r"value='b'.* overtook .*value='a'"):
        log.judge()


def test_what_arrives_later_may_be_due_earlier() -> None:
    log = Log()
    log.send("a", 1)
    log.send("b", 7, due=DUE - 1000)
    log.read((5, "a"), (9, "b"))
    log.judge()
    assert len(log.wishes.read) == 2


def test_what_was_aborted_never_comes() -> None:
    log = Log()
    log.send("a", 1, transaction="t")
    log.end("t", Outcome.OK, commit=False)
    log.judge()
    log.read((5, "a"))
    with pytest.raises(Violation, match=r"t was aborted, and \['a'\] were delivered"):
        log.judge()


def test_of_a_transaction_whose_end_is_unknown_all_comes_or_nothing() -> None:
    log = Log()
    log.send("a", 1, transaction="t")
    log.send("b", 2, transaction="t")
    log.end("t", Outcome.UNKNOWN, commit=True)
    log.judge()
    log.read((5, "a"))
    with pytest.raises(Violation, match=r"\['a'\] were delivered and \['b'\] were not"):
        log.judge()

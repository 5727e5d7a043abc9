"""The history checker against a log that does everything right, and one that does one thing wrong.

The log is a list, and its clients take turns as chance has it: requests overlap, answers are lost,
transactions are left open. Whatever comes of it is sound.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.testing.history import End, History, Marks, Poll, Recorder, Send, find

Step = tuple[str, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "write",
                "write",
                "send",
                "append",
                "answer",
                "lose",
                "open",
                "commit",
                "abort",
                "poll",
                "look",
            )
        ),
        st.integers(0, 2),
    ),
    min_size=30,
    max_size=80,
)


class Entry(NamedTuple):
    """A record, or a marker, which has no value."""

    value: str
    transaction: str


class World:
    """One partition, three producers, three readers; the clock ticks with every note."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.aborted: set[str] = set()
        self.undecided: list[str] = []
        clock = count().__next__
        self.writers = [Recorder(f"writer {number}", clock=clock) for number in range(3)]
        self.readers = [Recorder(f"reader {number}", clock=clock) for number in range(3)]
        self.pending: dict[int, Send] = {}
        self.landed: dict[int, int] = {}
        self.transaction: dict[int, str] = {}
        self.positions = [0, 0, 0]
        self.names = count()

    def play(self, steps: list[Step]) -> History:
        for name, who in steps:
            getattr(self, name)(who)
        for who in range(3):
            self.answer(who)
            self.lose(who)
            self.abort(who)
        for who in range(3):
            self.poll(who)
        return History.of(*self.writers, *self.readers)

    def send(self, who: int) -> None:
        if who not in self.pending:
            label = self.transaction.get(who, "")
            send = Send(topic="t", partition=0, value=f"v{next(self.names)}", transaction=label)
            self.pending[who] = self.writers[who].begin(send)

    def append(self, who: int) -> None:
        if who in self.pending and who not in self.landed:
            send = self.pending[who]
            if send.transaction and all(each.transaction != send.transaction for each in self.log):
                self.undecided.append(send.transaction)
            self.landed[who] = len(self.log)
            self.log.append(Entry(send.value, send.transaction))

    def answer(self, who: int) -> None:
        if who in self.landed:
            self.writers[who].ok(self.pending.pop(who), offset=self.landed.pop(who))

    def write(self, who: int) -> None:
        """From the beginning to the end, without anything in between."""
        self.send(who)
        self.append(who)
        self.answer(who)

    def lose(self, who: int) -> None:
        if who in self.pending:
            self.pending.pop(who)
            self.landed.pop(who, None)

    def open(self, who: int) -> None:
        if who not in self.pending and who not in self.transaction:
            self.transaction[who] = f"transaction {next(self.names)}"

    def commit(self, who: int) -> None:
        self._end(who, commit=True)

    def abort(self, who: int) -> None:
        self._end(who, commit=False)

    def _end(self, who: int, commit: bool) -> None:
        if who in self.pending or who not in self.transaction:
            return
        label = self.transaction.pop(who)
        end = self.writers[who].begin(End(transaction=label, commit=commit))
        if not commit:
            self.aborted.add(label)
        if label in self.undecided:
            self.undecided.remove(label)
            self.log.append(Entry("", label))
        if len(self.log) % 3:  # every third answer is lost
            self.writers[who].ok(end)

    @property
    def last_stable(self) -> int:
        undecided = [at for at, each in enumerate(self.log) if each.transaction in self.undecided]
        return min(undecided, default=len(self.log))

    def poll(self, who: int) -> None:
        """Reader 0 sees everything, the others committed transactions only."""
        committed = who > 0
        start, end = self.positions[who], self.last_stable if committed else len(self.log)
        records = [
            (at, self.log[at].value)
            for at in range(start, end)
            if self.log[at].value and not (committed and self.log[at].transaction in self.aborted)
        ]
        self.positions[who] = end
        self.readers[who].note(
            Poll(topic="t", partition=0, start=start, end=end, records=records,
                 committed=committed, at_end=True)
        )  # fmt: skip

    def look(self, who: int) -> None:
        marks = Marks(topic="t", partition=0, high_watermark=len(self.log))
        marks.last_stable = self.last_stable
        self.readers[who].note(marks)


@given(STEPS)
@settings(max_examples=200)
def test_nothing_is_found_in_what_a_faultless_log_leads_to(steps: list[Step]) -> None:
    assert find(World().play(steps)) == []


@given(STEPS, st.data())
@settings(max_examples=200)
def test_a_record_that_is_missing_from_a_read_is_found(
    steps: list[Step], data: st.DataObject
) -> None:
    history = World().play(steps)
    known = {send.offset for send in history.sends if send.is_ok}
    visible = [
        (poll, record) for poll in history.polls for record in poll.records if record[0] in known
    ]
    assume(visible)
    poll, record = data.draw(st.sampled_from(visible))
    poll.records.remove(record)
    assert find(History(history.operations)) != []


@given(STEPS, st.data())
@settings(max_examples=200)
def test_two_records_that_changed_places_are_found(steps: list[Step], data: st.DataObject) -> None:
    history = World().play(steps)
    known = {send.offset for send in history.sends if send.is_ok}
    polls = [
        poll
        for poll in history.polls
        if len(poll.records) > 1 and any(offset in known for offset, _ in poll.records)
    ]
    assume(polls)
    poll = data.draw(st.sampled_from(polls))
    at = next(number for number, (offset, _) in enumerate(poll.records) if offset in known)
    others = [number for number in range(len(poll.records)) if number != at]
    other = data.draw(st.sampled_from(others))
    first, second = poll.records[at], poll.records[other]
    poll.records[at], poll.records[other] = (first[0], second[1]), (second[0], first[1])
    assert find(History(history.operations)) != []

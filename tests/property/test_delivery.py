"""A share group's deliveries under any order of fetches, words, failures, failovers and clocks.

The machine is led beside the model, with a share coordinator that loses writes and answers. What is
promised: the machine is what the model says, at every step; nobody gets what another holds; a
record that was accepted, with an answer that said so, is never delivered again; a record is
delivered as often as the group allows, by what was kept; and nothing is lost: in the end each
record was accepted by somebody or given up for a reason, and what was given up is buried.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordination.delivery.effects import (
    AckBatch,
    Acknowledge,
    DeadLetter,
    Held,
    Outcome,
    Span,
    StateBatch,
    Write,
)
from penstock.coordination.delivery.machine import Delivery
from penstock.coordination.delivery.settings import Backoff, DeliverySettings
from penstock.coordination.delivery.states import NEXT, State
from penstock.coordination.effects import Moment
from penstock.coordination.share.batches import merge
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.platform.chance import SystemChance
from tests.property.delivery_model import DONE, Model

MEMBERS = ("ann", "bob", "cleo")
LOCK_MS = 100
BACKOFF_MS = 70
IN_FLIGHT_MAX = 24
COUNT_MAX = 3

numbers = st.integers(0, 1 << 12)
inputs = st.tuples(
    st.sampled_from(
        (
            "fetch",
            "fetch",
            "fetch",
            "say",
            "say",
            "say",
            "say_oddly",
            "written",
            "written",
            "written",
            "unwritten",
            "leave",
            "wait",
            "wait_long",
            "buried",
            "unburied",
            "log_start",
            "fail_over",
            "turn_the_wall_clock",
        )
    ),
    numbers,
    numbers,
)
lives = st.tuples(
    st.booleans(), st.booleans(), st.booleans(), st.lists(inputs, min_size=1, max_size=80)
)

# What the log holds: batches of several sizes, with gaps between some of them.
SIZES = (1, 3, 7, 2, 12, 1, 1, 5)
GAPS = (0, 0, 2, 0, 0, 0, 4, 0)


def batches_of_the_log(count: int) -> list[Span]:
    found, offset = [], 0
    for at in range(count):
        offset += GAPS[at % len(GAPS)]
        found.append(Span(offset, offset + SIZES[at % len(SIZES)] - 1))
        offset = found[-1].last + 1
    return found


LOG = batches_of_the_log(24)
CHANCE = SystemChance()
WORDS = (
    Acknowledge.ACCEPT,
    Acknowledge.ACCEPT,
    Acknowledge.RELEASE,
    Acknowledge.RELEASE,
    Acknowledge.REJECT,
    Acknowledge.RENEW,
    Acknowledge.GAP,
)
STEPS = {(before, after) for (before, _), after in NEXT.items()}
ERRORS = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
)


def offsets_in(spans: Iterable[Span]) -> list[int]:
    return [offset for first, last in spans for offset in range(first, last + 1)]


def offsets_with(said: Iterable[AckBatch], word: Acknowledge) -> set[int]:
    """About which offsets this word was said."""
    return {
        offset
        for first, last, spoken in said
        for offset in range(first, last + 1)
        if spoken[0 if len(spoken) == 1 else offset - first] == word
    }


def batch_end(found: Iterable[Span], offset: int) -> int:
    return next(span.last for span in found if span.last >= offset)


class Life:
    """One share group on one partition, whoever leads it."""

    def __init__(self, backs_off: bool, buries: bool, strict: bool) -> None:
        self.settings = DeliverySettings(
            lock_ms=LOCK_MS,
            count_max=COUNT_MAX,
            in_flight_max=IN_FLIGHT_MAX,
            backoff=Backoff(BACKOFF_MS, BACKOFF_MS) if backs_off else Backoff(),
            buries=buries,
        )
        self.strict = strict
        self.at = Moment(Millis(1_000_000), Millis(0))
        self.log_began = 0
        self.held_start = 0
        self.held: list[StateBatch] = []
        self.spoke: dict[object, set[int]] = {}
        """What acknowledgements without an answer accept."""
        self.accepted: set[int] = set()
        """With an answer that said so."""
        self.excused: set[int] = set()
        """Accepted, maybe without an answer, or not there."""
        self.rejected: set[int] = set()
        self.graves: set[int] = set()
        self.begin()

    def begin(self) -> None:
        """Another leader, or the same one again: all it knows is what was kept."""
        self.writes: list[Write] = []
        self.letters: list[DeadLetter] = []
        self.spoke = {}
        self.states: dict[int, State] = {}
        held = Held(0, self.held_start, tuple(self.held))
        self.delivery = Delivery(held, self.settings, CHANCE, self.at)
        self.model = Model.loaded(self.settings, self.held_start, self.held, self.at)
        out = Outcome()
        self.states = {o: entry.state for o, entry in self.model.entries.items()}
        self.delivery.on_log_start(self.log_began, self.at, out)
        self.model.begin_at(self.log_began)
        self.delivery.on_due(self.at, out)
        self.collect(out)

    def collect(self, out: Outcome) -> None:
        """Take what a step asked for, and see that machine and model say the same."""
        assert out.failed is ErrorCode.NONE
        self.writes += out.writes
        self.letters += out.dead
        for token, error in out.answers:
            accepted = self.spoke.pop(token)
            if error is ErrorCode.NONE:
                self.accepted |= accepted
        self.check_steps()
        model, machine = self.model, self.delivery
        assert (machine.start, machine.end) == (model.start, model.end)
        seen = model.start
        for first, last, state, count, member in machine.view():
            assert first == seen
            seen = last + 1
            for offset in range(first, last + 1):
                entry = model.entries[offset]
                assert entry.state.name == state, offset
                if entry.state not in DONE:
                    assert (entry.count, entry.member) == (count, member), offset
        assert seen == model.end
        for write in out.writes:
            assert write.start <= model.start
            assert 0 <= write.complete <= model.end - write.start

    def check_steps(self) -> None:
        """Each record took a way that the table of states has. What its member has said about it
        does not count yet while the member is named."""
        now = {
            offset: State.ACQUIRED if member else State[state]
            for first, last, state, _, member in self.delivery.view()
            for offset in range(first, last + 1)
        }
        for offset, state in now.items():
            before = self.states.get(offset, State.AVAILABLE)
            assert state is before or (before, state) in STEPS, (offset, before, state)
        self.states = now

    # -- inputs ------------------------------------------------------------------------------------

    def fetch(self, who: int, how: int) -> None:
        read_from = self.delivery.next_offset(self.at)
        known = (offset for offset in sorted(self.model.entries) if self.is_free(offset))
        lowest = next(known, self.model.end)
        if read_from is None:
            assert lowest == self.model.end
            assert self.model.open >= IN_FLIGHT_MAX
            return
        assert read_from == lowest
        found = [span for span in LOG if span.last >= read_from][: 1 + how % 5]
        if found:
            self.acquire(MEMBERS[who % 3], read_from, found, 1 + how % 17, how)

    def is_free(self, offset: int) -> bool:
        return self.model.is_free(offset)

    def acquire(
        self, member: str, read_from: int, found: list[Span], records_max: int, how: int
    ) -> None:
        skip = found[:1] if how % 11 == 10 else []
        expired = found[-1:] if how % 13 == 12 else []
        lost = dict.fromkeys(range(read_from, found[-1].last + 1), State.ARCHIVED)
        for offset in offsets_in(found):
            lost.pop(offset, None)
        late = State.ARCHIVING if self.settings.buries else State.ARCHIVED
        lost |= dict.fromkeys(offsets_in(expired), late)
        lost |= dict.fromkeys(offsets_in(skip), State.ARCHIVED)
        out, end = Outcome(), self.model.end
        got = self.delivery.acquire(
            member, read_from, found, records_max, 4, self.strict, self.at, out, skip, expired
        )
        offsets = offsets_in(Span(first, last) for first, last, _ in got)
        fresh = [offset for offset in offsets if offset >= end]
        assert offsets == sorted(set(offsets))
        assert set(offsets) <= set(offsets_in(found)) - lost.keys()
        assert not self.accepted.intersection(offsets), "delivered after it was accepted"
        assert all(count <= COUNT_MAX for _, _, count in got)
        # All that was read for the first time was handed out or is lost.
        assert set(range(end, self.delivery.end)) == {o for o in lost if end <= o} & set(
            range(self.delivery.end)
        ) | set(fresh)
        if self.strict:
            assert len(offsets) <= records_max
        elif len(offsets) > records_max:
            assert offsets[-1] <= batch_end(found, offsets[records_max - 1])
        self.model.read(read_from, min(self.delivery.end, found[-1].last + 1), lost)
        self.excused.update(o for o, state in lost.items() if state is State.ARCHIVED)
        free = [o for o in sorted(self.model.entries) if read_from <= o and self.is_free(o)]
        free = [offset for offset in free if offset <= found[-1].last]
        assert offsets[:1] == free[:1] or (not offsets and not free)
        self.model.acquire(member, got, self.at)
        if self.strict and fresh:
            expired_now = sum(lost.get(o) is State.ARCHIVING for o in range(end, self.model.end))
            assert self.model.open - expired_now <= IN_FLIGHT_MAX
        self.collect(out)

    def say(self, who: int, how: int) -> None:
        """A member says something about what it holds."""
        member = MEMBERS[who % 3]
        held = [
            offset
            for offset, entry in sorted(self.model.entries.items())
            if entry.state is State.ACQUIRED and entry.member == member and not entry.ticket
        ]
        if held:
            begin = how % len(held)
            part = held[begin : begin + 1 + (how >> 4) % 9]
            self.acknowledge(member, [AckBatch(o, o, (WORDS[(how + o) % 7],)) for o in part])

    def say_oddly(self, who: int, how: int) -> None:
        """A member says something about whatever is there or not."""
        first = how % 90
        last = first + (how >> 5) % 6
        words = tuple(WORDS[(how + at) % 7] for at in range(last - first + 1))
        self.acknowledge(MEMBERS[who % 3], [AckBatch(first, last, words)])

    def acknowledge(self, member: str, said: list[AckBatch]) -> None:
        token, out = object(), Outcome()
        # About what is done with anybody may say anything.
        start = self.model.start
        said_of = {
            word: {offset for offset in offsets_with(said, word) if offset >= start}
            for word in Acknowledge
        }
        self.spoke[token] = said_of[Acknowledge.ACCEPT]
        refusal = self.model.acknowledge(member, said)
        self.delivery.acknowledge(member, said, token, self.at, out)
        if refusal is not None:
            assert out.answers == [(token, refusal)]
            assert not out.writes
        else:
            self.excused |= said_of[Acknowledge.ACCEPT] | said_of[Acknowledge.GAP]
            self.rejected |= said_of[Acknowledge.REJECT]
            self.model.say(said, out.writes[0].ticket if out.writes else 0, self.at)
        self.collect(out)

    def written(self, _: int, how: int) -> None:
        """The coordinator has the oldest write; its answer may be lost all the same."""
        if self.writes:
            write = self.writes.pop(0)
            self.keep(write)
            error = ErrorCode.NONE if how % 5 else ErrorCode.UNKNOWN_SERVER_ERROR
            self.answer(write, error)

    def keep(self, write: Write) -> None:
        self.held_start = max(self.held_start, write.start)
        merge(self.held, write.batches, self.held_start)

    def unwritten(self, _: int, how: int) -> None:
        if self.writes:
            self.answer(self.writes.pop(0), ERRORS[how % len(ERRORS)])

    def answer(self, write: Write, error: ErrorCode) -> None:
        out = Outcome()
        self.model.written(write.ticket, error is ErrorCode.NONE, self.at)
        self.delivery.on_written(write.ticket, error, self.at, out)
        self.collect(out)

    def leave(self, who: int, how: int) -> None:
        out, member = Outcome(), MEMBERS[who % 3]
        self.delivery.release(member, self.at, out, clean=how % 2 == 0)
        self.model.release(member, self.at, clean=how % 2 == 0)
        self.collect(out)

    def wait(self, _: int, how: int) -> None:
        self.pass_time(how % 40)

    def wait_long(self, _: int, how: int) -> None:
        self.pass_time(LOCK_MS + how % 60_000)

    def pass_time(self, millis: int, wall_millis: int | None = None) -> None:
        """Let time pass as a driver does that looks when it was told to, or a little later."""
        wall_millis = millis if wall_millis is None else wall_millis
        self.at = Moment(Millis(self.at.wall + wall_millis), Millis(self.at.mono + millis))
        for _ in range(8):
            due, out = self.delivery.next_due, Outcome()
            if due is None or due > self.at.mono + 10:
                break
            self.at = Moment(
                Millis(self.at.wall + max(0, due - self.at.mono)), Millis(max(self.at.mono, due))
            )
            self.model.pass_time(self.at)
            self.delivery.on_due(self.at, out)
            self.collect(out)

    def buried(self, *_: int) -> None:
        if self.letters:
            letter, out = self.letters.pop(0), Outcome()
            self.graves.update(range(letter.first, letter.last + 1))
            self.model.buried(letter.first, letter.last)
            self.delivery.on_buried(letter.first, letter.last, True, self.at, out)
            self.collect(out)

    def unburied(self, *_: int) -> None:
        if self.letters:
            letter, out = self.letters.pop(0), Outcome()
            self.delivery.on_buried(letter.first, letter.last, False, self.at, out)
            self.collect(out)

    def log_start(self, _: int, how: int) -> None:
        """Retention takes records away, read or not."""
        out = Outcome()
        self.log_began = min(max(self.log_began, self.model.start) + how % 5, LOG[-1].last)
        self.excused.update(range(self.log_began))
        self.delivery.on_log_start(self.log_began, self.at, out)
        self.model.begin_at(self.log_began)
        self.collect(out)

    def fail_over(self, _: int, how: int) -> None:
        """Another broker leads; the writes that are on their way may or may not arrive."""
        for write in self.writes[: how % (len(self.writes) + 1)]:
            self.keep(write)
        self.rejected |= self.model.given_up
        self.begin()

    def turn_the_wall_clock(self, _: int, how: int) -> None:
        self.at = Moment(Millis(self.at.wall + how - 2_000), self.at.mono)

    # -- the end -----------------------------------------------------------------------------------

    def heal(self) -> None:
        """With a coordinator and a dead-letter topic that work, all is done with in the end."""
        for _ in range(400):
            while self.writes or self.letters:
                self.written(0, 1)
                self.buried()
            if self.delivery.start > LOG[-1].last:
                break
            for who in range(len(MEMBERS)):
                self.fetch(who, 4)
                held = [o for o, e in self.model.entries.items() if e.member == MEMBERS[who]]
                self.acknowledge(MEMBERS[who], [AckBatch(o, o, (1,)) for o in sorted(held)])
            self.pass_time(31_000)
        assert self.delivery.start > LOG[-1].last, self.delivery.view()
        assert self.delivery.next_due is None or not self.model.entries

    def check(self) -> None:
        """Nothing is lost."""
        given_up = self.rejected | self.model.given_up
        fates = self.excused | (self.graves if self.settings.buries else given_up)
        missing = [offset for offset in offsets_in(LOG) if offset not in fates]
        assert not missing, f"neither accepted nor given up: {missing}"


@given(lives)
@settings(max_examples=120)
def test_deliveries_are_as_promised_whatever_happens(
    life: tuple[bool, bool, bool, list[tuple[str, int, int]]],
) -> None:
    backs_off, buries, strict, steps = life
    group = Life(backs_off, buries, strict)
    for step, who, how in steps:
        getattr(group, step)(who, how)
    group.heal()
    group.check()

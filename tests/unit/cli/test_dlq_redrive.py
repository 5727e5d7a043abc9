"""Which letters a redrive sends, and what it writes down about it, without a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from penstock.cli import dlq_redrive
from penstock.cli.dlq_choice import Choice
from penstock.cli.dlq_letter import Header, Source
from penstock.cli.dlq_redrive import Redrive, Wish
from penstock.cli.dlq_topics import Access
from penstock.cli.failure import Failure
from penstock.cli.places import Place
from penstock.model import dead_letters as names
from penstock.pipeline.redrive_progress import Progress as Redriven


class Message:
    """As confluent-kafka's."""

    def __init__(self, offset: int, reason: str = "rejected", source: int | None = None) -> None:
        number = offset if source is None else source
        self._offset = offset
        self._headers: list[Header] = [
            (names.TOPIC, b"orders"),
            (names.PARTITION, b"1"),
            (names.OFFSET, str(number).encode()),
            (names.REASON, reason.encode()),
        ]
        self._value = b"v%d" % number

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return self._value

    def headers(self) -> list[Header]:
        return self._headers


class World:
    """A dead-letter topic of one partition; topics of three; what was produced and committed."""

    def __init__(self, *messages: Message, originals: dict[int, bytes] | None = None) -> None:
        self.messages = messages
        self.originals = originals or {}
        self.produced: list[tuple[str, dict[str, Any]]] = []
        self.committed: list[tuple[int, str]] = []

    # As the reader.

    def batches(self) -> Iterator[Sequence[Message]]:
        yield self.messages[:3]
        yield self.messages[3:]

    def advance(self, amount: int) -> None:
        assert amount >= 0

    membership = None

    # As the cluster.

    def leaders(self, topics: Sequence[str]) -> dict[Place, int]:
        return {Place(topic, each): 0 for topic in topics if topic != "gone" for each in range(3)}

    # As the source of what letters do not hold.

    def find(self, source: Source) -> tuple[bytes | None, bytes | None, list[Header]] | None:
        value = self.originals.get(source.offset)
        return None if value is None else (b"k", value, [("own", b"x")])

    # As the producer.

    def begin_transaction(self) -> None:
        self._open: list[tuple[str, dict[str, Any]]] = []

    def produce(self, topic: str, **record: Any) -> None:
        self._open.append((topic, record))

    def poll(self, _: float) -> None: ...

    def send_offsets_to_transaction(self, places: Sequence[Any], _: object, __: float) -> None:
        (place,) = places
        self.committed.append((place.offset, place.metadata))

    def commit_transaction(self, _: float) -> None:
        self.produced += self._open

    def redrive(self, wish: Wish, way: Redriven | None = None) -> dlq_redrive.Outcome:
        work = Redrive(Access("", None, 1.0), "dlq.orders", wish, dry_run=False)
        work._producer = cast(Any, self)
        ways = {0: way or Redriven()}
        anyone = cast(Any, self)
        for chosen in work._chunks(anyone, ways, anyone):
            work._send(anyone, anyone, anyone, chosen, ways)
        return work.outcome

    @property
    def values(self) -> list[bytes]:
        return [record["value"] for _, record in self.produced]


def only(reason: str) -> Wish:
    return Wish(Choice(reason=re.compile(reason)))


def test_all_letters_go_back_to_their_topic_and_partition() -> None:
    world = World(*map(Message, range(5)))
    outcome = world.redrive(Wish(Choice()))
    assert outcome.sent == {"orders": 5}
    assert [topic for topic, _ in world.produced] == ["orders"] * 5
    assert world.produced[0][1]["partition"] == 1
    assert world.committed == [(5, "")]


def test_what_is_left_out_waits_and_what_was_sent_is_not_sent_again() -> None:
    world = World(Message(0), Message(1, "odd"), Message(2), Message(3, "odd"), Message(4))
    outcome = world.redrive(only("rejected"))
    assert (world.values, outcome.left) == ([b"v0", b"v2", b"v4"], {"odd": 2})
    assert world.committed == [(1, "2-3,4-5")]
    again = World(*world.messages)
    again.redrive(Wish(Choice()), Redriven.of(1, "2-3,4-5"))
    assert again.values == [b"v1", b"v3"]
    assert again.committed == [(5, "")]


def test_a_limit_leaves_the_rest_for_another_time() -> None:
    world = World(*map(Message, range(5)))
    outcome = world.redrive(Wish(Choice(), limit=2))
    assert (world.values, outcome.left) == ([b"v0", b"v1"], {"rejected": 3})
    assert world.committed == [(2, "")]


def test_transactions_are_bounded_by_letters_and_by_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dlq_redrive, "LETTERS_MAX", 2)
    world = World(*map(Message, range(5)))
    world.redrive(Wish(Choice()))
    assert world.committed == [(2, ""), (4, ""), (5, "")]
    monkeypatch.setattr(dlq_redrive, "BYTES_MAX", 3)
    world = World(*map(Message, range(2)))
    world.redrive(Wish(Choice()))
    assert world.committed == [(1, ""), (2, "")]


def test_a_twin_is_done_with_although_it_is_not_sent() -> None:
    world = World(Message(0), Message(1, source=0), Message(2))
    outcome = world.redrive(Wish(Choice()))
    assert (world.values, outcome.twins) == ([b"v0", b"v2"], 1)
    assert world.committed == [(3, "")]


def test_the_twin_of_a_letter_that_was_sent_before_is_known() -> None:
    world = World(Message(0), Message(1, source=0))
    outcome = world.redrive(Wish(Choice()), Redriven(1))
    assert (world.values, outcome.twins) == ([], 1)
    assert world.committed == [(2, "")]


def test_a_letter_that_is_named_by_its_place_is_sent_though_it_is_a_twin() -> None:
    world = World(Message(0), Message(1, source=0))
    outcome = world.redrive(Wish(Choice(places=frozenset({(0, 1)}))), Redriven(1))
    assert (world.values, outcome.twins) == ([b"v0"], 0)


def test_records_that_are_gone_keep_their_letters_in_order() -> None:
    bare = [Message(0), Message(1), Message(2, "odd"), Message(3)]
    for message in bare:
        message._headers.append((names.COPIED, b"false"))
    world = World(*bare, originals={0: b"zero", 3: b"three"})
    outcome = world.redrive(only("rejected"))
    assert world.values == [b"zero", b"three"]
    assert [letter.offset for letter in outcome.gone] == [1]
    assert world.committed == [(1, "3-4")]  # 1 is gone, 2 was left out: both wait
    assert world.produced[0][1]["headers"] == [("own", b"x"), (names.REDRIVES, b"1")]


def test_another_topic_gets_letters_where_their_keys_say() -> None:
    world = World(Message(0))
    world.redrive(Wish(Choice(), to="others"))
    assert world.produced[0][0] == "others" and "partition" not in world.produced[0][1]


@pytest.mark.parametrize(
    ("headers", "to", "problem"),
    [
        ([], "gone", "there is no topic gone for the letter at dlq.orders-0@0"),
        ([(names.TOPIC, b"")], "", "does not say where it came from"),
        ([("penstock-dlq-pipeline", b"clicks")], "", "is of pipeline clicks"),
    ],
)
def test_a_letter_that_can_go_nowhere_is_told(headers: list[Header], to: str, problem: str) -> None:
    message = Message(0)
    message._headers += headers
    with pytest.raises(Failure, match=problem):
        World(message).redrive(Wish(Choice(), to=to))

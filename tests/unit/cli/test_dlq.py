"""Dead letters on the command line: what they tell, which are meant, what can be deleted."""

from __future__ import annotations

import pytest

from penstock.cli import dlq_memory, dlq_purge, dlq_show
from penstock.cli.dlq_choice import Choice, choice_of
from penstock.cli.dlq_letter import Header, Letter, Source
from penstock.cli.failure import USAGE, Failure
from penstock.model import dead_letters as names
from penstock.pipeline.redrive_progress import Progress as Redriven

NOW_MS = 1_794_700_000_000


def letter(
    *headers: Header,
    at: tuple[int, int] = (0, 0),
    key: bytes | None = b"k",
    value: bytes | None = b"v",
) -> Letter:
    return Letter(*at, NOW_MS, key, value, headers)


def of_kafka(message: str = "Offset rejected by client.", **more: str) -> tuple[Header, ...]:
    """Headers as Kafka 4.4 writes them."""
    told = {
        "topic": "orders", "partition": "2", "offset": "41", "group": "workers",
        "delivery.count": "5", "message": message, **more,
    }  # fmt: skip
    return tuple((names.KAFKA_PREFIX + name, text.encode()) for name, text in told.items())


def test_a_letter_of_kafkas_is_understood() -> None:
    one = letter(("own", b"x"), *of_kafka())
    assert one.source == Source("orders", 2, 41)
    assert str(one.source) == "orders-2@41"
    assert (one.group, one.deliveries, one.reason) == ("workers", 5, "rejected")
    assert (one.time_ms, one.redrives, one.pipeline) == (NOW_MS, 0, "")
    tried = letter(*of_kafka("Offset delivery count exceeded the threshold."))
    assert tried.reason == "deliveries"


def test_what_penstock_adds_goes_before() -> None:
    ours = ((names.REASON, b"expired"), (names.TIME, b"17"), (names.REDRIVES, b"3"))
    one = letter(*of_kafka(), *ours)
    assert (one.reason, one.time_ms, one.redrives) == ("expired", 17, 3)


def test_a_letter_of_a_pipeline_is_understood() -> None:
    told = {"pipeline": "clicks", "topic": "web", "partition": "1", "offset": "9", "reason": "bad"}
    one = letter(*((names.PREFIX + name, text.encode()) for name, text in told.items()))
    assert (one.group, one.pipeline, one.reason) == ("clicks", "clicks", "bad")
    assert one.source == Source("web", 1, 9)


@pytest.mark.parametrize(
    ("message", "reason"),
    [("ValueError: no number: 'x'", "ValueError"), ("", "unknown"), (": odd", "unknown")],
)
def test_the_reason_of_a_program_is_what_its_message_begins_with(message: str, reason: str) -> None:
    assert letter(*of_kafka(message)).reason == reason


def test_a_record_cannot_say_where_its_letter_came_from() -> None:
    forged = (names.TOPIC, b"payments")
    assert letter(forged, *of_kafka()).source.topic == "orders"


@pytest.mark.parametrize("text", ["-1", "x", "1e3", "٣", "9" * 19, ""])
def test_a_number_that_is_none_is_not_known(text: str) -> None:
    headers = of_kafka(partition=text, offset=text, **{"delivery.count": text})
    one = letter(*headers, (names.TIME, text.encode()), (names.REDRIVES, text.encode()))
    assert one.source == Source("orders", -1, -1)
    assert (one.deliveries, one.time_ms, one.redrives) == (None, NOW_MS, 0)


def test_a_record_goes_back_as_it_was_and_counted() -> None:
    own = [("trace", b"1"), ("trace", None), ("penstock-ttl-ms", b"500")]
    one = letter(*own, ("penstock-delay-ms", b"10"), *of_kafka(), (names.REASON, b"rejected"))
    assert one.headers_again(one.headers) == [*own, ("penstock-redrive-count", b"1")]
    again = letter(*own, (names.REDRIVES, b"1"), *of_kafka())
    assert again.headers_again(again.headers) == [*own, ("penstock-redrive-count", b"2")]


@pytest.mark.parametrize(
    ("headers", "key", "value", "is_copy"),
    [
        (of_kafka(), b"k", b"v", True),
        (of_kafka(), None, b"v", True),
        (of_kafka(), None, None, False),
        ((*of_kafka(), (names.COPIED, b"true")), None, None, True),
        ((*of_kafka(), (names.COPIED, b"false")), None, None, False),
        ((), None, None, True),
    ],
    ids=["both", "value", "Kafka without", "said to be", "said not to be", "no letter"],
)
def test_a_letter_without_key_and_value_points_to_its_record(
    headers: tuple[Header, ...], key: bytes | None, value: bytes | None, is_copy: bool
) -> None:
    assert letter(*headers, key=key, value=value).is_copy is is_copy


def test_letters_of_one_record_are_known_and_no_others() -> None:
    one = letter(*of_kafka(), at=(0, 1))
    assert one.identity == letter(*of_kafka(group="others"), at=(1, 7)).identity
    others = [
        letter(*of_kafka(offset="42")),
        letter(*of_kafka(), key=b"kv", value=b""),
        letter(*of_kafka(), key=None),
        letter(*of_kafka(), value=b"w"),  # the topic was made anew, and this is another record
    ]
    assert len({each.identity for each in [one, *others]}) == 5


def choice(**said: object) -> Choice:
    options: dict[str, object] = dict.fromkeys(
        ("since", "until", "reason", "key", "source", "group", "at")
    )
    return choice_of(**{**options, **said}, now_ms=NOW_MS)  # type: ignore[arg-type]


ONE = letter(*of_kafka("KeyError: 'price'"), (names.TIME, str(NOW_MS - 60_000).encode()), at=(1, 7))


@pytest.mark.parametrize(
    ("said", "takes"),
    [
        ({}, True),
        ({"since": "2m"}, True),
        ({"since": "30s"}, False),
        ({"until": "30s"}, True),
        ({"until": "1m"}, False),  # the end is exclusive
        ({"since": f"@{NOW_MS - 60_000}"}, True),
        ({"reason": "^KeyError$"}, True),
        ({"reason": "price"}, True),
        ({"reason": "rejected"}, False),
        ({"key": "k"}, True),
        ({"key": "K"}, False),
        ({"source": "orders", "group": "workers"}, True),
        ({"source": "order"}, False),
        ({"group": "others"}, False),
        ({"at": ["0:1", "1:7"]}, True),
        ({"at": ["7:1"]}, False),
        ({"at": ["1:7"], "key": "x"}, False),
    ],
)
def test_a_letter_is_meant_if_it_fits_all_that_is_said(
    said: dict[str, object], takes: bool
) -> None:
    assert choice(**said).takes(ONE) is takes


def test_saying_nothing_means_everything() -> None:
    assert choice().is_everything
    assert not choice(since="2m").is_everything


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"since": "17"}, "--since '17' is not a time"),
        ({"until": "soon"}, "--until 'soon' is not a position"),
        ({"reason": "("}, "is not a regular expression"),
        ({"at": ["0-1"]}, "--at '0-1' is not a letter's place"),
        ({"at": ["0:-1"]}, "is not a letter's place"),
    ],
)
def test_a_choice_that_is_none_is_told(said: dict[str, object], problem: str) -> None:
    with pytest.raises(Failure, match=problem.replace("(", r"\(")) as told:
        choice(**said)
    assert told.value.status == USAGE


LYING = [letter(*of_kafka(message), at=at) for message, at in [
    ("bad", (0, 4)), ("bad", (0, 5)), ("odd", (0, 6)), ("odd", (1, 0)), ("bad", (1, 1)),
]]  # fmt: skip


def purging(said: Choice, sent: dict[int, Redriven] | None = None) -> dict[int, int]:
    batches = [LYING[:2], LYING[2:]]
    return dlq_purge.plan(batches, said, sent_only=sent is not None, sent=sent or {}).points


def test_everything_can_be_deleted() -> None:
    assert purging(choice()) == {0: 7, 1: 2}


def test_letters_that_lie_first_can_be_deleted() -> None:
    made = dlq_purge.plan([LYING[:3]], choice(reason="bad"), sent_only=False, sent={})
    assert (made.points, made.counts) == ({0: 6}, {0: 2})


def test_letters_behind_others_cannot_be_deleted_alone() -> None:
    with pytest.raises(Failure, match=r"letter at 1:1 cannot be deleted .* 1:0 \(odd\), be kept"):
        purging(choice(reason="bad"))


def test_what_was_sent_can_be_deleted_as_far_as_all_was() -> None:
    sent = {0: Redriven(6), 1: Redriven(0)}
    assert purging(choice(), sent) == {0: 6}
    with pytest.raises(Failure, match="1:1 cannot be deleted"):
        purging(choice(), {1: Redriven(0, [(1, 2)])})


def test_what_was_sent_is_known_by_its_place() -> None:
    way = {0: Redriven(5, [(6, 7)])}
    assert [dlq_memory.was_sent(one, way) for one in LYING] == [True, False, True, False, False]


def test_a_table_is_for_people_and_a_document_for_programs() -> None:
    odd = letter(("own", b"\xff"), *of_kafka("x" * 99), at=(3, 8), key=b"\xff", value=None)
    row = dlq_show.table([(odd, True)]).rows[0]
    assert row[0] == "3:8" and row[6] == "\\xff" and len(str(row[8])) == 60
    made = dlq_show.document(odd, True)
    assert made["key_base64"] == "/w==" and made["value"] is None and made["sent"] is True
    assert made["headers"] == [["own", {"base64": "/w=="}]]
    assert made["message"] == "x" * 99


def test_who_may_not_know_what_was_sent_is_told_neither_yes_nor_no() -> None:
    assert dlq_show.table([(ONE, None)]).rows[0][5] is None
    assert dlq_show.document(ONE, None)["sent"] is None


def test_a_time_that_is_no_date_is_shown_as_it_is() -> None:
    assert dlq_show.time_text(0) == "1970-01-01T00:00:00.000Z"
    assert dlq_show.time_text(10**18 - 1) == "@999999999999999999"

"""Dead letters: written once with all that is known, and sent through again when it is mended."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.cli.failure import Failure
from penstock.cli.output import Shape
from penstock.cli.pipeline_redrive import redrive as command
from penstock.pipeline.problem import Problem
from penstock.pipeline.redrive import Wish, redrive
from penstock.pipeline.redrive_progress import Progress, TooManyGaps
from penstock.pipeline.sinks.dead_letters import PREFIX, open_dead_letters
from penstock.pipeline.spec.model import OnError
from penstock.pipeline.views import DEAD_LETTER_TYPE
from penstock.testing import Broker
from tests.pipeline.sinks.topic_scene import Scene

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def scene(spark: SparkSession, pipeline_broker: Broker, tmp_path: Path) -> Scene:
    return Scene(spark, pipeline_broker.bootstrap_servers, tmp_path)


def bad_record(topic: str, number: int, reason: str = "no JSON") -> tuple[object, ...]:
    headers = [("trace", b"\xff"), (f"{PREFIX}reason", b"an older death")]
    place = ("orders", topic, 1, number, None, None)
    return (reason, (*place, b"k\xfe%d" % number, b"v\xfe%d" % number, headers))


def bad_line(number: int) -> tuple[object, ...]:
    place = ("logs", None, None, None, "/var/log/a.log", number)
    return ("too short", (*place, None, b"line \xff", None))


def frame(scene: Scene, *errors: tuple[object, ...]) -> DataFrame:
    return scene.spark.createDataFrame(list(errors), DEAD_LETTER_TYPE)


def told(letter: Message) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX): value.decode()
        for name, value in letter.headers()
        if name.startswith(PREFIX)
    }


def test_a_dead_letter_has_the_bytes_it_had_and_says_what_was_wrong_and_where(
    scene: Scene,
) -> None:
    context = scene.context(on_error=OnError(policy="dlq", topic=f"{scene.name}.bad"))
    sink = open_dead_letters(context)
    rows = frame(scene, bad_record("numbers", 6), bad_line(7))
    sink.prepare(rows)
    sink.write(rows, 0)
    sink.write(rows, 0)
    letters = sorted(scene.records(f"{scene.name}.bad"), key=lambda each: each.value())
    line, record = letters
    assert (record.key(), record.value()) == (b"k\xfe6", b"v\xfe6")
    assert record.headers()[0] == ("trace", b"\xff")
    known = told(record)
    assert known.pop("time").endswith("Z")
    assert known == {
        "reason": "no JSON",
        "pipeline": scene.name,
        "source": "orders",
        "topic": "numbers",
        "partition": "1",
        "offset": "6",
    }
    assert (line.key(), line.value()) == (None, b"line \xff")
    known = told(line)
    assert (known["file"], known["line"]) == ("/var/log/a.log", "7")
    assert "topic" not in known


def test_letters_go_back_to_their_topic_once_and_those_left_out_wait(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"{scene.name}.in"
    scene.create(1, source)
    context = scene.context()
    sink = open_dead_letters(context)
    late = [bad_record(source, number, "late") for number in (2, 4)]
    wrong = [bad_record(source, number, "wrong") for number in (1, 3, 5)]
    rows = frame(scene, *late, *wrong)
    sink.prepare(rows)
    sink.write(rows, 0)
    file = scene.folder / "pipeline.yml"
    file.write_text(
        f"name: {scene.name}\nbootstrap: {scene.bootstrap}\n"
        f"sources: {{numbers: {{topic: {source}}}}}\nsinks: {{out: {{topic: {scene.topic}}}}}\n"
    )

    command(str(file), filter="^wrong", dry_run=True, output=Shape.JSON)
    assert json.loads(capsys.readouterr().out)["sent"] == {source: 3}
    assert scene.records(source) == []

    outcome = redrive(context.pipeline, Wish(reason="^wrong", limit=2))
    assert (outcome.sent, outcome.left) == ({source: 2}, {"late": 2, "wrong": 1})
    assert redrive(context.pipeline, Wish(reason="^wrong")).sent == {source: 1}
    assert redrive(context.pipeline, Wish(reason="^wrong")).sent == {}
    first = scene.records(source)
    assert {each.value() for each in first} == {b"v\xfe1", b"v\xfe3", b"v\xfe5"}
    assert {each.key() for each in first} == {b"k\xfe1", b"k\xfe3", b"k\xfe5"}
    assert first[0].headers() == [("trace", b"\xff"), ("penstock-redrive-count", b"1")]

    assert redrive(context.pipeline).sent == {source: 2}
    assert redrive(context.pipeline) == redrive(context.pipeline)
    assert len(scene.records(source)) == 5


def test_letters_from_files_need_a_topic_to_go_to(scene: Scene) -> None:
    context = scene.context()
    sink = open_dead_letters(context)
    rows = frame(scene, bad_line(1))
    sink.prepare(rows)
    sink.write(rows, 0)
    with pytest.raises(Problem, match=r"came from /var/log/a\.log") as refused:
        redrive(context.pipeline)
    assert "--to" in refused.value.advice
    scene.create(1, scene.topic)
    assert redrive(context.pipeline, Wish(to=scene.topic)).sent == {scene.topic: 1}
    assert scene.records()[0].value() == b"line \xff"


def test_without_dead_letters_there_is_nothing_to_send(scene: Scene) -> None:
    assert redrive(scene.context().pipeline).sent.total() == 0


def test_a_filter_that_is_no_expression_is_told() -> None:
    with pytest.raises(Failure, match="is not a regular expression"):
        command("pipeline.yml", filter="(")


def test_progress_remembers_what_was_sent_behind_what_waits() -> None:
    progress = Progress.of(-1001, None)
    for waits in (2, 5):
        progress.leave(waits)
    offset, metadata = progress.after([0, 1, 3, 4, 6])
    assert (offset, metadata) == (2, "3-5,6-7")
    again = Progress.of(offset, metadata)
    assert [each for each in range(2, 9) if not again.was_sent(each)] == [2, 5, 7, 8]
    again.leave(5)
    assert again.after([2]) == (5, "6-7")
    assert again.after([40]) == (5, "6-15")
    assert Progress.of(5, "6-15").after([5]) == (41, "")


def test_many_gaps_are_remembered_as_a_row_of_bits() -> None:
    chance = random.Random(8)
    sent = [each for each in range(20_000) if chance.random() < 0.3]
    progress = Progress()
    for waits in sorted({*range(20_000)} - {*sent}):
        progress.leave(waits)
    offset, metadata = progress.after(sent)
    assert metadata.startswith("~") and len(metadata) < 4096
    again = Progress.of(offset, metadata + "\0")  # as it comes back when librdkafka has sent it
    assert [each for each in range(20_000) if each < offset or again.was_sent(each)] == sent


@pytest.mark.parametrize("metadata", ["whatever", "~whatever", "~AAAA", "1-2-3", "~é"])
def test_metadata_of_somebody_else_is_not_taken_for_progress(metadata: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Progress.of(5, metadata)


def test_more_gaps_than_can_be_remembered_are_refused() -> None:
    chance = random.Random(8)
    progress = Progress()
    sent = [each for each in range(100_000) if chance.random() < 0.5]
    for waits in sorted({*range(100_000)} - {*sent}):
        progress.leave(waits)
    with pytest.raises(TooManyGaps):
        progress.after(sent)


def test_a_row_of_bits_has_a_bound() -> None:
    progress = Progress()
    for waits in range(0, 10_000, 2):
        progress.leave(waits)
    with pytest.raises(TooManyGaps):
        progress.after([*range(1, 10_000, 2), 2**40])

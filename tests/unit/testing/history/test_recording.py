"""Notes on disk: whole, torn, merged; and the page that a failure prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing.history import (
    End,
    History,
    Outcome,
    Poll,
    Recorder,
    Send,
    Unsound,
    check,
    text_of,
)
from penstock.testing.history.lines import BadLine
from tests.unit.testing.history.story import Story


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "client.jsonl"
    with Recorder("client", path) as recorder:
        sends = [
            recorder.begin(Send(topic="t", partition=1, value=f"v{n}", transaction="x"))
            for n in range(3)
        ]
        recorder.ok(sends[0], offset=7)
        recorder.failed(sends[1], "MSG_SIZE_TOO_LARGE")
        recorder.note(Poll(topic="t", partition=1, start=0, end=9, records=[(7, "v0")]))
        recorder.unknown(recorder.begin(End(transaction="x", commit=True)), "timed out")
    read = History.read(path)
    assert [repr(each) for each in read.operations] == [repr(each) for each in recorder.operations]
    assert [each.outcome for each in read.sends] == [
        Outcome.OK,
        Outcome.FAILED,
        Outcome.UNKNOWN,
    ]


def test_the_notes_of_a_killed_process_survive_it(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    program = (
        "import os, signal, sys\n"
        "from penstock.testing.history import Recorder, Send\n"
        "recorder = Recorder('killed', sys.argv[1])\n"
        "recorder.ok(recorder.begin(Send(topic='t', partition=0, value='a')), offset=3)\n"
        "recorder.begin(Send(topic='t', partition=0, value='b'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=60)
    sends = History.read(path).sends
    assert [(send.value, send.outcome, send.offset) for send in sends] == [
        ("a", Outcome.OK, 3),
        ("b", Outcome.UNKNOWN, -1),
    ]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl"
    with Recorder("client", path) as recorder:
        recorder.ok(recorder.begin(Send(topic="t", partition=0, value="a")), offset=0)
    os.truncate(path, path.stat().st_size - 5)
    assert [send.outcome for send in History.read(path).sends] == [Outcome.UNKNOWN]


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b'{"client": "c", "op": 1, "at": 1, "do": "dance"}',
        b'{"client": "c", "op": 1, "at": 1, "do": "send", "topic": "t"}',
        b'{"client": "c", "op": 99, "at": 1, "is": "ok"}',
    ],
)
def test_a_bad_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(line + b"\n" + line + b"\n")
    with pytest.raises(BadLine, match=r"bad\.jsonl:1: "):
        History.read(path)


def test_a_client_that_counts_anew_leaves_what_it_had_begun_unknown(tmp_path: Path) -> None:
    path = tmp_path / "again.jsonl"
    Recorder("c", path).begin(Send(topic="t", partition=0, value="first life"))
    second = Recorder("c", path)
    second.ok(second.begin(Send(topic="t", partition=0, value="second life")), offset=1)
    assert {send.value: send.outcome for send in History.read(path).sends} == {
        "first life": Outcome.UNKNOWN,
        "second life": Outcome.OK,
    }


def test_histories_of_several_processes_merge_in_time() -> None:
    one, two = (
        Recorder("one", clock=iter(range(0, 99, 2)).__next__),
        Recorder("two", clock=iter(range(1, 99, 2)).__next__),
    )
    for number in range(2):
        for recorder in (two, one):
            recorder.note(Send(topic="t", partition=0, value=f"{recorder.client}{number}"))
    merged = History.of(two) + History.of(one)
    assert [send.value for send in merged.sends] == ["one0", "two0", "one1", "two1"]


def test_long_and_binary_values_are_known_by_their_digest() -> None:
    assert text_of(b"plain") == "plain"
    assert text_of("x" * 201).startswith("sha256:")
    assert text_of(b"\xff\x00") != text_of(b"\xff\x01")


def test_the_report_says_what_went_wrong_and_shows_the_neighbourhood() -> None:
    story = Story()
    for number in range(5):
        story.send("producer", f"v{number}", number)
    story.poll("reader", 0, 5, {0: "v0", 1: "v1", 3: "v3", 4: "v4"})
    with pytest.raises(Unsound) as raised:
        check(story.history)
    text = str(raised.value)
    assert "BROKEN: nothing acknowledged is lost (1)" in text
    assert "readers went over offset 2 of t-0 and it was not there" in text
    assert "producer #2 send topic='t' partition=0 value='v2' offset=2 ok" in text
    assert ">        2  'v2' sent by producer; readers found nothing" in text
    assert "         3  'v3' sent by producer; readers found 'v3'" in text
    assert [verdict.offset for verdict in raised.value.verdicts] == [2]


def test_the_report_shows_the_first_few_of_many() -> None:
    story = Story()
    for number in range(9):
        story.send("producer", f"v{number}", number)
    story.poll("reader", 0, 9, {})
    with pytest.raises(Unsound, match=r"is lost \(9\)[\s\S]*\.\.\. and 4 more"):
        check(story.history)


def test_the_command_line_checks_files(tmp_path: Path) -> None:
    path = tmp_path / "client.jsonl"
    with Recorder("client", path) as recorder:
        recorder.ok(recorder.begin(Send(topic="t", partition=0, value="a")), offset=0)
        recorder.note(Poll(topic="t", partition=0, start=0, end=1, records=[(0, "a")]))
    sound = run_command(str(path))
    assert (sound.returncode, sound.stdout) == (
        0,
        "2 operations of 1 client: nothing wrong\n",
    )
    with open(path, "a") as file:
        poll = {"do": "poll", "topic": "t", "partition": 0, "start": 0, "end": 1}
        other = {"at": 1, "client": "z", "op": 0, "is": "ok", "records": [[0, "b"]]}
        file.write(json.dumps({**poll, **other}) + "\n")
    broken = run_command(str(path))
    assert broken.returncode == 1
    assert "BROKEN: one value per offset" in broken.stdout
    assert run_command().returncode == run_command(str(tmp_path / "none")).returncode == 2


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.testing.history", *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

"""Which pipelines run here, seen from another terminal."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.running.registry import STATUS, Claim, Entry, entries
from penstock.pipeline.running.status import FAILED, STOPPED
from tests.pipeline.running.scene import a_status, pipeline_in


def test_a_running_pipeline_is_seen_as_it_says(tmp_path: Path) -> None:
    claim = Claim(pipeline_in(tmp_path))
    claim.entry.write(a_status())
    assert Entry("orders").read() == a_status()
    assert [entry.name for entry in entries()] == ["orders"]


def test_a_process_that_died_without_a_word_is_noticed(tmp_path: Path) -> None:
    claim = Claim(pipeline_in(tmp_path))
    claim.entry.write(a_status())
    claim.release()  # as the kernel does for a process that was killed
    status = Entry("orders").read()
    assert status is not None
    assert status.state == FAILED
    assert "4711 ended without a word" in status.message


def test_a_pipeline_that_ended_is_left_as_it_ended(tmp_path: Path) -> None:
    claim = Claim(pipeline_in(tmp_path))
    claim.entry.write(a_status(state=STOPPED))
    claim.release()
    status = Entry("orders").read()
    assert status is not None
    assert status.state == STOPPED


def test_two_runs_of_a_pipeline_at_once_are_refused(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    claim = Claim(pipeline)
    with pytest.raises(Problem, match=r"runs already \(process \d+\)"):
        Claim(pipeline)
    claim.release()
    Claim(pipeline).release()


def test_two_names_with_one_checkpoint_are_refused(tmp_path: Path) -> None:
    text = (
        "name: {}\nsources: {{t: {{topic: t}}}}\nsinks: {{s: {{console: 1}}}}\ncheckpoint: same\n"
    )
    one = Claim(pipeline_in(tmp_path, text.format("one"), "one.yml"))
    with pytest.raises(Problem, match="runs already"):
        Claim(pipeline_in(tmp_path, text.format("two"), "two.yml"))
    one.release()


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    code = (
        "import os, sys\n"
        "from penstock.pipeline.running.registry import Claim\n"
        "from penstock.pipeline.spec.read import read_pipeline\n"
        "claim = Claim(read_pipeline(sys.argv[1], {}))\n"
        "print('claimed', flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, pipeline.place.file], capture_output=True, text=True
    )
    assert ran.stdout == "claimed\n", ran.stderr
    Claim(pipeline).release()


def test_a_status_of_another_release_is_nobodys(state: Path) -> None:
    folder = state / "orders"
    folder.mkdir(parents=True)
    (folder / STATUS).write_text('{"something": "else"}')
    assert Entry("orders").read() is None


def test_a_run_that_is_about_to_end_can_be_waited_for(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    claim = Claim(pipeline)
    threading.Timer(0.5, claim.release).start()
    Claim(pipeline, wait_seconds=20).release()

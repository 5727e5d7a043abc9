"""Many pipelines under one supervisor; the processes here are small scripts."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from penstock.pipeline.running import retry, supervise
from penstock.pipeline.running.signals import Stop
from penstock.pipeline.running.status import DONE, FAILED, RETRYING, PipelineStatus
from penstock.pipeline.running.supervise import Child, Supervisor

SECONDS_MAX = 20.0


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(supervise, "STARTS_MAX", 2)
    monkeypatch.setattr(retry, "FIRST_SECONDS", 0.05)


def child(name: str, code: str) -> Child:
    return Child(name, f"{name}.yml", [sys.executable, "-c", code])


def nobody(_: object) -> None:
    """Listens to nothing."""


def states(ended: list[PipelineStatus]) -> dict[str, str]:
    return {each.pipeline: each.state for each in ended}


def test_all_run_and_those_that_end_well_are_done() -> None:
    ended = Supervisor([child("a", "pass"), child("b", "pass")], Stop()).run(nobody)
    assert states(ended) == {"a": DONE, "b": DONE}


def test_one_that_fails_is_started_again_until_it_gets_on(tmp_path: Path) -> None:
    seen: list[str] = []
    code = (
        f"import pathlib, sys; tries = pathlib.Path({str(tmp_path / 'tries')!r})\n"
        "with tries.open('a') as file: file.write('x')\n"
        "if len(tries.read_text()) < 3: sys.exit('error: the broker is away')\n"
    )
    supervisor = Supervisor([child("a", code)], Stop())
    (ended,) = supervisor.run(lambda all_: seen.extend(f"{a.state} {a.message}" for a in all_))
    assert ended.state == DONE
    assert ended.restarts == 2
    assert any(each.startswith(f"{RETRYING} the broker is away; attempt 2") for each in seen)


def test_one_that_gets_nowhere_is_given_up_and_the_others_run_on() -> None:
    code = "import sys; sys.exit('error: no such table')"
    ended = Supervisor([child("bad", code), child("good", "pass")], Stop()).run(nobody)
    assert states(ended) == {"bad": FAILED, "good": DONE}
    assert ended[0].message == "no such table"


def test_a_wrong_command_is_not_tried_again(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    code = f"import sys; open({str(tries)!r}, 'a').write('x'); sys.exit(2)"
    (ended,) = Supervisor([child("a", code)], Stop()).run(nobody)
    assert ended.state == FAILED
    assert tries.read_text() == "x"


def test_a_wish_to_stop_reaches_all_and_is_waited_for(tmp_path: Path) -> None:
    stop = Stop()
    code = (
        "import pathlib, signal, sys, time\n"
        "def end(*_):\n"
        "    time.sleep(0.2)\n"
        f"    pathlib.Path({str(tmp_path)!r}, sys.argv[1] + '.ended').touch()\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"pathlib.Path({str(tmp_path)!r}, sys.argv[1] + '.ready').touch()\n"
        "time.sleep(60)\n"
    )
    children = [Child(name, "f.yml", [sys.executable, "-c", code, name]) for name in ("a", "b")]

    def ask_when_ready() -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while len(list(tmp_path.glob("*.ready"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        stop.ask()

    thread = threading.Thread(target=ask_when_ready)
    thread.start()
    ended = Supervisor(children, stop).run(nobody)
    thread.join()
    assert states(ended) == {"a": DONE, "b": DONE}
    assert len(list(tmp_path.glob("*.ended"))) == 2

from __future__ import annotations

import signal
import subprocess
import sys

CODE = """\
import sys, time
from penstock.pipeline.running import signals
signals.ECHO_SECONDS = float(sys.argv[1])
stop = signals.SignalledStop()
stop.listen()
print("ready", flush=True)
stop.asked.wait(30)
print("asked", flush=True)
time.sleep(float(sys.argv[2]))
print("ended", flush=True)
"""


def started(echo: float, work: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, str(echo), str(work)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_the_first_signal_lets_the_work_in_hand_finish() -> None:
    process = started(1.0, 0.2)
    process.send_signal(signal.SIGTERM)
    told, _ = process.communicate(timeout=20)
    assert told == "asked\nended\n"
    assert process.returncode == 0


def test_a_second_signal_ends_it_at_once() -> None:
    process = started(0.0, 60)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 128 + signal.SIGINT


def test_the_same_wish_sent_twice_is_one_wish() -> None:
    process = started(60.0, 0.2)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=20)
    assert told == "asked\nended\n"

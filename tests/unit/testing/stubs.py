"""A broker's process without a broker: the real child around a node that only pretends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from penstock.testing import Broker

_REPOSITORY = Path(__file__).resolve().parents[3]
PYTHONPATH = os.pathsep.join([str(_REPOSITORY / "src"), str(_REPOSITORY)])
"""For processes that tests start elsewhere: where Penstock and these stubs are found."""

_PRETEND = """
import signal, sys, threading, types

def run_up(data, host, port, overrides, secure):
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    print("settings", sorted(overrides.items()), "data", data)
    mode = overrides.get("mode")
    if mode == "fail":
        print("there is no room", file=sys.stderr)
        return 1
    if mode == "silent":
        signal.pause()
    print(f"penstock is ready on {host}:{port or 12345} in no time", flush=True)
    if mode == "chatty":
        for number in range(50_000):
            print("line", number)
        print("said it all", flush=True)
    if mode == "crash":
        return 7
    while not stopped.wait(0.01):
        pass
    print("stopped", flush=True)
    return 0

app = types.ModuleType("penstock.app")
app.run_up = run_up
sys.modules["penstock.app"] = app
from penstock.testing.child import main
sys.exit(main(sys.argv[1:]))
"""


class PretendBroker(Broker):
    """`Broker` with the pretending node; the setting `mode` says how it behaves."""

    COMMAND = (sys.executable, "-c", _PRETEND)

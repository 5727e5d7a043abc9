"""examples/queues/demo.py, as a user sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "queues" / "demo.py"


def test_retry_dead_letter_redrive_and_delay_are_as_the_demo_says() -> None:
    told = subprocess.run(
        [sys.executable, str(DEMO)], capture_output=True, text=True, timeout=180, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.endswith("Everything was as it should be.\n")
    for step in ("pears, try 3", "orders  2", "'penstock-redrive-count': b'1'", "'call back' came"):
        assert step in told.stdout, told.stdout

"""`make demo`, as a user sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "kill_and_count.py"


def test_the_demo_loses_and_doubles_nothing() -> None:
    told = subprocess.run(
        [sys.executable, str(DEMO)], capture_output=True, text=True, timeout=180, check=False
    )
    assert told.returncode == 0, told.stderr
    assert "lost 0, doubled 0" in told.stdout
    assert told.stderr.count("killed with -9") == 3

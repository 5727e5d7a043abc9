"""`make demo` and `make demo-broker`, as a user sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_log_comes_into_a_lake_once_whatever_is_killed(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, str(EXAMPLES / "web_log" / "demo.py"), f"--work={tmp_path}",
         "--lines=6000", "--lines-per-second=300"],
        capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-4000:] + told.stdout
    assert "lines written 6,000, in the lake 5,988, dead letters 12" in told.stdout
    assert "missing 0, doubled 0, strangers 0" in told.stdout
    assert told.stderr.count("kill -9") == 2
    picture = (tmp_path / "counts.svg").read_text()
    assert picture.startswith("<svg")
    for section in ("(home)", "help", "news", "search", "shop"):
        assert f">{section}</text>" in picture


def test_the_demo_loses_and_doubles_nothing() -> None:
    told = subprocess.run(
        [sys.executable, str(EXAMPLES / "kill_and_count.py")],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert "lost 0, doubled 0" in told.stdout
    assert told.stderr.count("killed with -9") == 3

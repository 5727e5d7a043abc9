from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def penstock(tmp_path: Path) -> Run:
    """Runs the command as a user's shell would, in an empty directory."""

    def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        environment.pop("PENSTOCK_BOOTSTRAP", None)
        return subprocess.run(
            [sys.executable, "-m", "penstock", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=60,
            **options,  # type: ignore[call-overload]
        )

    return run

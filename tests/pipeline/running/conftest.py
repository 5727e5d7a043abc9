from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipeline.running.registry import VARIABLE


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of running pipelines that no other test sees."""
    folder = tmp_path / "state"
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.runner import Penstock


@pytest.fixture
def penstock(tmp_path: Path) -> Penstock:
    """The command in an empty directory."""
    return Penstock(tmp_path)

"""Penstock as a file that travels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipeline.spark.package import package_zip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_same_code_is_the_same_file(cache: Path) -> None:
    first = package_zip()
    made = first.stat().st_mtime_ns
    assert package_zip() == first
    assert first.stat().st_mtime_ns == made
    assert [each.name for each in first.parent.iterdir()] == [first.name]


def test_pipelines_can_be_imported_from_it_alone(tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(package_zip())!r})\n"
        "import penstock.pipeline.problem, penstock.model\n"
        "print(penstock.pipeline.problem.__file__)"
    )
    # -S: nothing that is installed can be found.
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, cwd=tmp_path, env={}
    )
    assert done.stdout.strip().endswith(".zip/penstock/pipeline/problem.py"), done.stderr


def test_it_holds_no_rooms_of_the_broker() -> None:
    from zipfile import ZipFile

    rooms = {name.split("/")[1] for name in ZipFile(package_zip()).namelist() if "/" in name[9:]}
    assert rooms == {"model", "pipeline"}

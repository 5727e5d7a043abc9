"""Penstock itself as a file that travels to executors on other machines."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from pathlib import Path

import penstock
from penstock.pipeline.spark.cache import cache_folder
from penstock.version import VERSION

ROOMS = ("model", "pipeline")
KEPT_MAX = 5


def package_zip() -> Path:
    """A zip of the rooms that run on executors, made once for each state of the code."""
    content = _zipped(Path(penstock.__file__).parent)
    name = f"penstock-{VERSION}-{hashlib.sha256(content).hexdigest()[:12]}.zip"
    target = cache_folder() / "package" / name
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=target.parent)
        with open(descriptor, "wb") as file:
            file.write(content)
        os.chmod(aside, 0o644)
        os.replace(aside, target)
        _forget_old(target.parent)
    return target


def _zipped(root: Path) -> bytes:
    """The same bytes for the same code: no times, and names in order."""
    files = [*root.glob("*.py"), *(each for room in ROOMS for each in (root / room).rglob("*.py"))]
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(f"penstock/{path.relative_to(root).as_posix()}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return whole.getvalue()


def _forget_old(folder: Path) -> None:
    files = sorted(folder.glob("*.zip"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[KEPT_MAX:]:
        path.unlink(missing_ok=True)

"""The process that Spark forks its Python workers from, on this machine.

Spark's own begins with archives on its path: PySpark and py4j once more, zipped, and the jar of
Spark's core. Workers then load PySpark out of a zip, which has no byte code, and Python reads the
index of every archive again before each task, in Python: most of it for a jar that has none. After
each task it looks for garbage in all that was ever loaded. A task with nothing to do took 0.2 s;
from here, with what every task needs loaded before the fork, it takes 0.05 s.

Spark runs it as `python -m`, because `settings` says so.
"""

from __future__ import annotations

import gc
import os
import sys


def without_archives(path: list[str]) -> list[str]:
    """A search path without jars, and without copies of the PySpark that is installed."""
    # An installed PySpark has the archives of itself and of py4j in a folder of its own.
    copies = tuple(os.path.join(each, "pyspark", "python", "lib", "") for each in path)
    return [each for each in path if not (each.endswith(".jar") or each.startswith(copies))]


def _forget_archives() -> None:
    kept = without_archives(sys.path)
    for archive in set(sys.path).difference(kept):
        sys.path_importer_cache.pop(archive, None)
    sys.path[:] = kept


if __name__ == "__main__":
    _forget_archives()
    import pyarrow  # type: ignore[import-untyped]  # noqa: F401
    from pyspark.daemon import manager

    gc.freeze()
    manager()  # type: ignore[no-untyped-call]

"""What to do with a test of Spark on a machine that has none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.pipeline.problem import Problem


@contextmanager
def skipped_without_spark() -> Iterator[None]:
    """Skip, with the reason, if Java, Spark or the jars are missing. In CI they must be there."""
    try:
        yield
    except Problem as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI runs every test, but: {missing}", pytrace=False)
        pytest.skip(str(missing))

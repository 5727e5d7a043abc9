"""Tests, and what they are made with."""

import pytest

# What helpers assert is explained as well as what tests assert.
pytest.register_assert_rewrite("tests.oracle", "tests.pipeline", "tests.sim", "tests.unit")

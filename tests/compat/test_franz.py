"""franz-go: the Go client, pure Go, first to use every new version of a request."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.oracle.nodes import Node

pytestmark = pytest.mark.go

SOURCE = Path(__file__).with_name("franz")
STEPS = (
    "create",
    "create twice",
    "describe",
    "produce and consume none",
    "produce and consume gzip",
    "produce and consume snappy",
    "produce and consume lz4",
    "produce and consume zstd",
    "seek by offset",
    "seek by timestamp",
    "share",
    "describe configuration",
    "delete records",
    "delete",
)


@pytest.fixture(scope="module")
def outcome(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str | None]:
    """Build the program, run it once, and return each step's failure, or None."""
    program = tmp_path_factory.mktemp("franz") / "franz"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=SOURCE, capture_output=True, text=True, timeout=280,
        env={**os.environ, "CGO_ENABLED": "0"},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    # Asked for only now, so that a machine without Go is not made to start a broker.
    broker: Node = request.getfixturevalue("broker")
    run = subprocess.run(
        [str(program), broker.bootstrap, "franz-go"], capture_output=True, text=True, timeout=280
    )
    assert run.returncode == 0, run.stderr
    steps = [json.loads(line) for line in run.stdout.splitlines()]
    return {each["step"]: each.get("error") for each in steps}


@pytest.mark.parametrize("step", STEPS)
def test_franz_go_can(outcome: dict[str, str | None], step: str) -> None:
    assert outcome[step] is None


def test_every_step_of_the_program_is_checked(outcome: dict[str, str | None]) -> None:
    assert tuple(outcome) == STEPS

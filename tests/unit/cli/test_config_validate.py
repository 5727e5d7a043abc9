from __future__ import annotations

from pathlib import Path

from tests.unit.cli.runner import Penstock

GOOD = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
log.dirs=data
"""


def test_a_good_file_is_said_to_be_valid(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(GOOD)
    ran = penstock("config", "validate", "server.properties")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
    assert "server.properties is valid" in ran.stderr


def test_every_mistake_is_told_of_with_its_line(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(GOOD + "num.partitons=3\nlog.segment.bytes=many\n")
    ran = penstock("config", "validate", "server.properties")
    assert ran.returncode == 1
    assert "line 7" in ran.stderr
    assert "num.partitions" in ran.stderr
    assert "line 8" in ran.stderr
    assert "server.properties has 2 problems" in ran.stderr


def test_keys_without_effect_are_named(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(GOOD + "num.io.threads=4\n")
    ran = penstock("config", "validate", "server.properties")
    assert ran.returncode == 0
    assert "note: " in ran.stderr
    assert "num.io.threads" in ran.stderr


def test_a_file_that_is_not_there_is_told_of(penstock: Penstock) -> None:
    ran = penstock("config", "validate", "missing.properties")
    assert ran.returncode == 1
    assert "cannot read missing.properties: No such file or directory" in ran.stderr

"""Directories formatted by Apache's StorageTool and by ours: each reads what the other wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import run
from penstock.platform.disk import Disk
from penstock.raft.batches import decode_controls, decode_records
from penstock.raft.snapshots import batches_of
from penstock.storage.log_directory import read_meta
from tests.oracle.tools import ToolResult, Tools

pytestmark = pytest.mark.java

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
VOTERS = (
    "1@localhost:9093:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.2:9094:MvDxzVmcRsaTz33bUuRU6A,"
    "3@127.0.0.1:9095:07R5amHmR32VDA6jHkGbTA"
)
Format = Callable[..., ToolResult]

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
}
STATIC = {"controller.quorum.voters": "1@localhost:9093"}
BROKER = {"process.roles": "broker", "listeners": "PLAINTEXT://localhost:9092"}


SALT = "MWx2NHBkbnc0ZndxN25vdGN4bTB5Y2U="
SALTED = "mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="
USERS = [
    *("-S", f"SCRAM-SHA-512=[name=alice,password=pencil,salt={SALT},iterations=8192]"),
    *("-S", f"SCRAM-SHA-256=[name=bob,salt={SALT},saltedpassword={SALTED}]"),
]


class Place:
    """One node's file and its two directories."""

    def __init__(self, root: Path, settings: dict[str, str]) -> None:
        self.root = root
        root.mkdir()
        self.file = root / "node.properties"
        self.settings = {**NODE, **settings, "log.dirs": f"{root}/a,{root}/b"}
        self.write()

    def write(self) -> None:
        self.file.write_text("".join(f"{k}={v}\n" for k, v in self.settings.items()))

    def files(self) -> dict[str, Any]:
        """What was written, but for what can never be the same twice."""
        found: dict[str, Any] = {}
        for path in sorted(self.root.glob("?/**/*")):
            name = str(path.relative_to(self.root))
            if path.name == "meta.properties":
                meta = read_meta(Disk(), str(path.parent)) or {}
                found[name] = {**meta, "directory.id": len(meta["directory.id"])}
            elif path.is_file():
                found[name] = list(_said(path.read_bytes()))
        return found


def _said(data: bytes) -> Any:
    for head, batch in batches_of(data):
        yield head.base_offset, head.last_offset_delta, head.leader_epoch, head.attributes
        yield [_plain(record) for record in decode_records(head, batch)]
        yield [(kind, _plain(message)) for kind, message in decode_controls(head, batch)]


def _plain(message: Any) -> Any:
    if isinstance(message, list):
        return [_plain(each) for each in message]
    if not hasattr(message, "__slots__"):
        return message
    names = [name for name in message.__slots__ if name != "last_contained_log_timestamp"]
    return {name: _plain(getattr(message, name)) for name in names}


@pytest.fixture
def both(
    tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[ToolResult, Place, ToolResult, Place]]:
    """Format twice, with the same words: Apache's status and place, and ours."""

    def act(settings: dict[str, str], *words: str) -> tuple[ToolResult, Place, ToolResult, Place]:
        theirs, ours = (Place(tmp_path / name, settings) for name in ("apache", "penstock"))
        command = ("format", "-t", CLUSTER, "-c")
        apache = tools.run("kafka.tools.StorageTool", *command, str(theirs.file), *words)
        status = run(["storage", *command, str(ours.file), *words])
        said = capsys.readouterr()
        return apache, theirs, ToolResult(status, said.out, said.err), ours

    return act


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ["--initial-controllers", VOTERS]),
        ({}, ["--no-initial-controllers"]),
        ({}, ["-N", "-r", "4.0", "-f", "group.version=0"]),
        ({}, ["-I", VOTERS, "--release-version", "3.9-IV0"]),
        (STATIC, []),
        (STATIC, ["--feature", "transaction.version=1"]),
        (BROKER, []),
        (BROKER, ["-I", VOTERS.replace("1@", "5@", 1)]),
        (STATIC, USERS),
    ],
    ids=[
        "voters",
        "none",
        "older",
        "oldest",
        "static",
        "feature",
        "broker",
        "told broker",
        "users",
    ],
)
def test_the_same_words_make_the_same_files(
    both: Callable[..., Any], settings: dict[str, str], words: list[str]
) -> None:
    apache, theirs, penstock, ours = both(settings, *words)
    assert (apache.status, penstock.status) == (0, 0), apache.err + penstock.err
    assert ours.files() == theirs.files()
    told = [line for line in apache.out.splitlines() if line.startswith("Formatting")]
    assert sorted(penstock.out.splitlines()) == sorted(
        line.replace(str(theirs.root), str(ours.root)) for line in told
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, []),
        (STATIC, ["--standalone"]),
        (BROKER, ["--standalone"]),
        (STATIC, ["-f", "kraft.version=1"]),
        ({}, ["-N", "-f", "kraft.version=0"]),
        ({}, ["-N", "-f", "foo.version=1"]),
        ({}, ["-N", "-r", "3.9", "-f", "eligible.leader.replicas.version=1"]),
        ({}, ["-N", "-r", "2.8"]),
        ({}, ["-N", "--standalone"]),
        ({}, ["-I", "1@localhost:9093"]),
        (STATIC, ["-r", "3.4", *USERS]),
        (STATIC, ["-S", "SCRAM-SHA-256=[name=a]"]),
        (STATIC, ["-S", "SCRAM-SHA-1=[name=a,password=b]"]),
        (STATIC, ["-S", "SCRAM-SHA-256=[name=a,password=b,iterations=4095]"]),
        (STATIC, ["-S", "SCRAM-SHA-256=[name=a,password=b,iterations=16385]"]),
    ],
)
def test_what_one_refuses_the_other_refuses(
    both: Callable[..., Any], settings: dict[str, str], words: list[str]
) -> None:
    apache, theirs, penstock, ours = both(settings, *words)
    assert apache.status != 0 and penstock.status != 0
    assert theirs.files() == ours.files() == {}


def test_each_tells_whose_the_others_directories_are(
    both: Callable[..., Any], tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    _, theirs, _, ours = both({}, "--standalone")
    for place in (theirs, ours):
        apache = tools.run("kafka.tools.StorageTool", "info", "-c", str(place.file))
        assert run(["storage", "info", "-c", str(place.file)]) == apache.status == 0
        assert capsys.readouterr().out == apache.out
        (place.root / "b" / "meta.properties").unlink()
        apache = tools.run("kafka.tools.StorageTool", "info", "-c", str(place.file))
        assert run(["storage", "info", "-c", str(place.file)]) == apache.status == 1
        assert capsys.readouterr().out == apache.out


@pytest.mark.parametrize("release", ["3.3", "3.9", "4.0-IV2", "4.1", "4.2.0", "4.3"])
def test_releases_map_to_the_same_levels(
    tools: Tools, release: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("version-mapping", "-r", release)
    assert run(["storage", *words]) == 0
    assert capsys.readouterr().out == tools.check("kafka.tools.StorageTool", *words)


def test_features_depend_on_the_same(tools: Tools, capsys: pytest.CaptureFixture[str]) -> None:
    features = ["eligible.leader.replicas.version=1", "metadata.version=22", "group.version=1"]
    words = ["feature-dependencies", *(word for each in features for word in ("-f", each))]
    assert run(["storage", *words]) == 0
    assert capsys.readouterr().out == tools.check("kafka.tools.StorageTool", *words)

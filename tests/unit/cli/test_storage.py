"""`penstock storage`: what is written, what is shown, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.metadata.levels import DEFAULT_LEVELS
from penstock.model.ids import uuid_text
from penstock.platform.disk import Disk
from penstock.raft.format import read_bootstrap
from penstock.raft.snapshots import Snapshot, decode_snapshot
from penstock.storage.log_directory import read_meta

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
FIRST, SECOND = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"


class Place:
    """A node's file, its directories, and the command."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "node.properties"
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": f"{root}/a,{root}/b",
        }

    def run(self, command: str, *words: str) -> int:
        self.file.write_text("".join(f"{k}={v}\n" for k, v in self.settings.items()))
        return run(["storage", command, "-c", str(self.file), *words])

    def format(self, *words: str) -> int:
        return self.run("format", "-t", CLUSTER, *words)

    def meta(self, directory: str) -> dict[str, str]:
        return read_meta(Disk(), str(self.root / directory)) or {}

    def levels(self, directory: str = "a") -> dict[str, int]:
        records = read_bootstrap(Disk(), str(self.root / directory))
        return {record.name: record.feature_level for record in records}

    def first_snapshot(self) -> Snapshot:
        name = "00000000000000000000-0000000000.checkpoint"
        path = self.root / "a" / "__cluster_metadata-0" / name
        return decode_snapshot(path.read_bytes())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_quorum_of_one_is_formatted_with_its_voter(place: Place) -> None:
    assert place.format("--standalone") == 0
    for directory in ("a", "b"):
        assert place.meta(directory)["cluster.id"] == CLUSTER
        assert place.meta(directory)["node.id"] == "1"
        assert place.levels(directory) == dict(DEFAULT_LEVELS)
    assert place.meta("a")["directory.id"] != place.meta("b")["directory.id"]
    voters = place.first_snapshot().voters
    assert voters is not None and voters.kraft_version == 1
    [voter] = voters.by_id.values()
    assert uuid_text(voter.directory) == place.meta("a")["directory.id"]
    assert [tuple(each) for each in voter.endpoints] == [("CONTROLLER", "localhost", 9093, 0)]


def test_every_first_voter_gets_the_directory_that_it_was_promised(place: Place) -> None:
    words = f"1@one:9093:{FIRST},2@[::1]:9094:{SECOND}"
    assert place.format("-I", words) == 0
    assert place.meta("a")["directory.id"] == FIRST
    voters = place.first_snapshot().voters
    assert voters is not None
    assert {v.id: (uuid_text(v.directory), v.endpoints[0].host) for v in voters.by_id.values()} == {
        1: (FIRST, "one"),
        2: (SECOND, "::1"),
    }


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ["--no-initial-controllers"]),
        ({"controller.quorum.voters": "1@localhost:9093"}, []),
        ({"process.roles": "broker", "listeners": "PLAINTEXT://localhost:9092"}, []),
    ],
    ids=["will join", "static", "a broker"],
)
def test_without_first_voters_nothing_is_said_about_them(
    place: Place, settings: dict[str, str], words: list[str]
) -> None:
    place.settings |= settings
    assert place.format(*words) == 0
    assert not (place.root / "a" / "__cluster_metadata-0").exists()
    assert place.levels() == dict(DEFAULT_LEVELS)


def test_a_release_and_features_choose_the_levels(place: Place) -> None:
    assert place.format("-N", "-r", "4.0", "-f", "group.version=0") == 0
    assert place.levels() == {"metadata.version": 25, "transaction.version": 2}


def test_the_first_users_are_left_for_the_first_leader_and_not_named(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.format("-N", "-S", "SCRAM-SHA-512=[name=alice,password=hunter2]") == 0
    *_, user = read_bootstrap(Disk(), str(place.root / "a"))
    assert (user.name, user.mechanism) == ("alice", 2)
    said = capsys.readouterr()
    assert "hunter2" not in said.out + said.err


def test_what_is_formatted_stays_as_it_is(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.format("-N") == 0
    before = place.meta("a")
    assert place.format("-N") == 1
    assert "formatted already" in capsys.readouterr().err
    place.settings["log.dirs"] += f",{place.root}/c"
    assert place.format("-N", "--ignore-formatted") == 0
    assert place.meta("a") == before
    assert place.meta("c")["cluster.id"] == CLUSTER
    assert place.format("-N", "-g") == 0
    assert "already formatted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing says how it begins"),
        (["-s", "-N"], "exclude each other"),
        (["-I", "1@one:9093"], "is not ID@HOST:PORT:DIRECTORY"),
        (["-I", f"1@one:9093:{FIRST},1@two:9093:{SECOND}"], "named twice"),
        (["-I", "1@one:9093:short"], "not the id of a directory"),
        (["-N", "-r", "9.9"], "there is no release"),
        (["-N", "-r", "4.0", "-f", "metadata.version=25"], "say the same"),
        (["-N", "-f", "foo.version=1"], "there is no feature"),
        (["-N", "-f", "group.version=9"], "has levels 0 to 1"),
        (["-N", "-f", "group.version"], "is not NAME=LEVEL"),
        (["-N", "-f", "kraft.version=0"], "does not go with"),
        (["-N", "-r", "3.9", "-f", "eligible.leader.replicas.version=1"], "needs metadata.version"),
        (["-N", "-S", "SCRAM-SHA-256=[name=a]"], "either a password"),
        (["-N", "-r", "3.4", "-S", "SCRAM-SHA-256=[name=a,password=b]"], "3.5-IV2 or later"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    place: Place, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.format(*words) in (1, 2)
    assert said in capsys.readouterr().err
    assert not (place.root / "a").exists()


def test_a_static_quorum_takes_no_first_voters(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.settings["controller.quorum.voters"] = "1@localhost:9093"
    assert place.format("--standalone") == 1
    assert "the quorum is static" in capsys.readouterr().err
    assert place.format("-f", "kraft.version=1") == 1


def test_anothers_directory_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.format("-N") == 0
    assert place.run("format", "-t", "another", "-N", "-g") == 1
    assert "belongs to cluster.id" in capsys.readouterr().err
    place.settings["node.id"] = "2"
    assert place.format("-N", "-g") == 1
    assert "belongs to node.id 1" in capsys.readouterr().err


def test_info_tells_whose_the_directories_are(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run("info") == 1
    assert "does not exist" in capsys.readouterr().out
    assert place.format("-N") == 0
    capsys.readouterr()
    assert place.run("info") == 0
    said = capsys.readouterr().out
    assert f"cluster.id={CLUSTER}" in said and "Found problem" not in said
    (place.root / "b" / "meta.properties").unlink()
    assert place.run("info") == 1
    assert "b is not formatted" in capsys.readouterr().out


def test_releases_are_mapped_to_levels(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["storage", "version-mapping", "-r", "4.1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "metadata.version=27 (4.1)"
    assert "share.version=0" in said
    assert run(["storage", "feature-dependencies", "-f", "group.version=1"]) == 0
    assert capsys.readouterr().out == "group.version=1 has no dependencies.\n"


def test_random_ids_are_ids(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["storage", "random-uuid"]) == 0
    assert run(["storage", "random-uuid"]) == 0
    one, other = capsys.readouterr().out.split()
    assert len(one) == len(other) == 22 and one != other

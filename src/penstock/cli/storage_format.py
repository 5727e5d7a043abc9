"""Formatting a node's directories: what its file and the command line say, taken together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.failure import USAGE, Failure
from penstock.metadata.levels import (
    ELR_FROM,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    RELEASES,
    SCRAM_FROM,
    SUPPORTED,
    levels_at,
    release_of,
)
from penstock.model.config import NodeConfig
from penstock.model.ids import uuid_text
from penstock.platform.chance import SystemChance
from penstock.platform.clock import SystemClock
from penstock.platform.disk import Disk
from penstock.raft.format import CannotFormat, Formatter, Identity
from penstock.raft.voters import DYNAMIC_FROM, Voters, first_voters

if TYPE_CHECKING:
    from penstock.protocol.generated.metadata_records import UserScramCredentialRecord

VOTERS_KEY = "controller.quorum.voters"
SERVERS_KEY = "controller.quorum.bootstrap.servers"


class Wanted(NamedTuple):
    """What the command line asks for."""

    cluster_id: str
    standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False
    ignore_formatted: bool = False
    release: str | None = None
    features: Sequence[str] = ()
    scram: Sequence[str] = ()


def run_format(config: NodeConfig, wanted: Wanted) -> None:
    """Format what is not formatted yet, and say so."""
    identity = identity_of(config, wanted)
    formatter = Formatter(Disk(), config.log_dirs, config.metadata_log_dir)
    try:
        unformatted = formatter.unformatted(identity)
    except CannotFormat as problem:
        raise Failure(str(problem), "give the node directories of its own") from None
    done = [each for each in formatter.directories if each not in unformatted]
    if done and not wanted.ignore_formatted:
        raise Failure(
            f"{done[0]} is formatted already",
            "--ignore-formatted leaves it as it is, and formats the others",
        )
    if not unformatted:
        print("All of the log directories are already formatted.")
        return
    now, chance = SystemClock().now(), SystemChance()
    release = RELEASES[identity.levels[METADATA_VERSION]]
    for directory in unformatted:
        kind = formatter.kind(directory, identity)
        print(f"Formatting {kind} {directory} with {METADATA_VERSION} {release}.")
        try:
            formatter.format(directory, identity, now, chance)
        except OSError as problem:
            raise Failure(f"cannot format {directory}: {problem.strerror}") from None


def identity_of(config: NodeConfig, wanted: Wanted) -> Identity:
    """Whose the directories become; Failure where the words and the file do not agree."""
    if not wanted.cluster_id.strip() or not wanted.cluster_id.isprintable():
        raise Failure(
            f"{wanted.cluster_id!r} is no id of a cluster",
            "`penstock storage random-uuid` prints one",
            USAGE,
        )
    dynamic = not config.quorum_voters
    voters = _voters(config, wanted, dynamic=dynamic)
    levels = _levels(wanted, dynamic=dynamic)
    credentials = _credentials(wanted.scram, levels[METADATA_VERSION])
    return Identity(wanted.cluster_id, config.node_id, levels, voters, credentials)


def _voters(config: NodeConfig, wanted: Wanted, *, dynamic: bool) -> Voters | None:
    begins = wanted.standalone or wanted.initial_controllers is not None
    if not dynamic:
        if begins:
            raise Failure(
                f"{VOTERS_KEY} is set, so the quorum is static: --standalone and "
                "--initial-controllers have no place",
                f"for a quorum that can change, set {SERVERS_KEY} in its stead",
            )
        return None
    if config.is_controller and not begins and not wanted.no_initial_controllers:
        raise Failure(
            f"{VOTERS_KEY} is not set, so the log will say who votes, and nothing says how it "
            "begins",
            "one of --standalone, --initial-controllers and --no-initial-controllers",
        )
    listener = config.controller_listener_names[0]
    text = wanted.initial_controllers
    if wanted.standalone:
        text = _standalone(config)
    if text is None:
        return None
    try:
        return first_voters(text, listener)
    except ValueError as problem:
        raise Failure(
            f"--initial-controllers: {problem}", "ID@HOST:PORT:DIRECTORY,...", USAGE
        ) from None


def _standalone(config: NodeConfig) -> str:
    if not config.is_controller:
        raise Failure("--standalone begins a quorum with this node, which is no controller")
    own = config.advertised_controller_listeners[0]
    host = own.host or "localhost"
    address = f"[{host}]" if ":" in host else host
    return f"{config.node_id}@{address}:{own.port}:{uuid_text(SystemChance().uuid())}"


def _levels(wanted: Wanted, *, dynamic: bool) -> dict[str, int]:
    asked = levels_of(wanted.features)
    if METADATA_VERSION in asked and wanted.release is not None:
        raise Failure(f"--release-version and {METADATA_VERSION} say the same", "give one", USAGE)
    level = asked.get(METADATA_VERSION, max(RELEASES))
    if wanted.release is not None:
        level = release_level(wanted.release)
    levels = {**levels_at(level), KRAFT_VERSION: DYNAMIC_FROM if dynamic else 0, **asked}
    if bool(levels[KRAFT_VERSION]) != dynamic:
        raise Failure(
            f"{KRAFT_VERSION} {levels[KRAFT_VERSION]} does not go with "
            f"{VOTERS_KEY}{' unset' if dynamic else ''}",
            f"leave out --feature {KRAFT_VERSION}: it follows from the configuration",
        )
    if levels[ELR_VERSION] and level < ELR_FROM:
        raise Failure(f"{ELR_VERSION} {levels[ELR_VERSION]} needs {METADATA_VERSION} {ELR_FROM}")
    return levels


def _credentials(words: Sequence[str], level: int) -> list[UserScramCredentialRecord]:
    if not words:
        return []
    if level < SCRAM_FROM:
        raise Failure(
            f"--add-scram needs {METADATA_VERSION} {RELEASES[SCRAM_FROM]} or later",
            "choose a later release, or add users when the cluster has been upgraded",
        )
    from penstock.cli.storage_scram import credentials_of  # few clusters begin with users

    return credentials_of(words, SystemChance())


def levels_of(words: Sequence[str]) -> dict[str, int]:
    """Levels as NAME=LEVEL words say them; Failure for what this release does not know."""
    found = {}
    for word in words:
        name, _, text = (part.strip() for part in word.partition("="))
        if not (text.isascii() and text.isdigit()):
            raise Failure(f"{word!r} is not NAME=LEVEL", "such as group.version=1", USAGE)
        if name not in SUPPORTED:
            raise Failure(
                f"there is no feature {name}", f"there are {', '.join(sorted(SUPPORTED))}"
            )
        if not SUPPORTED[name].holds(int(text)):
            span = SUPPORTED[name]
            raise Failure(f"{name} has levels {span.first} to {span.last}, not {text}")
        found[name] = int(text)
    return found


def release_level(text: str) -> int:
    """The metadata.version of a release; Failure if there is none."""
    level = release_of(text)
    if level is None:
        raise Failure(f"there is no release {text!r}", f"there are {', '.join(RELEASES.values())}")
    return level

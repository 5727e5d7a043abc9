"""Groups as documents and tables, without a cluster."""

from __future__ import annotations

import pytest

from penstock.cli import groups
from penstock.cli.group import State as GroupState
from penstock.cli.txn import State as TxnState
from penstock.protocol.generated.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from penstock.protocol.generated.describe_groups import DescribedGroupMember
from tests.unit.cli.runner import Penstock


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("Stable", "stable"),
        ("PreparingRebalance", "preparing-rebalance"),
        ("CompleteCommit", "complete-commit"),
        ("PrepareEpochFence", "prepare-epoch-fence"),
    ],
)
def test_a_state_is_typed_as_it_is_shown(name: str, word: str) -> None:
    assert groups.word_of(name) == word
    assert groups.name_of(word) == name
    assert word in [*GroupState, *TxnState]


def member(assignment: bytes) -> DescribedGroupMember:
    return DescribedGroupMember(member_id="m", member_assignment=assignment)


def test_what_a_classic_member_was_given_is_read() -> None:
    given = ConsumerProtocolAssignment(
        assigned_partitions=[ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[2, 0])]
    )
    newest = ConsumerProtocolAssignment.VERSIONS[-1]
    raw = newest.to_bytes(2, "big") + given.encode(newest)
    assert groups._decoded("consumer", member(raw)) == {"t": [0, 2]}
    # A version of the future begins as the newest that is known.
    assert groups._decoded("consumer", member((99).to_bytes(2, "big") + raw[2:])) == {"t": [0, 2]}


def test_what_is_no_consumers_assignment_is_not_guessed() -> None:
    assert groups._decoded("connect", member(b"\0\1\2")) is None
    assert groups._decoded("consumer", member(b"")) == {}
    assert groups._decoded("consumer", member(b"\0\0\xff\xff\xff\x7f")) is None


def described(**changes: object) -> groups.Document:
    one = {
        "member": "m-1", "instance": None, "client": "c", "host": "127.0.0.1", "epoch": 3,
        "assignment": {"b": [1], "a": [0, 2]}, "target": {"b": [1], "a": [0, 2]},
    }  # fmt: skip
    return {
        "group": "g", "type": "consumer", "state": "stable", "assignor": "uniform", "epoch": 3,
        "coordinator": {"id": 1, "host": "h", "port": 9092}, "members": [{**one, **changes}],
    }  # fmt: skip


def test_members_stand_under_their_group_with_what_they_read() -> None:
    head, members = groups.tables(described())
    assert head.rows == [["g", "consumer", "stable", "uniform", "1 (h:9092)", 1, 3]]
    assert members.headings == ["member", "client", "host", "epoch", "assignment"]
    assert members.rows == [["m-1", "c", "127.0.0.1", 3, "a:0,2 b:1"]]


def test_what_a_member_is_to_have_shows_while_it_does_not_have_it() -> None:
    _, members = groups.tables(described(assignment={"b": [1]}, instance="i-1"))
    assert members.headings == ["member", "instance", "client", "host", "epoch",
                                "assignment", "target"]  # fmt: skip
    assert members.rows[0][-2:] == ["b:1", "a:0,2 b:1"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("group", "list", "--state", "calm"), "'calm' is none of preparing-rebalance"),
        (("group", "list", "--type", "odd"), "'odd' is none of classic, consumer"),
        (("group", "describe", ""), "'GROUP': it is empty"),
        (("group", "reset", "g", "--to-latest"), "which partitions?"),
        (("group", "reset", "g", "--all-topics", "-t", "x", "--to-latest"), "do not go together"),
        (("group", "reset", "g", "--all-topics"), "where to?"),
        (("group", "reset", "g", "-t", "t", "--to-offset", "-1"), "'-1' is not a whole number"),
        (("group", "delete", "g"), "not deleting g unasked"),
        (("group", "delete", "g", "-t", "t"), "not deleting offsets of g unasked"),
        (("group", "list", "-X", "securty.protocol=ssl"), "-X securty.protocol means nothing"),
        (("group", "list", "-X", "security.protocol=tls"), "security.protocol=tls is none"),
        (("group", "list", "-b", "localhost:http"), "'http' is no port"),
        (("txn", "abort"), "which transaction?"),
        (("txn", "abort", "--id", "i", "-t", "t"), "--id goes with no other choice"),
        (("txn", "abort", "-t", "t", "-p", "0"), "which transaction in t-0?"),
        (("txn", "list", "--longer-than", "long"), "--longer-than 'long' is not a duration"),
        (("txn", "hanging", "--older-than", "-1s"), "--older-than '-1s' is not a duration"),
        (("txn", "list", "--state", "open"), "'open' is none of empty, ongoing"),
    ],
)
def test_a_mistake_says_what_is_wrong_and_what_to_do(
    penstock: Penstock, words: tuple[str, ...], problem: str
) -> None:
    told = penstock(*words)
    assert told.returncode == 2, told.stderr
    assert told.stdout == ""
    assert problem in told.stderr
    assert "hint: " in told.stderr


@pytest.mark.parametrize("words", [("group", "list"), ("txn", "list")])
def test_a_cluster_that_is_not_there_is_told_of_at_once(
    penstock: Penstock, words: tuple[str, ...]
) -> None:
    told = penstock(*words, "-b", "127.0.0.1:1")
    assert told.returncode == 3
    assert "cannot reach a broker at 127.0.0.1:1: Connection refused" in told.stderr

from __future__ import annotations

import pytest

from penstock.cli import acl_grammar as grammar
from penstock.cli.acl_grammar import Entry, Filter, Resource
from penstock.cli.acls import sentence
from penstock.cli.failure import USAGE, Failure
from penstock.model.operations import Operation
from penstock.model.resources import CLUSTER_NAME, PatternType, Permission, ResourceType

ORDERS = Resource(ResourceType.TOPIC, "orders")
BILLING = Resource(ResourceType.GROUP, "billing")
ALICE = ["User:alice"]


def test_every_operation_belongs_to_some_kind_of_resource() -> None:
    possible = {each for kind in grammar.POSSIBLE.values() for each in kind}
    assert possible | {Operation.ALL} == set(grammar.OPERATIONS.values())


def test_every_kind_of_resource_has_a_word_and_operations() -> None:
    kinds = set(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
    assert set(grammar.WORDS) == set(grammar.POSSIBLE) == kinds


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["read,describe"], [Operation.READ, Operation.DESCRIBE]),
        (["Read", "READ"], [Operation.READ]),
        (["describe-configs"], [Operation.DESCRIBE_CONFIGS]),
        (["DescribeConfigs"], [Operation.DESCRIBE_CONFIGS]),
        (["ALTER_CONFIGS, all"], [Operation.ALTER_CONFIGS, Operation.ALL]),
        (None, []),
    ],
)
def test_operations_are_read_in_our_spelling_and_in_kafkas(
    words: list[str] | None, wanted: list[Operation]
) -> None:
    assert grammar.operations_of(words, "--allow") == wanted


@pytest.mark.parametrize("word", ["red", "any", "unknown"])
def test_what_is_no_operation_is_refused_with_those_that_are(word: str) -> None:
    with pytest.raises(Failure) as failed:
        grammar.operations_of([word], "--allow")
    assert failed.value.status == USAGE
    assert "describe-configs" in failed.value.hint


@pytest.mark.parametrize(
    ("name", "prefixed", "wanted"),
    [
        ("orders", False, ORDERS),
        ("*", False, Resource(ResourceType.TOPIC, "*")),
        ("orders-", True, Resource(ResourceType.TOPIC, "orders-", PatternType.PREFIXED)),
        ("orders-*", True, Resource(ResourceType.TOPIC, "orders-", PatternType.PREFIXED)),
    ],
)
def test_names_are_meant_as_they_stand_or_as_beginnings(
    name: str, prefixed: bool, wanted: Resource
) -> None:
    assert grammar.resources_of([(ResourceType.TOPIC, [name])], False, prefixed) == [wanted]


@pytest.mark.parametrize(("name", "prefixed"), [("orders-*", False), ("*", True), ("", False)])
def test_names_that_cannot_be_meant_are_refused(name: str, prefixed: bool) -> None:
    with pytest.raises(Failure) as failed:
        grammar.resources_of([(ResourceType.TOPIC, [name])], False, prefixed)
    assert failed.value.hint


def test_a_group_may_have_a_star_in_its_name() -> None:
    named = [(ResourceType.GROUP, ["a*"])]
    assert grammar.resources_of(named, False, False) == [Resource(ResourceType.GROUP, "a*")]


def test_the_cluster_is_one_resource() -> None:
    assert grammar.resources_of([], True, False) == [Resource(ResourceType.CLUSTER, CLUSTER_NAME)]


def test_principals_are_users_unless_written_out() -> None:
    found = grammar.principals_of(["alice", "*", "alice"], ["Robot:r2:d2"])
    assert found == ["User:alice", "User:*", "Robot:r2:d2"]
    for wrong in ("alice", ":alice", "User:"):
        with pytest.raises(Failure):
            grammar.principals_of(None, [wrong])
    with pytest.raises(Failure):
        grammar.principals_of([""], None)


def test_entries_are_every_combination_of_what_was_said() -> None:
    entries = grammar.entries_of(
        ["User:alice", "User:bob"],
        ["10.0.0.7"],
        [Operation.READ],
        [Operation.DELETE],
        [ORDERS, BILLING],
    )
    assert len(entries) == 8
    assert entries[0] == Entry(ORDERS, "User:alice", "10.0.0.7", Operation.READ, Permission.ALLOW)
    assert entries[-1] == Entry(BILLING, "User:bob", "10.0.0.7", Operation.DELETE, Permission.DENY)


def test_what_cannot_be_done_to_a_resource_is_refused_with_what_can() -> None:
    with pytest.raises(Failure) as failed:
        grammar.entries_of(ALICE, None, [Operation.WRITE], [], [BILLING])
    assert failed.value.problem == "nobody can write a group"
    assert "read" in failed.value.hint


def test_a_producer_gets_what_kafkas_tool_gives() -> None:
    txn = Resource(ResourceType.TRANSACTIONAL_ID, "tx")
    entries = grammar.producer_entries(ALICE, None, [ORDERS, txn])
    assert [(each.resource.kind, each.operation) for each in entries] == [
        (ResourceType.TOPIC, Operation.WRITE),
        (ResourceType.TOPIC, Operation.DESCRIBE),
        (ResourceType.TOPIC, Operation.CREATE),
        (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
        (ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE),
    ]


def test_a_consumer_gets_what_kafkas_tool_gives_and_needs_a_group() -> None:
    entries = grammar.consumer_entries(ALICE, None, [ORDERS, BILLING])
    assert [(each.resource.kind, each.operation) for each in entries] == [
        (ResourceType.TOPIC, Operation.READ),
        (ResourceType.TOPIC, Operation.DESCRIBE),
        (ResourceType.GROUP, Operation.READ),
    ]
    with pytest.raises(Failure, match="--consumer of which group"):
        grammar.consumer_entries(ALICE, None, [ORDERS])


def test_a_filter_means_everything_that_was_left_open() -> None:
    assert grammar.filters_of([], None, [], [], []) == [Filter()]
    (found,) = grammar.filters_of(ALICE, None, [], [], [ORDERS])
    assert found == Filter(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice")
    (found,) = grammar.filters_of([], None, [], [Operation.READ], [ORDERS], PatternType.MATCH)
    assert found.pattern is PatternType.MATCH
    assert (found.operation, found.permission) == (Operation.READ, Permission.DENY)


def test_entries_are_said_in_words() -> None:
    prefixed = Resource(ResourceType.TOPIC, "orders-", PatternType.PREFIXED)
    entry = Entry(prefixed, "User:alice", "10.0.0.7", Operation.READ, Permission.DENY)
    assert sentence(entry) == "User:alice from 10.0.0.7 may not read topic orders-*"
    whole = Resource(ResourceType.CLUSTER, CLUSTER_NAME)
    entry = Entry(whole, "User:bob", "*", Operation.ALTER, Permission.ALLOW)
    assert sentence(entry) == "User:bob may alter cluster"

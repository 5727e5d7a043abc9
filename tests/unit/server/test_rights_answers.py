"""What each API tells those who have few rights: of what is theirs, and of what is not."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.model.operations import Operation
from penstock.model.resources import PatternType
from penstock.protocol.generated import list_groups
from penstock.server.call import Call
from penstock.server.handlers import init_producer_id
from tests.unit.server import rights_questions as q
from tests.unit.server.asking import batch
from tests.unit.server.rights_scene import (
    FEW,
    GROUPS,
    TRANSACTIONS,
    Guarded,
    Make,
    cluster,
    error_of,
    errors,
    group,
    guarded_node,
    topic,
    transaction,
)

GOOD = "NONE"
NO_TOPIC = "TOPIC_AUTHORIZATION_FAILED"
NO_GROUP = "GROUP_AUTHORIZATION_FAILED"
NO_TRANSACTION = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
NO_CLUSTER = "CLUSTER_AUTHORIZATION_FAILED"
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
TWICE = "INVALID_REQUEST"
"""What is said of a partition that is asked for twice."""

_PREFIXED = {"pattern": PatternType.PREFIXED}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Guarded]:
    """Topics with records, groups with offsets, and few rights to them."""
    async with guarded_node(tmp_path) as node:
        await node.create("mine", "seen", "theirs")
        for name in ("mine", "seen", "theirs"):
            for index in (0, 1):
                await node.asker.produce(name, batch(2), index)
        for key_type in (0, 1):
            await node.ask(q.finding(key_type, "any"), 4)
        for each in GROUPS:
            await node.ask(q.committing(each, ("mine", "seen", "theirs")), 9)
        await node.may(FEW)
        yield node


class Row(NamedTuple):
    """A question, where its answer names topics, and what it says of them."""

    what: str
    make: Make
    version: int
    items: str
    mine: str
    seen: str
    name: str = "name"
    absent_mine: str = UNKNOWN


_BY_TOPIC = [
    Row("produce", q.producing(), 9, "responses", GOOD, NO_TOPIC),
    Row("fetch", q.fetching(), 12, "responses", GOOD, NO_TOPIC, "topic"),
    Row("fetch as a tool", q.fetching(replica_id=-2), 12, "responses", GOOD, NO_TOPIC, "topic"),
    Row(
        "offsets",
        q.listing_offsets,
        7,
        "topics",
        f"{TWICE} {GOOD}",
        f"{TWICE} {GOOD}",
        absent_mine=f"{TWICE} {UNKNOWN}",
    ),
    Row("epochs", q.asking_epochs, 4, "topics", GOOD, GOOD, "topic"),
    Row("deletion", q.deleting_records, 2, "topics", GOOD, NO_TOPIC),
    Row("producers", q.describing_producers, 0, "topics", GOOD, NO_TOPIC),
    Row("metadata", q.asking_metadata(), 9, "topics", GOOD, GOOD),
    Row("topic partitions", q.describing_topics(), 0, "topics", GOOD, GOOD),
    Row("commit", q.committing("g-mine"), 9, "topics", f"{GOOD} {UNKNOWN}", NO_TOPIC),
    Row(
        "offset deletion", q.deleting_offsets("g-mine"), 0, "topics", f"{GOOD} {UNKNOWN}", NO_TOPIC
    ),
]


@pytest.mark.parametrize("row", _BY_TOPIC, ids=lambda row: row.what.replace(" ", "-"))
async def test_each_topic_is_refused_for_itself(world: Guarded, row: Row) -> None:
    said = errors(await world.ask(row.make, row.version), row.items, row.name)
    assert said == {
        "mine": row.mine,
        "seen": row.seen,
        "theirs": NO_TOPIC,
        "absent": NO_TOPIC,
        "absent-mine": row.absent_mine,
    }


async def test_topics_by_id_are_refused_without_their_names(world: Guarded) -> None:
    answer = await world.ask(q.asking_metadata_by_id, 12)
    names = {each.name for each in answer.topics}
    by_id = errors(answer, "topics", "topic_id")
    assert names == {"mine", "seen", None}
    assert [by_id[world.ids[name]] for name in ("mine", "seen", "theirs")] == [GOOD, GOOD, NO_TOPIC]
    assert by_id[q.topic_id({}, "absent")] == "UNKNOWN_TOPIC_ID"
    for make, version in ((q.producing(), 13), (q.fetching(), 18)):
        told = errors(await world.ask(make, version), "responses", "topic_id")
        assert told[world.ids["theirs"]] == NO_TOPIC
        assert told[q.topic_id({}, "absent")] == "UNKNOWN_TOPIC_ID"
        assert told[world.ids["mine"]] == GOOD


# -- topics ---------------------------------------------------------------------------------------


async def test_all_topics_are_those_that_may_be_described(world: Guarded) -> None:
    for version in (0, 9, 13):
        answer = await world.ask(q.asking_metadata(None), version)
        assert {each.name for each in answer.topics} == {"mine", "seen"}
        assert answer.brokers
    answer = await world.ask(q.describing_topics(()), 0)
    assert [each.name for each in answer.topics] == ["mine", "seen"]


async def test_pages_of_topics_never_stop_at_one_that_is_hidden(world: Guarded) -> None:
    await world.may(topic("mine", Operation.DESCRIBE), topic("theirs", Operation.DESCRIBE))
    answer = await world.ask(q.describing_topics((), response_partition_limit=2), 0)
    assert [each.name for each in answer.topics] == ["mine"]
    assert answer.next_cursor.topic_name == "theirs"  # and not "seen", which lies between


async def test_rights_are_told_as_they_are(world: Guarded) -> None:
    await world.may(FEW, cluster(Operation.DESCRIBE, Operation.CREATE))
    answer = await world.ask(q.asking_metadata(), 9)
    rights = {each.name: each.topic_authorized_operations for each in answer.topics}
    read_write_delete_describe = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 8
    assert rights["mine"] == rights["absent-mine"] == read_write_delete_describe
    assert rights["seen"] == 1 << 8
    assert rights["theirs"] == rights["absent"] == -(2**31)
    assert answer.cluster_authorized_operations == 1 << 5 | 1 << 8
    await world.may(FEW)
    assert (await world.ask(q.asking_metadata(), 9)).cluster_authorized_operations == 0
    described = await world.ask(q.describing_groups(*GROUPS), 5)
    assert [each.authorized_operations for each in described.groups] == [
        1 << 3 | 1 << 6 | 1 << 8,
        1 << 8,
        -(2**31),
    ]


@pytest.mark.parametrize(
    ("rules", "said", "made"),
    [
        ([topic("new", Operation.CREATE)], NO_TOPIC, False),
        ([topic("new", Operation.DESCRIBE)], NO_TOPIC, False),
        ([topic("new", Operation.DESCRIBE, Operation.CREATE)], "LEADER_NOT_AVAILABLE", True),
        (
            [topic("new", Operation.DESCRIBE), cluster(Operation.CREATE)],
            "LEADER_NOT_AVAILABLE",
            True,
        ),
    ],
)
async def test_a_topic_is_created_for_who_may_see_and_create_it(
    tmp_path: Path, rules: list[list[object]], said: str, made: bool
) -> None:
    async with guarded_node(tmp_path) as node:
        await node.may(*rules)  # type: ignore[arg-type]
        answer = await node.ask(q.asking_metadata(("new",), creating=True), 9)
        exists = "new" in node.broker.image.topics.by_name
        assert exists == made
        # Once made, it may be known by the time of the answer.
        assert errors(answer, "topics")["new"] in ((said, GOOD) if made else (said,))


# -- groups ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 4])
async def test_coordinators_are_told_to_who_may_describe(world: Guarded, version: int) -> None:
    async def asked(key_type: int, *keys: str) -> list[str]:
        if version < 4:
            return [error_of(await world.ask(q.finding(key_type, key), 3)) for key in keys]
        answer = await world.ask(q.finding(key_type, *keys), 4)
        return list(errors(answer, "coordinators", "key").values())

    assert await asked(0, *GROUPS) == [GOOD, GOOD, NO_GROUP]
    assert await asked(1, *TRANSACTIONS) == [GOOD, GOOD, NO_TRANSACTION]


async def test_coordinators_of_shares_are_for_brokers(world: Guarded) -> None:
    share = "g:AAAAAAAAAAAAAAAAAAAAAA:0"
    refused = await world.ask(q.finding(2, share), 6)
    assert errors(refused, "coordinators", "key") == {share: NO_CLUSTER}
    assert "__share_group_state" not in world.broker.image.topics.by_name
    await world.may(cluster(Operation.CLUSTER_ACTION))
    found = await world.ask(q.finding(2, share), 6)
    assert errors(found, "coordinators", "key") == {share: GOOD}


async def test_who_may_not_find_a_coordinator_does_not_have_its_topic_made(tmp_path: Path) -> None:
    async with guarded_node(tmp_path) as node:
        await node.may(FEW)
        for key_type, key in ((0, "g-theirs"), (1, "t-theirs")):
            await node.ask(q.finding(key_type, key, key), 4)
        assert not node.broker.image.topics.by_name


@pytest.mark.parametrize(
    ("make", "version"),
    [(q.joining, 9), (q.syncing, 5), (q.beating, 4), (q.leaving, 5)],
    ids=["join", "sync", "heartbeat", "leave"],
)
async def test_members_need_a_right_to_read_the_group(
    world: Guarded, make: object, version: int
) -> None:
    said = [error_of(await world.ask(make(each), version)) for each in GROUPS]  # type: ignore[operator]
    assert said[1:] == [NO_GROUP, NO_GROUP]
    # Whoever may read it hears about the group and its member.
    assert said[0] in (GOOD, "UNKNOWN_MEMBER_ID")


async def test_offsets_are_kept_from_who_may_not_describe_group_and_topics(world: Guarded) -> None:
    answer = await world.ask(q.fetching_offsets(*GROUPS), 9)
    assert [error_of(each) for each in answer.groups] == [GOOD, GOOD, NO_GROUP]
    assert not answer.groups[2].topics
    for each in answer.groups[:2]:
        assert errors(each, "topics") == {
            "mine": GOOD,
            "seen": GOOD,
            "theirs": NO_TOPIC,
            "absent": NO_TOPIC,
            "absent-mine": GOOD,
        }
        offsets = {it.name: it.partitions[0].committed_offset for it in each.topics}
        assert (offsets["mine"], offsets["theirs"]) == (1, -1)
    for version in (9, 10):
        everything = await world.ask(q.fetching_offsets(*GROUPS, names=None), version)
        assert [len(each.topics) for each in everything.groups] == [2, 2, 0]
    assert error_of(await world.ask(q.fetching_offsets("g-theirs"), 5)) == NO_GROUP
    oldest = await world.ask(q.fetching_offsets("g-theirs"), 1)
    assert set(errors(oldest, "topics").values()) == {NO_GROUP}


async def test_commits_need_a_right_to_read_the_group(world: Guarded) -> None:
    for each in GROUPS[1:]:
        answer = await world.ask(q.committing(each), 9)
        assert set(errors(answer, "topics").values()) == {NO_GROUP}
        assert error_of(await world.ask(q.deleting_offsets(each), 0)) == NO_GROUP


async def test_groups_are_listed_described_and_deleted_by_right(world: Guarded) -> None:
    listed = await world.ask(list_groups.ListGroupsRequest(), 4)
    assert {each.group_id for each in listed.groups} == {"g-mine", "g-seen"}
    described = await world.ask(q.describing_groups(*GROUPS), 5)
    assert errors(described, "groups", "group_id") == {
        "g-mine": GOOD,
        "g-seen": GOOD,
        "g-theirs": NO_GROUP,
    }
    deleted = await world.ask(q.deleting_groups(*GROUPS), 2)
    assert errors(deleted, "results", "group_id") == {
        "g-mine": GOOD,
        "g-seen": NO_GROUP,
        "g-theirs": NO_GROUP,
    }
    alone = await world.ask(q.deleting_groups("g-theirs"), 2)
    assert errors(alone, "results", "group_id") == {"g-theirs": NO_GROUP}
    await world.may(cluster(Operation.DESCRIBE))
    listed = await world.ask(list_groups.ListGroupsRequest(), 4)
    assert {each.group_id for each in listed.groups} == {"g-seen", "g-theirs"}


async def test_members_of_consumer_groups_name_topics_that_they_may_describe(
    world: Guarded,
) -> None:
    async def said(group_id: str, *names: str) -> str:
        return error_of(await world.ask(q.subscribing(group_id, list(names)), 1))

    assert await said("g-theirs", "mine") == NO_GROUP
    assert await said("g-seen", "mine") == NO_GROUP
    for hidden in ("theirs", "absent"):
        assert await said("g-mine", "mine", hidden) == NO_TOPIC
    await world.may(FEW, group("g-new", Operation.READ))
    assert await said("g-new", "mine", "seen", "absent-mine") == GOOD


async def test_an_expression_stands_for_topics_that_its_member_may_describe(world: Guarded) -> None:
    await world.may(FEW, group("g-new", Operation.READ))
    joined = await world.ask(q.subscribing("g-new", None, regex=".*"), 1)
    assert error_of(joined) == GOOD
    held: set[bytes] = set()
    beat = q.subscribing("g-new", None, regex=".*")(1, {})
    beat.rebalance_timeout_ms = 300_000  # type: ignore[attr-defined]
    beat.member_epoch = joined.member_epoch  # type: ignore[attr-defined]
    for _ in range(200):
        answer = await world.ask(beat, 1)
        beat.member_epoch = answer.member_epoch  # type: ignore[attr-defined]
        if answer.assignment is not None and answer.assignment.topic_partitions:
            held = {each.topic_id for each in answer.assignment.topic_partitions}
            break
    assert held == {world.ids["mine"], world.ids["seen"]}


async def test_a_group_that_reads_what_is_hidden_is_not_described(world: Guarded) -> None:
    await world.may(FEW, topic("theirs", Operation.READ), group("c-", Operation.READ, **_PREFIXED))
    await world.ask(q.subscribing("c-mine", ["mine"]), 1)
    await world.ask(q.subscribing("c-both", ["mine", "theirs"]), 1)
    asked = q.describing_consumers("c-mine", "c-both", "g-theirs")
    whole = await world.ask(asked, 1)
    assert [error_of(each) for each in whole.groups] == [GOOD, GOOD, NO_GROUP]
    await world.may(FEW, group("c-", Operation.DESCRIBE, **_PREFIXED))
    less = await world.ask(asked, 1)
    assert [error_of(each) for each in less.groups] == [GOOD, NO_TOPIC, NO_GROUP]
    assert not less.groups[1].members
    assert less.groups[0].authorized_operations == 1 << 8


# -- transactions ---------------------------------------------------------------------------------


async def test_producers_are_introduced_by_right(world: Guarded) -> None:
    async def said(name: str | None) -> str:
        return error_of(await world.ask(q.introducing(name), 5))

    assert [await said(each) for each in TRANSACTIONS] == [GOOD, NO_TRANSACTION, NO_TRANSACTION]
    assert await said(None) == GOOD  # who may write to some topic may number batches
    await world.may(topic("mine", Operation.READ))
    assert await said(None) == NO_CLUSTER
    await world.may(cluster(Operation.IDEMPOTENT_WRITE))
    assert await said(None) == GOOD


async def test_two_phases_need_a_right_of_their_own(world: Guarded) -> None:
    # No version that is served asks for them yet: the handler knows the right all the same.
    request: Any = q.introducing("t-mine", enable2_pc=True)(5, {})
    call = Call(_Connection(), 22, 5, 1, "client")  # type: ignore[arg-type]

    async def said() -> str:
        answer = init_producer_id.handle(world.broker, call, request)
        return error_of(await answer if inspect.isawaitable(answer) else answer)

    assert await said() == NO_TRANSACTION
    await world.may(FEW, transaction("t-mine", Operation.TWO_PHASE_COMMIT))
    assert await said() == GOOD


class _Connection:
    """Stands in for one where nothing is sent."""

    listener_name = "PLAINTEXT"
    peer = ("127.0.0.1", 1)
    gate = None


async def test_partitions_join_transactions_by_right(world: Guarded) -> None:
    for name, said in (("t-theirs", NO_TRANSACTION), ("t-seen", NO_TRANSACTION)):
        answer = await world.ask(q.adding(name), 3)
        assert set(errors(answer, "results_by_topic_v3_and_below").values()) == {said}
    answer = await world.ask(q.adding("t-mine"), 3)
    assert errors(answer, "results_by_topic_v3_and_below") == {
        "mine": "OPERATION_NOT_ATTEMPTED",
        "seen": NO_TOPIC,
        "theirs": NO_TOPIC,
        "absent": NO_TOPIC,
        "absent-mine": UNKNOWN,
    }


async def test_only_brokers_add_partitions_to_many_transactions(world: Guarded) -> None:
    answer = await world.ask(q.adding("t-mine", ("mine",)), 5)
    assert error_of(answer) == NO_CLUSTER and not answer.results_by_transaction
    await world.may(cluster(Operation.CLUSTER_ACTION))
    answer = await world.ask(q.adding("t-mine", ("mine",)), 5)
    assert error_of(answer) == GOOD and answer.results_by_transaction


async def test_offsets_join_transactions_by_right(world: Guarded) -> None:
    async def added(name: str, group_id: str) -> str:
        return error_of(await world.ask(q.adding_offsets(name, group_id), 4))

    async def committed(name: str, group_id: str) -> set[str]:
        answer = await world.ask(q.committing_in(name, group_id), 3)
        return set(errors(answer, "topics").values())

    assert await added("t-seen", "g-mine") == NO_TRANSACTION
    assert await added("t-mine", "g-seen") == NO_GROUP
    assert await added("t-mine", "g-mine") not in (NO_TRANSACTION, NO_GROUP)
    assert await committed("t-seen", "g-mine") == {NO_TRANSACTION}
    assert await committed("t-mine", "g-seen") == {NO_GROUP}
    mixed = await committed("t-mine", "g-mine")
    assert NO_TOPIC in mixed and UNKNOWN in mixed and len(mixed) == 3
    assert error_of(await world.ask(q.ending("t-seen"), 5)) == NO_TRANSACTION
    assert error_of(await world.ask(q.ending("t-mine"), 5)) != NO_TRANSACTION


async def test_markers_are_for_brokers_and_administrators(world: Guarded) -> None:
    ends = [world.broker.hosted["mine", 0].log.end, world.broker.hosted["theirs", 0].log.end]
    answer = await world.ask(q.marking, 1)
    assert set(errors(answer.markers[0], "topics").values()) == {NO_CLUSTER}
    assert ends == [
        world.broker.hosted["mine", 0].log.end,
        world.broker.hosted["theirs", 0].log.end,
    ]
    for right in (Operation.ALTER, Operation.CLUSTER_ACTION):
        await world.may(cluster(right))
        answer = await world.ask(q.marking, 1)
        assert NO_CLUSTER not in errors(answer.markers[0], "topics").values()


async def test_transactions_are_shown_by_right(world: Guarded) -> None:
    await world.may(
        FEW, transaction("t-", Operation.WRITE, **_PREFIXED), topic("theirs", Operation.WRITE)
    )
    for name in TRANSACTIONS:
        it = await world.ask(q.introducing(name), 4)
        producer = (it.producer_id, it.producer_epoch)
        await world.ask(q.adding(name, ("mine", "theirs"), producer), 3)
    await world.may(FEW)
    answer = await world.ask(q.describing_transactions(), 0)
    states = {each.transactional_id: each for each in answer.transaction_states}
    assert errors(answer, "transaction_states", "transactional_id") == {
        "t-mine": GOOD,
        "t-seen": GOOD,
        "t-theirs": NO_TRANSACTION,
    }
    assert [each.topic for each in states["t-mine"].topics] == ["mine"]
    assert not states["t-theirs"].topics and states["t-theirs"].producer_id <= 0
    listed = await world.ask(q.listing_transactions, 1)
    assert {each.transactional_id for each in listed.transaction_states} == {"t-mine", "t-seen"}

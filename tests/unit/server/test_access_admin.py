"""Administrators with some rights: what they may do is done, what not is refused, all is told."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.app.security import STANDARD_AUTHORIZER
from penstock.metadata.acls import Acl, AclsImage
from penstock.model.errors import ErrorCode
from penstock.model.operations import CLUSTER_OPERATIONS, Operation, bits
from penstock.model.resources import CLUSTER_NAME, PatternType, Permission, ResourceType
from penstock.net.connection import CloseConnection
from penstock.protocol.generated import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    envelope,
    incremental_alter_configs,
    list_config_resources,
    unregister_broker,
    vote,
)
from penstock.protocol.headers import read_response_header
from penstock.protocol.message import Message
from penstock.protocol.registry import API
from penstock.security.principal import Principal
from penstock.server.senders import packed_host, packed_principal
from tests.system.filled_world import Line
from tests.unit.server.asking import question, running_node

ADMIN, ALICE, BROKER = Principal("admin"), Principal("alice"), Principal("broker")
FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin;User:broker"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, SETTINGS) as made:
        yield made


def allow(node: Node, *entries: Acl) -> None:
    """From now on these entries count, and no others."""
    assert node.broker.authorizer is not None
    by_id = {number.to_bytes(16, "big"): each for number, each in enumerate(entries)}
    node.broker.authorizer.on_image(AclsImage(by_id))


def acl(
    operation: Operation,
    name: str,
    kind: ResourceType = ResourceType.TOPIC,
    host: str = "*",
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, str(ALICE), host, operation, permission)


def of_cluster(operation: Operation) -> Acl:
    return acl(operation, CLUSTER_NAME, ResourceType.CLUSTER)


def creation(*names: str, validate_only: bool = False) -> create_topics.CreateTopicsRequest:
    return create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(name=name, num_partitions=3, replication_factor=1)
            for name in names
        ],
        validate_only=validate_only,
    )


def errors(answers: list[Any], name: str = "name") -> dict[Any, ErrorCode]:
    return {getattr(each, name): ErrorCode(each.error_code) for each in answers}


# -- topics ---------------------------------------------------------------------------------------


async def test_topics_are_created_by_right_and_their_settings_are_shown_by_another(
    node: Node,
) -> None:
    allow(
        node,
        acl(Operation.CREATE, "mine"),
        acl(Operation.CREATE, "seen"),
        acl(Operation.DESCRIBE_CONFIGS, "seen"),
    )
    answer = await Line(node, ALICE).ask(creation("mine", "seen", "theirs"), 7)
    assert errors(answer.topics) == {
        "mine": ErrorCode.NONE,
        "seen": ErrorCode.NONE,
        "theirs": FORBIDDEN,
    }
    shown = {each.name: each for each in answer.topics}
    assert shown["seen"].num_partitions == 3
    assert shown["seen"].configs
    assert shown["mine"].topic_config_error_code == FORBIDDEN
    assert (shown["mine"].num_partitions, shown["mine"].configs) == (-1, [])
    assert node.broker.image.topics.by_name.keys() == {"mine", "seen"}


async def test_who_may_create_in_the_cluster_may_create_any_topic(node: Node) -> None:
    allow(node, of_cluster(Operation.CREATE))
    answer = await Line(node, ALICE).ask(creation("any"), 7)
    assert errors(answer.topics) == {"any": ErrorCode.NONE}


async def test_deleting_by_id_tells_no_names_to_who_may_not_know_them(node: Node) -> None:
    made = await Line(node, ADMIN).ask(creation("hidden", "seen", "mine"), 7)
    ids = {each.name: each.topic_id for each in made.topics}
    allow(node, acl(Operation.DESCRIBE, "seen"), acl(Operation.DELETE, "mine"))
    request = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(topic_id=each) for each in ids.values()]
    )
    answer = await Line(node, ALICE).ask(request, 6)
    assert errors(answer.responses, "topic_id") == {
        ids["hidden"]: FORBIDDEN,
        ids["seen"]: FORBIDDEN,
        ids["mine"]: ErrorCode.NONE,
    }
    assert {each.name for each in answer.responses} == {None, "seen", "mine"}
    assert node.broker.image.topics.by_name.keys() == {"hidden", "seen"}


async def test_a_forbidden_name_is_refused_whether_it_is_there_or_not(node: Node) -> None:
    await Line(node, ADMIN).ask(creation("there"), 7)
    allow(node, acl(Operation.DESCRIBE, "known-absent"))
    request = delete_topics.DeleteTopicsRequest(topic_names=["there", "absent", "known-absent"])
    answer = await Line(node, ALICE).ask(request, 5)
    assert errors(answer.responses) == {
        "there": FORBIDDEN,
        "absent": FORBIDDEN,
        "known-absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_what_is_created_meanwhile_is_not_deleted_without_a_right(node: Node) -> None:
    before = node.broker.image
    made = await Line(node, ADMIN).ask(creation("seen", "other"), 7)
    after, other = node.broker.image, made.topics[1].topic_id
    allow(node, acl(Operation.DESCRIBE, "seen"))
    request = delete_topics.DeleteTopicsRequest(
        topics=[
            delete_topics.DeleteTopicState(name="seen"),
            delete_topics.DeleteTopicState(topic_id=other),
        ]
    )
    node.broker.image = before  # the controller is always a moment ahead
    answer = await Line(node, ALICE).ask(request, 6)
    assert errors(answer.responses) == {
        "seen": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        None: ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert node.broker.image is before, "nothing was deleted"
    node.broker.image = after


async def test_partitions_are_added_by_right(node: Node) -> None:
    await Line(node, ADMIN).ask(creation("mine", "theirs"), 7)
    allow(node, acl(Operation.ALTER, "mine"))
    request = create_partitions.CreatePartitionsRequest(
        topics=[
            create_partitions.CreatePartitionsTopic(name=name, count=5, assignments=None)
            for name in ("mine", "theirs")
        ]
    )
    answer = await Line(node, ALICE).ask(request, 3)
    assert errors(answer.results) == {"mine": ErrorCode.NONE, "theirs": FORBIDDEN}
    topics = node.broker.image.topics.by_name
    assert {name: len(topic.partitions) for name, topic in topics.items()} == {
        "mine": 5,
        "theirs": 3,
    }


# -- configuration and the cluster ----------------------------------------------------------------


def edit(kind: int, name: str, key: str, value: str) -> Any:
    return incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[incremental_alter_configs.AlterableConfig(name=key, value=value)],
    )


async def test_settings_are_altered_and_shown_by_right(node: Node) -> None:
    await Line(node, ADMIN).ask(creation("mine", "theirs"), 7)
    allow(node, acl(Operation.ALTER_CONFIGS, "mine"))
    alice = Line(node, ALICE)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            edit(2, "mine", "retention.ms", "1000"),
            edit(2, "theirs", "retention.ms", "1000"),
            edit(32, "group", "consumer.session.timeout.ms", "50000"),
            edit(4, "1", "log.retention.ms", "1000"),
            edit(8, "1", "root", "ERROR"),
        ]
    )
    answer = await alice.ask(request, 1)
    assert [ErrorCode(each.error_code) for each in answer.responses] == [
        ErrorCode.NONE,
        FORBIDDEN,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]
    assert node.broker.image.configs.of(2, "mine") == {"retention.ms": "1000"}
    assert not node.broker.image.configs.of(2, "theirs")
    question = describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name)
            for kind, name in ((2, "mine"), (2, "theirs"), (4, "1"), (8, "1"), (32, "g"))
        ]
    )
    shown = await alice.ask(question, 4)
    assert [bool(each.configs) for each in shown.results] == [True, False, False, False, False]
    assert shown.results[1].error_code == FORBIDDEN


async def test_rights_over_the_cluster_are_told_to_who_may_describe_it(node: Node) -> None:
    request = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)

    async def told(who: Principal) -> int:
        answer = await Line(node, who).ask(request, 1)
        found: int = answer.cluster_authorized_operations
        return found

    assert await told(ALICE) == 0
    allow(node, of_cluster(Operation.CREATE))
    assert await told(ALICE) == 0
    allow(node, of_cluster(Operation.ALTER))
    assert await told(ALICE) == bits(Operation.ALTER, Operation.DESCRIBE)
    assert await told(ADMIN) == CLUSTER_OPERATIONS


async def test_one_right_over_the_cluster_opens_what_it_is_for(node: Node) -> None:
    request = list_config_resources.ListConfigResourcesRequest()
    alice = Line(node, ALICE)
    assert (await alice.ask(request, 1)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allow(node, of_cluster(Operation.DESCRIBE_CONFIGS))
    answer = await alice.ask(request, 1)
    assert not answer.error_code
    assert answer.config_resources


# -- on the controller ----------------------------------------------------------------------------


def passed_on(request: Message, version: int, **fields: Any) -> envelope.EnvelopeRequest:
    told = {
        "request_data": question(request, version)[4:],
        "request_principal": packed_principal(ALICE),
        "client_host_address": packed_host("10.9.8.7"),
        **fields,
    }
    return envelope.EnvelopeRequest(**told)


async def opened(node: Node, who: Principal, sent: envelope.EnvelopeRequest, cls: Any) -> Any:
    """What lay in the answer, or the error of the envelope."""
    answer = await Line(node, who, quorum=True).ask(sent, 0)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    data = memoryview(answer.response_data)
    _, at = read_response_header(data, API[cls.API_KEY].response_header_version(7))
    return cls.read(data, 7, at)[0]


async def test_only_who_acts_for_the_cluster_passes_requests_on(node: Node) -> None:
    allow(node, acl(Operation.CREATE, "mine"), of_cluster(Operation.ALTER))
    sent = passed_on(creation("mine"), 7)
    refused = await opened(node, ALICE, sent, create_topics.CreateTopicsResponse)
    assert refused is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not node.broker.image.topics.by_name
    allow(node, acl(Operation.CREATE, "mine"), of_cluster(Operation.CLUSTER_ACTION))
    answer = await opened(node, ALICE, sent, create_topics.CreateTopicsResponse)
    assert errors(answer.topics) == {"mine": ErrorCode.NONE}


async def test_what_a_broker_passes_on_is_judged_by_the_clients_rights(node: Node) -> None:
    allow(node, acl(Operation.CREATE, "mine", host="10.9.0.0/16"))
    sent = passed_on(creation("mine", "theirs"), 7)
    answer = await opened(node, BROKER, sent, create_topics.CreateTopicsResponse)
    assert errors(answer.topics) == {"mine": ErrorCode.NONE, "theirs": FORBIDDEN}
    elsewhere = passed_on(creation("mine"), 7, client_host_address=packed_host("10.1.1.1"))
    answer = await opened(node, BROKER, elsewhere, create_topics.CreateTopicsResponse)
    assert errors(answer.topics) == {"mine": FORBIDDEN}
    sent = passed_on(creation("other"), 7, request_principal=packed_principal(ADMIN))
    answer = await opened(node, BROKER, sent, create_topics.CreateTopicsResponse)
    assert errors(answer.topics) == {"other": ErrorCode.NONE}


@pytest.mark.parametrize(
    "principal",
    [
        None,
        b"",
        b"\x00",
        b"\x00\x01" + packed_principal(ADMIN)[2:],
        packed_principal(ADMIN)[:-2],
        packed_principal(ADMIN) + b"\x00",
        packed_principal(Principal("")),
        packed_principal(Principal("x", "")),
    ],
)
async def test_a_sender_that_cannot_be_read_is_refused(node: Node, principal: bytes | None) -> None:
    sent = passed_on(creation("any"), 7, request_principal=principal)
    answer = await opened(node, BROKER, sent, create_topics.CreateTopicsResponse)
    assert answer is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


async def test_an_address_that_is_none_is_refused(node: Node) -> None:
    sent = passed_on(creation("any"), 7, client_host_address=b"12345")
    answer = await opened(node, BROKER, sent, create_topics.CreateTopicsResponse)
    assert answer is ErrorCode.INVALID_REQUEST


async def test_members_of_the_quorum_need_a_right_of_their_own(node: Node) -> None:
    allow(node, of_cluster(Operation.ALTER))
    ask = Line(node, ALICE, quorum=True).ask
    assert (await ask(vote.VoteRequest(), 0)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allow(node, of_cluster(Operation.CLUSTER_ACTION))
    request = vote.VoteRequest(cluster_id="another")
    assert (await ask(request, 0)).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    unregister = unregister_broker.UnregisterBrokerRequest(broker_id=1)
    assert (await ask(unregister, 0)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_until_the_entries_are_read_all_but_super_users_shall_come_again(node: Node) -> None:
    authorizer = node.broker.authorizer
    assert authorizer is not None
    assert authorizer.ready
    authorizer._ready = False
    authorizer.loaded = lambda: False
    with pytest.raises(CloseConnection, match="not been read yet"):
        await Line(node, ALICE, quorum=True).ask(vote.VoteRequest(), 0)
    with pytest.raises(CloseConnection, match="not been read yet"):
        await Line(node, ALICE).ask(creation("any"), 7)
    answer = await Line(node, BROKER).ask(creation("any"), 7)
    assert errors(answer.topics) == {"any": ErrorCode.NONE}


# -- the audit log --------------------------------------------------------------------------------


async def test_changes_and_refusals_are_written_down(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="penstock.audit")
    alice = Line(node, ALICE)
    allow(node, acl(Operation.CREATE, "mine"))
    await alice.ask(creation("checked", validate_only=True), 7)
    for _ in range(3):
        await alice.ask(creation("mine", "theirs"), 7)
    lines = [json.loads(each.getMessage()) for each in caplog.records]
    assert [(each["event"], each.get("resource"), each.get("details")) for each in lines] == [
        ("denied", "TOPIC:checked", None),
        ("denied", "TOPIC:theirs", None),
        ("changed", None, {"topics": ["mine"]}),
    ]
    assert {(each["principal"], each["api"]) for each in lines} == {("User:alice", "CREATE_TOPICS")}


async def test_settings_are_written_down_without_their_values(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="penstock.audit")
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[edit(4, "", "log.retention.ms", "4711000"), edit(8, "1", "root", "nonsense")]
    )
    await Line(node, ADMIN).ask(request, 1)
    (line,) = [json.loads(each.getMessage()) for each in caplog.records]
    assert line["details"] == {"keys": {"BROKER:": ["log.retention.ms"]}}
    assert "4711000" not in caplog.text

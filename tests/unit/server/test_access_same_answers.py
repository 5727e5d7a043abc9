"""With the same few rights, administrators hear the same from Penstock and from Apache Kafka.

Both nodes know who asks, and have the same topics and entries. Every question that changes or shows
how a cluster is set up goes to both, in all versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.app.security import STANDARD_AUTHORIZER
from penstock.model.ids import ZERO_UUID
from penstock.model.operations import Operation
from penstock.model.resources import PatternType
from penstock.protocol.generated import (
    add_raft_voter,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_log_dirs,
    describe_quorum,
    describe_user_scram_credentials,
    elect_leaders,
    expire_delegation_token,
    incremental_alter_configs,
    list_config_resources,
    list_partition_reassignments,
    remove_raft_voter,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from penstock.protocol.message import Message, Part
from penstock.protocol.registry import API
from tests.oracle.nodes import ApacheNode
from tests.unit.server.asking import Asker, asking, port_of, running_node
from tests.unit.server.rights_scene import Make, group, topic
from tests.unit.server.test_same_answers import _led, differences

pytestmark = pytest.mark.java

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = 'username="admin" password="p" user_admin="p" user_me="p"'
SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f"{JAAS} {USERS};",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "k",
}

ME = {"who": "User:me"}
RULES = [
    *topic("mine", Operation.ALTER, Operation.ALTER_CONFIGS, Operation.DELETE, **ME),
    *topic("absent-mine", Operation.ALTER, Operation.ALTER_CONFIGS, Operation.DELETE, **ME),
    *topic("seen", Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, **ME),
    *topic("new-", Operation.CREATE, pattern=PatternType.PREFIXED, **ME),
    *topic("new-seen", Operation.DESCRIBE_CONFIGS, **ME),
    *group("g-mine", Operation.ALTER_CONFIGS, **ME),
    *group("g-seen", Operation.DESCRIBE_CONFIGS, **ME),
]
TOPICS = ("mine", "seen", "theirs")
NAMES = (*TOPICS, "absent", "absent-mine")
RESOURCES = [
    *[(2, name) for name in NAMES],
    *[(32, name) for name in ("g-mine", "g-seen", "g-theirs")],
    (4, "1"),
    (4, ""),
    (16, "metrics"),
]

Ids = Mapping[str, bytes]


def creating(version: int, _: Ids) -> Message:
    names = ["new-one", "new-seen", "theirs", "absent", "new-twice", "new-twice", "theirs-twice"]
    names += ["theirs-twice", "__cluster_metadata"]
    return create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in names
        ],
        timeout_ms=30_000,
        validate_only=version >= 1,
    )


def deleting(version: int, ids: Ids) -> Message:
    names = ["seen", "theirs", "absent", "absent-mine", "theirs-twice", "theirs-twice"]
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)
    by_name = [delete_topics.DeleteTopicState(name=name) for name in names]
    return delete_topics.DeleteTopicsRequest(topics=by_name, timeout_ms=30_000)


def deleting_by_id(_: int, ids: Ids) -> Message:
    return delete_topics.DeleteTopicsRequest(
        topics=[
            delete_topics.DeleteTopicState(topic_id=ids["seen"]),
            delete_topics.DeleteTopicState(topic_id=ids["theirs"]),
            delete_topics.DeleteTopicState(topic_id=b"nobody knows it."),
            delete_topics.DeleteTopicState(topic_id=ZERO_UUID),
        ],
        timeout_ms=30_000,
    )


def growing(_: int, __: Ids) -> Message:
    return create_partitions.CreatePartitionsRequest(
        topics=[
            create_partitions.CreatePartitionsTopic(name=name, count=9, assignments=None)
            for name in (*NAMES, "twice", "twice")
        ],
        timeout_ms=30_000,
        validate_only=True,
    )


def describing_configs(kind: int, name: str) -> Make:
    def make(_: int, __: Ids) -> Message:
        return describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=["retention.ms"]
                )
            ]
        )

    return make


def altering_configs(_: int, __: Ids) -> Message:
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
            for kind, name in RESOURCES
        ],
        validate_only=True,
    )


def editing_configs(_: int, __: Ids) -> Message:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=[]
            )
            for kind, name in (*RESOURCES, (8, "1"))
        ],
        validate_only=True,
    )


def one(message: Message) -> Make:
    return lambda _, __: message


def electing(version: int, _: Ids) -> Message:
    return elect_leaders.ElectLeadersRequest(
        election_type=0 if version == 0 else 1,
        topic_partitions=[elect_leaders.TopicPartitions(topic="mine", partitions=[0, 1])],
    )


def describing_directories(_: int, __: Ids) -> Message:
    return describe_log_dirs.DescribeLogDirsRequest(topics=None)


def describing_cluster(version: int, _: Ids) -> Message:
    return describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=True, include_fenced_brokers=version >= 2
    )


def adding_voter(_: int, __: Ids) -> Message:
    return add_raft_voter.AddRaftVoterRequest(
        voter_id=9,
        voter_directory_id=b"9" * 16,
        listeners=[add_raft_voter.Listener(name="CONTROLLER", host="localhost", port=1)],
    )


def describing_tokens(*owners: str) -> Make:
    def make(_: int, __: Ids) -> Message:
        return describe_delegation_token.DescribeDelegationTokenRequest(
            owners=[
                describe_delegation_token.DescribeDelegationTokenOwner(
                    principal_type="User", principal_name=owner
                )
                for owner in owners
            ]
            or None
        )

    return make


ACL = {
    "resource_type": 2,
    "resource_name": "theirs",
    "resource_pattern_type": 3,
    "principal": "User:me",
    "host": "*",
    "operation": 2,
    "permission_type": 3,
}
ANY_ACL = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
MARKER = write_txn_markers.WritableTxnMarker(
    producer_id=1,
    producer_epoch=0,
    transaction_result=True,
    topics=[write_txn_markers.WritableTxnMarkerTopic(name="mine", partition_indexes=[0, 1])],
)

QUESTIONS: list[Make] = [
    creating,
    deleting,
    growing,
    altering_configs,
    editing_configs,
    *[
        describing_configs(*resource)
        for resource in (*RESOURCES, (8, "1"))
        if resource not in ((2, "mine"), (2, "seen"), (32, "g-mine"), (32, "g-seen"))
    ],
    one(list_config_resources.ListConfigResourcesRequest()),
    one(
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    name="mine",
                    partitions=[
                        alter_partition_reassignments.ReassignablePartition(
                            partition_index=0, replicas=[1]
                        )
                    ],
                )
            ]
        )
    ),
    one(list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)),
    electing,
    one(
        alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=[
                        alter_replica_log_dirs.AlterReplicaLogDirTopic(name="mine", partitions=[0])
                    ],
                )
            ]
        )
    ),
    describing_directories,
    describing_cluster,
    one(
        describe_quorum.DescribeQuorumRequest(
            topics=[
                describe_quorum.DescribeQuorumRequestTopicData(
                    topic_name="__cluster_metadata",
                    partitions=[
                        describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
                    ],
                )
            ]
        )
    ),
    adding_voter,
    one(remove_raft_voter.RemoveRaftVoterRequest(voter_id=9, voter_directory_id=b"9" * 16)),
    one(unregister_broker.UnregisterBrokerRequest(broker_id=9)),
    one(update_features.UpdateFeaturesRequest()),
    one(describe_acls.DescribeAclsRequest(**ANY_ACL)),
    one(create_acls.CreateAclsRequest(creations=[create_acls.AclCreation(**ACL)] * 2)),
    one(delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter(**ANY_ACL)] * 2)),
    # Not all of them: Apache Kafka never answers, having stumbled over what was left out.
    one(
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            users=[describe_user_scram_credentials.UserName(name="a")]
        )
    ),
    one(
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=[
                alter_user_scram_credentials.ScramCredentialDeletion(name=name, mechanism=1)
                for name in ("b", "a")
            ]
        )
    ),
    one(describe_client_quotas.DescribeClientQuotasRequest()),
    one(
        alter_client_quotas.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas.AlterClientQuotasRequestEntryData(
                    entity=[
                        alter_client_quotas.AlterClientQuotasRequestEntityData(
                            entity_type="user", entity_name="me"
                        )
                    ],
                    ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=1.0)],
                )
            ]
        )
    ),
    one(renew_delegation_token.RenewDelegationTokenRequest(hmac=b"unknown")),
    one(expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"unknown")),
    describing_tokens(),
    describing_tokens("admin"),
    one(write_txn_markers.WriteTxnMarkersRequest(markers=[MARKER])),
]

ONLY_IN: list[tuple[Make, range]] = [
    (deleting_by_id, range(6, 7)),
    (
        one(
            create_delegation_token.CreateDelegationTokenRequest(
                owner_principal_type="User", owner_principal_name="admin", max_lifetime_ms=-1
            )
        ),
        range(3, 4),
    ),
    (
        one(list_config_resources.ListConfigResourcesRequest(resource_types=[2, 4, 32])),
        range(1, 2),
    ),
]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache"), config=SECURED) as node:
        yield node  # type: ignore[misc]


async def test_who_has_few_rights_over_the_cluster_hears_the_same(
    apache: ApacheNode, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(running_node(tmp_path, SECURED))
        worlds = []
        for port in (apache.port, port_of(node)):
            admin, me = [await _logged_in(stack, port, user) for user in ("admin", "me")]
            worlds.append((me, await _filled(admin, me)))
        different = []
        questions = [(make, None) for make in QUESTIONS] + ONLY_IN
        for make, versions in questions:
            key = make(0, worlds[0][1]).API_KEY
            for version in versions or API[key].versions:
                told, own = [
                    _levelled(await me.ask(make(version, ids), version)) for me, ids in worlds
                ]
                different += [
                    f"{API[key].name} {version}: {each}" for each in differences(own, told)
                ]
        assert not different, "\n".join(different)


def _levelled(part: Any) -> Any:
    """The answer without what is nobody's business but its author's."""
    for name in part.__slots__:
        value = getattr(part, name)
        if name == "error_message":
            part.error_message = None  # ours is often there where theirs is not
        elif name == "expiry_timestamp_ms" and part.error_code:
            part.expiry_timestamp_ms = -1
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Part):
                    _levelled(each)
    if part.__class__.__name__ == "DescribeUserScramCredentialsResponse":
        part.results = []  # Apache Kafka repeats its error for users without names
    return part


async def _logged_in(stack: AsyncExitStack, port: int, user: str) -> Asker:
    asker = await stack.enter_async_context(asking(port))
    chosen = await asker.ask(sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert not chosen.error_code, chosen
    proof = sasl_authenticate.SaslAuthenticateRequest(auth_bytes=f"\0{user}\0p".encode())
    let_in = await asker.ask(proof, 2)
    assert not let_in.error_code, let_in
    return asker


async def _filled(admin: Asker, me: Asker) -> dict[str, bytes]:
    """Topics and entries; then wait until the entries count."""
    ids = {}
    for name in TOPICS:
        ids[name] = await admin.create(name, 2)
        await _led(admin, name, 2)
    request = create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in RULES
        ]
    )
    made = await admin.ask(request, 3)
    assert not any(each.error_code for each in made.results), made
    question = describing_configs(32, "g-seen")(4, {})
    async with asyncio.timeout(20):
        while (await me.ask(question, 4)).results[0].error_code:
            await asyncio.sleep(0.02)
    return ids

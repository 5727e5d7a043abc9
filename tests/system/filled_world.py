"""A node in which there is something of every kind, and lines to it that need no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from inspect import isawaitable
from typing import Any, cast

from penstock.app.node import Node
from penstock.app.security import STANDARD_AUTHORIZER
from penstock.model.operations import Operation
from penstock.model.resources import PatternType, Permission, ResourceType
from penstock.net.connection import CloseConnection, Connection
from penstock.protocol.generated import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_user_scram_credentials,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_topics,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    offset_commit,
    produce,
)
from penstock.protocol.headers import read_response_header
from penstock.protocol.message import Message, Part
from penstock.protocol.registry import API
from penstock.security.principal import Principal
from penstock.server.gate import Gate
from penstock.storage.log_slice import LogSlice
from tests.unit.server.asking import batch, question

ADMIN = Principal("admin")

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    # Tokens are given only to those who proved who they are.
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "advertised.listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.jaas.config": f'{JAAS} username="admin" password="p" user_admin="p";',
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": str(ADMIN),
    "delegation.token.secret.key": "not a secret here",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}

TOPIC, GROUP, TRANSACTION, USER = "vault", "vault-group", "vault-txn", "vault-user"
METRICS = "vault-metrics"


# -- asking without a socket ----------------------------------------------------------------------


class Line:
    """As much of a connection as a node looks at, with somebody at its other end."""

    def __init__(self, node: Node, who: Principal, quorum: bool = False) -> None:
        listeners = node._listeners.for_the_quorum if quorum else node._listeners.for_clients
        self._service = listeners[0].service
        self.listener_name = listeners[0].name
        self.peer = ("127.0.0.1", 1)
        self.gate = Gate(self.peer[0], node.broker.authorizer, who)
        self.last_active = 0.0
        self.more_follow = False
        self.aborted = False
        self.on_lost: Any = None

    def abort(self) -> None:
        self.aborted = True

    def mute(self, seconds: float) -> None:
        raise AssertionError(f"throttled for {seconds} s")

    async def ask(self, request: Message, version: int) -> Any:
        """The answer; None if there is none, and CloseConnection if the node hangs up."""
        return await self.send(request.API_KEY, version, question(request, version)[4:])

    async def send(self, api_key: int, version: int, frame: bytes) -> Any:
        reply = self._service.serve(cast(Connection, self), memoryview(bytearray(frame)))
        if isawaitable(reply):
            async with asyncio.timeout(10):
                reply = await reply
        if self.aborted:
            raise CloseConnection("aborted")
        if reply is None:
            return None
        data = b"".join(map(_bytes, reply)) if isinstance(reply, list) else reply
        spec = API[api_key]
        _, at = read_response_header(memoryview(data)[4:], spec.response_header_version(version))
        response, _ = spec.response_class.read(memoryview(data)[4:], version, at)
        return response


def _bytes(part: Any) -> bytes:
    read: bytes = part.read() if isinstance(part, LogSlice) else bytes(part)
    return read


# -- a world --------------------------------------------------------------------------------------


class World:
    """What is in the first node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.admin = Line(node, ADMIN)
        self.topic_id = b""
        self.hmac = b""

    async def fill(self) -> None:
        made = await self.admin.ask(
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(
                        name=TOPIC,
                        num_partitions=3,
                        replication_factor=1,
                        configs=[
                            create_topics.CreatableTopicConfig(name="retention.ms", value="4711000")
                        ],
                    )
                ]
            ),
            7,
        )
        self.topic_id = made.topics[0].topic_id
        await self.node.broker.settled()
        await self._write()
        await self._coordinate()
        await self._administer()

    async def _write(self) -> None:
        answer = await self.admin.ask(
            produce.ProduceRequest(
                acks=-1,
                timeout_ms=5000,
                topic_data=[
                    produce.TopicProduceData(
                        name=TOPIC,
                        partition_data=[
                            produce.PartitionProduceData(index=0, records=memoryview(batch(77)))
                        ],
                    )
                ],
            ),
            9,
        )
        assert not answer.responses[0].partition_responses[0].error_code

    async def _coordinate(self) -> None:
        for kind, key in ((0, GROUP), (1, TRANSACTION)):
            await self._until_done(
                find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]),
                4,
                lambda answer: not answer.coordinators[0].error_code,
            )
        await self._until_done(
            offset_commit.OffsetCommitRequest(
                group_id=GROUP,
                topics=[
                    offset_commit.OffsetCommitRequestTopic(
                        name=TOPIC,
                        partitions=[
                            offset_commit.OffsetCommitRequestPartition(
                                partition_index=0, committed_offset=42
                            )
                        ],
                    )
                ],
            ),
            9,
            lambda answer: not answer.topics[0].partitions[0].error_code,
        )
        await self._until_done(
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id=f"{GROUP}-live",
                member_id="someone",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[TOPIC],
                topic_partitions=[],
            ),
            1,
            lambda answer: not answer.error_code,
        )
        given = await self._until_done(
            init_producer_id.InitProducerIdRequest(
                transactional_id=TRANSACTION, transaction_timeout_ms=60_000
            ),
            4,
            lambda answer: not answer.error_code,
        )
        await self._until_done(
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=TRANSACTION,
                v3_and_below_producer_id=given.producer_id,
                v3_and_below_producer_epoch=given.producer_epoch,
                v3_and_below_topics=[
                    add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[1])
                ],
            ),
            3,
            lambda answer: (
                not answer.results_by_topic_v3_and_below[0]
                .results_by_partition[0]
                .partition_error_code
            ),
        )

    async def _administer(self) -> None:
        await self._done(
            create_acls.CreateAclsRequest(
                creations=[
                    create_acls.AclCreation(
                        resource_type=ResourceType.TOPIC,
                        resource_name=TOPIC,
                        resource_pattern_type=PatternType.LITERAL,
                        principal=f"User:{USER}",
                        host="*",
                        operation=Operation.READ,
                        permission_type=Permission.ALLOW,
                    )
                ]
            ),
            3,
        )
        await self._done(
            alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                upsertions=[
                    alter_user_scram_credentials.ScramCredentialUpsertion(
                        name=USER,
                        mechanism=1,
                        iterations=4096,
                        salt=b"0" * 16,
                        salted_password=b"1" * 32,
                    )
                ]
            ),
            0,
        )
        await self._done(
            alter_client_quotas.AlterClientQuotasRequest(
                entries=[
                    alter_client_quotas.AlterClientQuotasRequestEntryData(
                        entity=[
                            alter_client_quotas.AlterClientQuotasRequestEntityData(
                                entity_type="user", entity_name=USER
                            )
                        ],
                        ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=54321.0)],
                    )
                ]
            ),
            1,
        )
        await self._done(
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configs=[incremental_alter_configs.AlterableConfig(name=key, value=value)],
                    )
                    for kind, name, key, value in (
                        (16, METRICS, "interval.ms", "54321"),
                        (32, GROUP, "consumer.session.timeout.ms", "54321"),
                        (4, "", "log.retention.ms", "54321000"),
                    )
                ]
            ),
            1,
        )
        token = await self.admin.ask(
            create_delegation_token.CreateDelegationTokenRequest(max_lifetime_ms=-1), 3
        )
        assert not token.error_code, token
        self.hmac = token.hmac

    async def _done(self, request: Message, version: int) -> None:
        answer = await self.admin.ask(request, version)
        assert not any(_errors(answer)), answer

    async def _until_done(self, request: Message, version: int, done: Any) -> Any:
        async with asyncio.timeout(20):
            while True:
                answer = await self.admin.ask(request, version)
                if done(answer):
                    return answer
                await asyncio.sleep(0.02)


def _errors(part: Any) -> Iterator[int]:
    for name in part.__slots__:
        value = getattr(part, name)
        if name == "error_code":
            yield value
        for each in value if isinstance(value, list) else ():
            yield from _errors(each) if isinstance(each, Part) else ()

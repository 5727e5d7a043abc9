"""DescribeConfigs, ListConfigResources, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.controller.config_rules import ConfigRules
from penstock.controller.decision import Settings
from penstock.controller.machine import Controller
from penstock.metadata.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from penstock.metadata.image import EMPTY
from penstock.model.config import NodeConfig, own
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis, NodeId
from penstock.platform.chance import SystemChance
from penstock.protocol.generated import alter_configs as legacy
from penstock.protocol.generated import incremental_alter_configs as incremental
from penstock.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.protocol.generated.list_config_resources import ListConfigResourcesRequest
from penstock.protocol.generated.metadata_records import (
    BrokerEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from penstock.server.handlers import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.retention.hours": "24",
    "ssl.keystore.password": "hush",
}
CALL: Any = SimpleNamespace(
    version=4, listener_name="PLAINTEXT", connection=SimpleNamespace(gate=None)
)


class Bench:
    """A broker with a controller behind it that decides and commits at once."""

    def __init__(self) -> None:
        self.config = NodeConfig.of(NODE)
        self.node_id = NodeId(1)
        self.authorizer = None
        self.quotas = SimpleNamespace(mutations=lambda _: None)
        self.controller = self
        self.forwarded: list[Any] = []
        self._machine = Controller(Settings("cluster", 1), ConfigRules(self.config))
        self._machine.take_over(EMPTY, Millis(0))
        self._commit(
            [
                RegisterBrokerRecord(
                    broker_id=1,
                    incarnation_id=bytes(15) + b"\x07",
                    broker_epoch=1,
                    end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)],
                    features=[],
                    fenced=True,
                ),
                UnfenceBrokerRecord(id=1, epoch=1),
                TopicRecord(name="orders", topic_id=bytes(15) + b"\x09"),
                PartitionRecord(
                    partition_id=0,
                    topic_id=bytes(15) + b"\x09",
                    replicas=[1],
                    isr=[1],
                    leader=1,
                ),
            ]
        )

    def controller_at(self, _: str) -> Bench:
        return self

    async def handle(self, api_key: int, request: Any, **_: Any) -> Any:
        self.forwarded.append(request)
        decision = self._machine.decide(
            api_key,
            request,
            now=Millis(0),
            chance=SystemChance(),
            next_offset=self.image.offset + 1,
            version=1,
        )
        self._commit(decision.records)
        return decision.response

    def _commit(self, records: Any) -> None:
        self._machine.apply(records, self._machine.image.offset + len(records), 1)
        self.image = self._machine.image

    def set_of(self, kind: int, name: str) -> dict[str, str]:
        return dict(self.image.configs.of(kind, name))


@pytest.fixture
def bench() -> Any:
    return Bench()


async def describe(
    bench: Any,
    kind: int,
    name: str,
    *keys: str,
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )
    response = await describe_configs.handle(bench, CALL, request)
    for version in DescribeConfigsResponse.VERSIONS:
        response.write(version, bytearray())  # no field is left that a version cannot carry
    return response.results[0]


async def alter(
    bench: Any, kind: int, name: str, *edits: tuple[str, int, str | None], **options: bool
) -> tuple[ErrorCode, str | None]:
    configs = [
        incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in edits
    ]
    resource = incremental.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], **options)
    response = await incremental_alter_configs.handle(bench, CALL, request)
    (answer,) = response.responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return ErrorCode(answer.error_code), answer.error_message


# -- describing -----------------------------------------------------------------------------------


async def test_a_topic_is_described_with_its_own_and_its_inherited_values(bench: Any) -> None:
    await alter(bench, TOPIC, "orders", ("cleanup.policy", SET, "compact"))
    result = await describe(bench, TOPIC, "orders", synonyms=True)
    entries = {entry.name: entry for entry in result.configs}
    assert len(entries) == 33 + len(own.TOPIC)
    policy = entries["cleanup.policy"]
    assert (policy.value, policy.config_source, policy.config_type) == ("compact", 1, 7)
    assert [(s.name, s.value, s.source) for s in policy.synonyms] == [
        ("cleanup.policy", "compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    assert entries["retention.ms"].value == "86400000"
    assert not any(entry.read_only for entry in result.configs)


async def test_only_the_keys_asked_for_are_described(bench: Any) -> None:
    result = await describe(bench, TOPIC, "orders", "retention.ms", "no.such.key")
    assert [entry.name for entry in result.configs] == ["retention.ms"]
    assert result.configs[0].synonyms == []
    assert result.configs[0].documentation is None


async def test_what_one_answer_describes_is_bounded(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_configs, "ENTRIES_MAX", 1000)
    resources = [
        DescribeConfigsResource(
            resource_type=BROKER, resource_name="1".zfill(length), configuration_keys=["node.id"]
        )
        for length in range(1000, 2000)
    ]
    request = DescribeConfigsRequest(resources=resources)
    results = (await describe_configs.handle(bench, CALL, request)).results
    errors = [result.error_code for result in results]
    assert errors == [ErrorCode.NONE] * 3 + [ErrorCode.POLICY_VIOLATION] * 997
    assert [entry.name for entry in results[0].configs] == ["node.id"]


async def test_documentation_is_told_on_request(bench: Any) -> None:
    result = await describe(bench, TOPIC, "orders", "retention.ms", documentation=True)
    assert "for ever" in (result.configs[0].documentation or "")


async def test_a_secret_of_the_broker_is_never_told(bench: Any) -> None:
    result = await describe(bench, BROKER, "1", "ssl.keystore.password", synonyms=True)
    (entry,) = result.configs
    assert entry.is_sensitive
    assert entry.value is None
    assert [synonym.value for synonym in entry.synonyms] == [None]
    assert "hush" not in repr(await describe(bench, BROKER, "1", synonyms=True))


async def test_the_empty_broker_name_stands_for_what_is_set_for_all(bench: Any) -> None:
    assert (await describe(bench, BROKER, "")).configs == []
    await alter(bench, BROKER, "", ("log.retention.ms", SET, "5000"))
    (entry,) = (await describe(bench, BROKER, "")).configs
    assert (entry.name, entry.value, entry.config_source) == ("log.retention.ms", "5000", 3)
    (entry,) = (await describe(bench, TOPIC, "orders", "retention.ms")).configs
    assert (entry.value, entry.config_source) == ("5000", 3)


async def test_groups_subscriptions_and_loggers_are_described(bench: Any) -> None:
    assert len((await describe(bench, GROUP, "g")).configs) == 17 + len(own.GROUP)
    assert len((await describe(bench, CLIENT_METRICS, "m")).configs) == 3
    loggers = {entry.name: entry for entry in (await describe(bench, BROKER_LOGGER, "1")).configs}
    assert loggers["root"].config_source == 6


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (1, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_described_has_kafkas_error(
    bench: Any, kind: int, name: str, error: ErrorCode
) -> None:
    result = await describe(bench, kind, name)
    assert result.error_code == error
    assert result.configs == []
    assert (result.resource_type, result.resource_name) == (kind, name)


# -- listing --------------------------------------------------------------------------------------


async def test_resources_are_listed_by_type(bench: Any) -> None:
    await alter(bench, GROUP, "g", ("share.isolation.level", SET, "read_committed"))
    await alter(bench, CLIENT_METRICS, "m", ("metrics", SET, "*"))

    def listed(version: int, *kinds: int) -> list[tuple[int, str]]:
        call: Any = SimpleNamespace(**{**vars(CALL), "version": version})
        request = ListConfigResourcesRequest(resource_types=list(kinds))
        response = list_config_resources.handle(bench, call, request)
        assert response.error_code == ErrorCode.NONE
        return [(each.resource_type, each.resource_name) for each in response.config_resources]

    assert listed(0) == [(CLIENT_METRICS, "m")]
    assert sorted(listed(1)) == [
        (TOPIC, "orders"),
        (BROKER, "1"),
        (BROKER_LOGGER, "1"),
        (CLIENT_METRICS, "m"),
        (GROUP, "g"),
    ]
    assert listed(1, TOPIC) == [(TOPIC, "orders")]


def test_a_type_that_does_not_exist_cannot_be_listed(bench: Any) -> None:
    request = ListConfigResourcesRequest(resource_types=[3])
    response = list_config_resources.handle(bench, CALL, request)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


# -- altering -------------------------------------------------------------------------------------


async def test_single_keys_are_set_deleted_appended_and_subtracted(bench: Any) -> None:
    await alter(
        bench, TOPIC, "orders", ("retention.ms", SET, "1"), ("cleanup.policy", APPEND, "compact")
    )
    assert bench.set_of(TOPIC, "orders") == {
        "retention.ms": "1",
        "cleanup.policy": "delete,compact",
    }
    await alter(
        bench,
        TOPIC,
        "orders",
        ("retention.ms", DELETE, None),
        ("cleanup.policy", SUBTRACT, "delete"),
    )
    assert bench.set_of(TOPIC, "orders") == {"cleanup.policy": "compact"}


async def test_validation_alone_changes_nothing(bench: Any) -> None:
    outcome = await alter(bench, TOPIC, "orders", ("retention.ms", SET, "1"), validate_only=True)
    assert outcome == (ErrorCode.NONE, None)
    assert bench.set_of(TOPIC, "orders") == {}
    error, _ = await alter(bench, TOPIC, "orders", ("retention.ms", SET, "x"), validate_only=True)
    assert error == ErrorCode.INVALID_CONFIG


async def test_altering_the_old_way_replaces_everything(bench: Any) -> None:
    await alter(bench, TOPIC, "orders", ("retention.ms", SET, "1"))
    resource = legacy.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="orders",
        configs=[legacy.AlterableConfig(name="segment.ms", value="5")],
    )
    request = legacy.AlterConfigsRequest(resources=[resource])
    (answer,) = (await alter_configs.handle(bench, CALL, request)).responses
    assert answer.error_code == ErrorCode.NONE
    assert bench.set_of(TOPIC, "orders") == {"segment.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "name", "edit", "error"),
    [
        (TOPIC, "orders", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", ("no.such.key", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "nowhere", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", ("num.partitions", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("log.retention.ms", SET, "x"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("log.retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (BROKER, "1", ("log.retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("no.such.key", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG),
        (BROKER, "2", ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ("listeners", SET, "PLAINTEXT://:1"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ("share.delivery.count.limit", SET, "11"), ErrorCode.INVALID_CONFIG),
        (CLIENT_METRICS, "m", ("interval.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (3, "x", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "1", ("no.such.logger", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (BROKER_LOGGER, "1", ("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        (BROKER_LOGGER, "1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "1", ("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_change_that_is_refused_has_kafkas_error_and_changes_nothing(
    bench: Any, kind: int, name: str, edit: tuple[str, int, str | None], error: ErrorCode
) -> None:
    before = bench.image
    found, message = await alter(bench, kind, name, edit)
    assert found == error
    assert message
    assert bench.image.configs == before.configs


@pytest.mark.parametrize("kind", [TOPIC, BROKER, BROKER_LOGGER, GROUP, CLIENT_METRICS])
async def test_an_answer_does_not_repeat_a_huge_question(bench: Any, kind: int) -> None:
    name = {TOPIC: "orders", BROKER: "1", BROKER_LOGGER: "1"}.get(kind, "x")
    huge = "x" * 100_000
    for edit in ((huge, SET, "1"), (huge, APPEND, huge), ("retention.ms", SET, huge)):
        error, message = await alter(bench, kind, name, edit, validate_only=True)
        assert len(message or "") <= 1000
        assert error != ErrorCode.NONE or kind == BROKER
    error, message = await alter(bench, BROKER, huge, ("log.retention.ms", SET, "1"))
    assert error == ErrorCode.INVALID_REQUEST
    assert len(message or "") <= 1000


async def test_the_same_key_twice_is_refused(bench: Any) -> None:
    error, _ = await alter(
        bench, TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")
    )
    assert error == ErrorCode.INVALID_REQUEST
    assert bench.forwarded == []


async def test_one_refusal_does_not_stop_the_others_and_order_is_kept(bench: Any) -> None:
    def resource(kind: int, name: str, key: str) -> legacy.AlterConfigsResource:
        return legacy.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[legacy.AlterableConfig(name=key, value="60000")],
        )

    request = legacy.AlterConfigsRequest(
        resources=[
            resource(BROKER, "1", "num.partitions"),
            resource(TOPIC, "orders", "retention.ms"),
            resource(GROUP, "twice", "consumer.session.timeout.ms"),
            resource(GROUP, "twice", "consumer.session.timeout.ms"),
        ]
    )
    response = await alter_configs.handle(bench, CALL, request)
    assert [(answer.resource_name, answer.error_code) for answer in response.responses] == [
        ("1", ErrorCode.INVALID_REQUEST),
        ("orders", ErrorCode.NONE),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]
    assert [len(forwarded.resources) for forwarded in bench.forwarded] == [1]
    assert bench.set_of(TOPIC, "orders") == {"retention.ms": "60000"}


# -- loggers --------------------------------------------------------------------------------------


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("penstock.test.levels")
    yield logger
    logger.setLevel(logging.NOTSET)


async def test_a_loggers_level_changes_here_and_at_once(bench: Any, logger: logging.Logger) -> None:
    name = logger.name
    assert await alter(bench, BROKER_LOGGER, "1", (name, SET, "TRACE")) == (ErrorCode.NONE, None)
    assert logger.level == 5
    (entry,) = (await describe(bench, BROKER_LOGGER, "1", name)).configs
    assert entry.value == "TRACE"
    await alter(bench, BROKER_LOGGER, "1", (name, DELETE, None))
    assert logger.level == logging.NOTSET
    assert bench.forwarded == []


async def test_a_level_is_only_validated_if_asked_so(bench: Any, logger: logging.Logger) -> None:
    await alter(bench, BROKER_LOGGER, "1", (logger.name, SET, "ERROR"), validate_only=True)
    assert logger.level == logging.NOTSET

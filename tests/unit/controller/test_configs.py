from __future__ import annotations

from typing import Any

from penstock.metadata.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import alter_configs as legacy
from penstock.protocol.generated import create_topics as ct
from penstock.protocol.generated import incremental_alter_configs as inc
from penstock.protocol.generated import update_features as uf

from .stage import Stage, topic

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def edit(
    stage: Stage, kind: int, name: str, *edits: tuple[str, int, str | None], **fields: Any
) -> Any:
    resource = inc.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            inc.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in edits
        ],
    )
    request = inc.IncrementalAlterConfigsRequest(resources=[resource], **fields)
    (response,) = stage.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request).responses
    return response


def with_topic() -> Stage:
    stage = Stage()
    stage.create(topic("a", retention_ms="5"))
    return stage


def test_single_keys_are_set_and_deleted_and_the_others_stay() -> None:
    stage = with_topic()
    assert edit(stage, TOPIC, "a", ("segment.ms", SET, "60000")).error_code == 0
    assert stage.image.configs.of(TOPIC, "a") == {"retention.ms": "5", "segment.ms": "60000"}
    assert edit(stage, TOPIC, "a", ("retention.ms", DELETE, None)).error_code == 0
    assert stage.image.configs.of(TOPIC, "a") == {"segment.ms": "60000"}


def test_lists_are_appended_to_and_subtracted_from_the_default() -> None:
    stage = with_topic()
    edit(stage, TOPIC, "a", ("cleanup.policy", APPEND, "compact"))
    assert stage.image.configs.of(TOPIC, "a")["cleanup.policy"] == "delete,compact"
    edit(stage, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete"))
    assert stage.image.configs.of(TOPIC, "a")["cleanup.policy"] == "compact"
    response = edit(stage, TOPIC, "a", ("retention.ms", APPEND, "1"))
    assert response.error_code == ErrorCode.INVALID_CONFIG


def test_validate_only_changes_nothing() -> None:
    stage = with_topic()
    response = edit(stage, TOPIC, "a", ("segment.ms", SET, "60000"), validate_only=True)
    assert response.error_code == 0
    assert stage.image.configs.of(TOPIC, "a") == {"retention.ms": "5"}


def test_a_resource_is_changed_whole_or_not_at_all() -> None:
    stage = with_topic()
    response = edit(stage, TOPIC, "a", ("segment.ms", SET, "60000"), ("retention.ms", SET, "never"))
    assert response.error_code == ErrorCode.INVALID_CONFIG
    assert stage.image.configs.of(TOPIC, "a") == {"retention.ms": "5"}


def test_a_value_that_stays_is_written_only_for_brokers() -> None:
    stage = with_topic()
    offset = stage.offset
    edit(stage, TOPIC, "a", ("retention.ms", SET, "5"))
    assert stage.offset == offset
    for _ in range(2):
        edit(stage, BROKER, "1", ("log.cleaner.threads", SET, "2"))
    assert stage.offset == offset + 2


def test_resources_that_are_not_there_are_refused() -> None:
    stage = with_topic()
    for kind, name, error in (
        (TOPIC, "nix", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (BROKER, "9", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (99, "a", ErrorCode.INVALID_REQUEST),
    ):
        assert edit(stage, kind, name, ("k", SET, "v")).error_code == error, (kind, name)
    assert edit(stage, BROKER, "", ("log.cleaner.threads", SET, "2")).error_code == 0
    assert edit(stage, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")).error_code == 0


def test_edits_that_make_no_sense_are_refused() -> None:
    stage = with_topic()
    for edits in (
        [("segment.ms", SET, None)],
        [("segment.ms", 7, "1")],
        [("segment.ms", SET, "60000"), ("segment.ms", DELETE, None)],
    ):
        assert edit(stage, TOPIC, "a", *edits).error_code == ErrorCode.INVALID_REQUEST


def test_a_resource_named_twice_is_refused() -> None:
    stage = with_topic()
    resource = inc.AlterConfigsResource(resource_type=TOPIC, resource_name="a")
    request = inc.IncrementalAlterConfigsRequest(resources=[resource, resource])
    responses = stage.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request).responses
    assert {r.error_code for r in responses} == {ErrorCode.INVALID_REQUEST}


def test_the_older_request_replaces_everything() -> None:
    stage = with_topic()
    resource = legacy.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="a",
        configs=[legacy.AlterableConfig(name="segment.ms", value="60000")],
    )
    request = legacy.AlterConfigsRequest(resources=[resource])
    (response,) = stage.ask(ApiKey.ALTER_CONFIGS, request).responses
    assert response.error_code == 0
    assert stage.image.configs.of(TOPIC, "a") == {"segment.ms": "60000"}


def update(stage: Stage, *updates: tuple[str, int, int], version: int = 2, **fields: Any) -> Any:
    request = uf.UpdateFeaturesRequest(
        feature_updates=[
            uf.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ],
        **fields,
    )
    return stage.ask(ApiKey.UPDATE_FEATURES, request, version)


UP, SAFE, UNSAFE = 1, 2, 3


def test_features_go_down_and_up_again() -> None:
    stage = Stage()
    assert update(stage, ("share.version", 0, SAFE)).error_code == 0
    assert "share.version" not in stage.image.features.levels
    assert update(stage, ("share.version", 1, UP)).error_code == 0
    assert stage.image.features.levels["share.version"] == 1


def test_feature_updates_that_cannot_be_are_refused_all_together() -> None:
    stage = Stage()
    before = dict(stage.image.features.levels)
    for name, level, kind in (
        ("share.version", 2, UP),
        ("share.version", -1, UP),
        ("share.version", 0, UP),
        ("share.version", 1, 9),
        ("metadata.version", 29, SAFE),
        ("metadata.version", 99, UP),
        ("kraft.version", 1, UP),
        ("unknown.version", 1, UP),
    ):
        response = update(stage, ("group.version", 0, SAFE), (name, level, kind))
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION, (name, level)
        assert name in response.error_message
    assert dict(stage.image.features.levels) == before


def test_an_update_can_be_tried_without_being_made() -> None:
    stage = Stage()
    assert update(stage, ("share.version", 0, SAFE), validate_only=True).error_code == 0
    assert stage.image.features.levels["share.version"] == 1


def test_the_first_version_of_the_request_allows_a_downgrade_by_a_flag() -> None:
    stage = Stage()
    request = uf.UpdateFeaturesRequest(
        feature_updates=[
            uf.FeatureUpdateKey(feature="share.version", max_version_level=0, allow_downgrade=True)
        ]
    )
    assert stage.ask(ApiKey.UPDATE_FEATURES, request, 0).error_code == 0
    assert "share.version" not in stage.image.features.levels


def test_a_refusal_is_told_once_however_many_features_were_named() -> None:
    stage = Stage()
    response = update(stage, *((f"f{number}", 1, UP) for number in range(1000)), version=1)
    assert (response.error_code, response.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])


def test_a_level_needs_every_voter_to_have_registered() -> None:
    stage = Stage(quorum=(0, 5))
    response = update(stage, ("share.version", 0, SAFE))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Controller 5" in response.error_message


ISR_MIN = "min.insync.replicas"


def test_when_the_minimum_in_sync_changes_nobody_is_eligible_any_more() -> None:
    stage = Stage()
    stage.create(topic("a"))
    stage.beat(1, want_fence=True)
    assert stage.partition("a").elr == (1,)
    assert edit(stage, TOPIC, "a", (ISR_MIN, SET, "2")).error_code == 0
    assert stage.partition("a").elr == ()
    request = ct.CreateTopicsRequest(topics=[topic("b", min_insync_replicas="1")])
    stage.beat(1)
    kinds = [type(r).__name__ for r in stage.decide(ApiKey.CREATE_TOPICS, request).records]
    assert kinds == ["TopicRecord", "ConfigRecord", "ClearElrRecord", "PartitionRecord"]


def test_with_elr_one_minimum_counts_for_all_brokers() -> None:
    stage = Stage()
    assert edit(stage, BROKER, "1", (ISR_MIN, SET, "2")).error_code == ErrorCode.INVALID_CONFIG
    assert edit(stage, BROKER, "", (ISR_MIN, DELETE, None)).error_code == ErrorCode.INVALID_CONFIG
    assert edit(stage, BROKER, "", (ISR_MIN, SET, "1")).error_code == 0


def test_switching_elr_on_makes_one_minimum_count() -> None:
    stage = Stage()
    elr = "eligible.leader.replicas.version"
    assert update(stage, (elr, 0, SAFE)).error_code == 0
    assert edit(stage, BROKER, "1", (ISR_MIN, SET, "2")).error_code == 0
    assert edit(stage, BROKER, "", (ISR_MIN, DELETE, None)).error_code == 0
    assert update(stage, (elr, 1, UP)).error_code == 0
    assert stage.image.configs.of(BROKER, "1") == {}
    assert stage.image.configs.of(BROKER, "") == {ISR_MIN: "1"}

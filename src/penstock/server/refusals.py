"""How requests are refused as a whole: Kafka's error, in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    delete_share_group_state,
    describe_client_quotas,
    elect_leaders,
    incremental_alter_configs,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
    write_txn_markers,
)
from penstock.protocol.generated.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from penstock.protocol.generated.create_topics import CreatableTopicResult, CreateTopicsResponse
from penstock.protocol.generated.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from penstock.protocol.registry import API

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.errors import ErrorCode
    from penstock.protocol.message import Message, Part

ELECT_LEADERS_ERROR_FROM = 1
"""The version from which ElectLeaders has an error for the whole."""


def refusal(request: Any, error: ErrorCode, version: int) -> Message:
    """The response, in a version, to a request of which nothing was done."""
    build = _SHAPES.get(request.API_KEY)
    if build is not None:
        return build(request, error, version)
    response: Any = API[request.API_KEY].response_class()
    response.error_code = error
    if hasattr(response, "error_message"):
        response.error_message = error.message
    message: Message = response
    return message


def _create_topics(request: Any, error: ErrorCode, _: int) -> Message:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=each.name, error_code=error, error_message=error.message)
            for each in request.topics
        ]
    )


def _delete_topics(request: Any, error: ErrorCode, _: int) -> Message:
    named = [(each.name, each.topic_id) for each in request.topics]
    named += [(name, bytes(16)) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error, error_message=error.message
            )
            for name, topic_id in named
        ]
    )


def _create_partitions(request: Any, error: ErrorCode, _: int) -> Message:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=each.name, error_code=error, error_message=error.message
            )
            for each in request.topics
        ]
    )


def _alter_configs(request: Any, error: ErrorCode, _: int) -> Message:
    return alter_configs.AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(
                error_code=error,
                error_message=error.message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        ]
    )


def _incremental_alter_configs(request: Any, error: ErrorCode, _: int) -> Message:
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=error,
                error_message=error.message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        ]
    )


def _elect_leaders(request: Any, error: ErrorCode, version: int) -> Message:
    return elect_leaders.ElectLeadersResponse(
        error_code=error if version >= ELECT_LEADERS_ERROR_FROM else 0,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    elect_leaders.PartitionResult(
                        partition_id=each, error_code=error, error_message=error.message
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _alter_client_quotas(request: Any, error: ErrorCode, _: int) -> Message:
    return alter_client_quotas.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.AlterClientQuotasResponseEntryData(
                error_code=error,
                error_message=error.message,
                entity=[
                    alter_client_quotas.AlterClientQuotasResponseEntityData(
                        entity_type=part.entity_type, entity_name=part.entity_name
                    )
                    for part in each.entity
                ],
            )
            for each in request.entries
        ]
    )


def _alter_partition_reassignments(request: Any, error: ErrorCode, _: int) -> Message:
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=error.message,
        responses=[
            alter_partition_reassignments.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=error,
                        error_message=error.message,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _describe_client_quotas(_: Any, error: ErrorCode, __: int) -> Message:
    return describe_client_quotas.DescribeClientQuotasResponse(
        error_code=error, error_message=error.message, entries=None
    )


def _write_txn_markers(request: Any, error: ErrorCode, _: int) -> Message:
    return write_txn_markers.WriteTxnMarkersResponse(
        markers=[
            write_txn_markers.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    write_txn_markers.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            write_txn_markers.WritableTxnMarkerPartitionResult(
                                partition_index=each, error_code=error
                            )
                            for each in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _alter_replica_log_dirs(request: Any, error: ErrorCode, _: int) -> Message:
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(
        results=[
            alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(
                        partition_index=each, error_code=error
                    )
                    for each in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _create_acls(request: Any, error: ErrorCode, _: int) -> Message:
    return create_acls.CreateAclsResponse(
        results=[
            create_acls.AclCreationResult(error_code=error, error_message=error.message)
            for _ in request.creations
        ]
    )


def _delete_acls(request: Any, error: ErrorCode, _: int) -> Message:
    return delete_acls.DeleteAclsResponse(
        filter_results=[
            delete_acls.DeleteAclsFilterResult(error_code=error, error_message=error.message)
            for _ in request.filters
        ]
    )


def _alter_user_scram_credentials(request: Any, error: ErrorCode, _: int) -> Message:
    users = {each.name for each in (*request.deletions, *request.upsertions)}
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[
            alter_user_scram_credentials.AlterUserScramCredentialsResult(
                user=user, error_code=error, error_message=error.message
            )
            for user in sorted(users)
        ]
    )


def _share_state(
    module: Any, response: Callable[..., Message], result: Callable[..., Part]
) -> Callable[[Any, ErrorCode, int], Message]:
    """A refusal of one of the requests to share coordinators, which are all alike."""

    def refuse(request: Any, error: ErrorCode, _: int) -> Message:
        results = [
            result(
                topic_id=topic.topic_id,
                partitions=[
                    module.PartitionResult(
                        partition=each.partition, error_code=error, error_message=error.message
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return response(results=results)

    return refuse


_SHAPES: dict[int, Callable[[Any, ErrorCode, int], Message]] = {
    int(ApiKey.CREATE_TOPICS): _create_topics,
    int(ApiKey.DELETE_TOPICS): _delete_topics,
    int(ApiKey.CREATE_PARTITIONS): _create_partitions,
    int(ApiKey.ALTER_CONFIGS): _alter_configs,
    int(ApiKey.INCREMENTAL_ALTER_CONFIGS): _incremental_alter_configs,
    int(ApiKey.ALTER_CLIENT_QUOTAS): _alter_client_quotas,
    int(ApiKey.ELECT_LEADERS): _elect_leaders,
    int(ApiKey.ALTER_PARTITION_REASSIGNMENTS): _alter_partition_reassignments,
    int(ApiKey.DESCRIBE_CLIENT_QUOTAS): _describe_client_quotas,
    int(ApiKey.WRITE_TXN_MARKERS): _write_txn_markers,
    int(ApiKey.ALTER_REPLICA_LOG_DIRS): _alter_replica_log_dirs,
    int(ApiKey.CREATE_ACLS): _create_acls,
    int(ApiKey.DELETE_ACLS): _delete_acls,
    int(ApiKey.ALTER_USER_SCRAM_CREDENTIALS): _alter_user_scram_credentials,
    int(ApiKey.INITIALIZE_SHARE_GROUP_STATE): _share_state(
        initialize_share_group_state,
        initialize_share_group_state.InitializeShareGroupStateResponse,
        initialize_share_group_state.InitializeStateResult,
    ),
    int(ApiKey.READ_SHARE_GROUP_STATE): _share_state(
        read_share_group_state,
        read_share_group_state.ReadShareGroupStateResponse,
        read_share_group_state.ReadStateResult,
    ),
    int(ApiKey.WRITE_SHARE_GROUP_STATE): _share_state(
        write_share_group_state,
        write_share_group_state.WriteShareGroupStateResponse,
        write_share_group_state.WriteStateResult,
    ),
    int(ApiKey.DELETE_SHARE_GROUP_STATE): _share_state(
        delete_share_group_state,
        delete_share_group_state.DeleteShareGroupStateResponse,
        delete_share_group_state.DeleteStateResult,
    ),
    int(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY): _share_state(
        read_share_group_state_summary,
        read_share_group_state_summary.ReadShareGroupStateSummaryResponse,
        read_share_group_state_summary.ReadStateSummaryResult,
    ),
}
"""Responses that have an error for each part; all others have one for the whole."""

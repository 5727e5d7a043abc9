"""Names: Kafka's camel case to ours, and the module that a message belongs to."""

from __future__ import annotations

import re

# Records are read together, when a log is replayed, so they share a module; an API has its own.
_MODULE_OF_JAR = {
    "kafka-metadata": "metadata_records",
    "kafka-group-coordinator": "group_records",
    "kafka-share-coordinator": "share_records",
    "kafka-transaction-coordinator": "transaction_records",
    "kafka-raft": "quorum_state",
}

_MODULE_OF_MESSAGE = {
    "RequestHeader": "message_headers",
    "ResponseHeader": "message_headers",
    "ConsumerProtocolSubscription": "consumer_protocol",
    "ConsumerProtocolAssignment": "consumer_protocol",
    "DefaultPrincipalData": "principal_data",
    "ProducerSnapshot": "producer_snapshot",
    "ControlRecordTypeSchema": "control_records",
    "EndTxnMarker": "control_records",
    "LeaderChangeMessage": "control_records",
    "SnapshotHeaderRecord": "control_records",
    "SnapshotFooterRecord": "control_records",
    "KRaftVersionRecord": "control_records",
    "VotersRecord": "control_records",
}


def snake(name: str) -> str:
    """`TopicId` and `topicId` become `topic_id`; `KRaftVersion` becomes `kraft_version`."""
    name = name.replace("KRaft", "Kraft")
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


# Locals that generated functions use for themselves.
_TAKEN = frozenset(("at", "end", "it", "n", "out", "raw", "records", "size", "stop", "tag", "tags"))


def local(name: str) -> str:
    """The local variable for one element of the class `name`."""
    return snake(name) + "_" if snake(name) in _TAKEN else snake(name)


def module_of(kind: str, name: str, jar: str) -> str:
    """The generated module, and file of facts, for a message from one of Apache's jars."""
    if kind in ("request", "response"):
        return snake(re.sub(r"(Request|Response)$", "", name))
    if name in _MODULE_OF_MESSAGE:
        return _MODULE_OF_MESSAGE[name]
    if jar == "kafka-storage":
        return "remote_log_records"
    return _MODULE_OF_JAR[jar]

"""What goes wrong between a sink and its cluster, in a user's words."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException


class Fault(NamedTuple):
    """What is wrong, and what to do about it."""

    what: str
    advice: str


class SlotInterrupted(Exception):
    """A slot was not written, for a reason that may pass: writing it again is right and safe."""


_TOO_LARGE = (
    "Raise max.message.bytes of the topic, and message.max.bytes under the sink's options, or make "
    "the record smaller."
)
_NOT_ALLOWED = "Give this right to the user under `kafka` in the file, or name another user."

LASTING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: Fault(
        "the topic {topic!r} is not there",
        "Was it deleted while the pipeline ran? Start the pipeline again to have it created.",
    ),
    KafkaError._UNKNOWN_TOPIC: Fault(
        "the topic {topic!r} is not there",
        "Was it deleted while the pipeline ran? Start the pipeline again to have it created.",
    ),
    KafkaError.TOPIC_EXCEPTION: Fault(
        "{topic!r} cannot be a topic's name",
        "Letters, digits, dots, dashes and underscores, at most 249.",
    ),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Fault(
        "writing to the topic {topic!r} is not allowed", _NOT_ALLOWED
    ),
    KafkaError.GROUP_AUTHORIZATION_FAILED: Fault(
        "reading and committing offsets of the group {group!r} is not allowed", _NOT_ALLOWED
    ),
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Fault(
        "transactions of the ids that begin with {group!r} are not allowed", _NOT_ALLOWED
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: Fault(
        "the cluster does not let this pipeline's user write", _NOT_ALLOWED
    ),
    KafkaError._AUTHENTICATION: Fault(
        "the cluster did not recognise this pipeline's user: {reason}",
        "See the keys under `kafka` in the file.",
    ),
    KafkaError.SASL_AUTHENTICATION_FAILED: Fault(
        "the cluster did not recognise this pipeline's user: {reason}",
        "See the keys under `kafka` in the file.",
    ),
    KafkaError.MSG_SIZE_TOO_LARGE: Fault(
        "a record is too large for the topic {topic!r}", _TOO_LARGE
    ),
    KafkaError.RECORD_LIST_TOO_LARGE: Fault(
        "a record is too large for the topic {topic!r}", _TOO_LARGE
    ),
    KafkaError.INVALID_TIMESTAMP: Fault(
        "the topic {topic!r} does not take records of that time",
        "See message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic.",
    ),
    KafkaError.INVALID_RECORD: Fault(
        "the topic {topic!r} refused a record: {reason}",
        "A compacted topic wants a key for every record.",
    ),
    KafkaError.POLICY_VIOLATION: Fault(
        "the cluster's rules refuse it: {reason}", "Ask who runs the cluster."
    ),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: Fault(
        "the cluster does not allow transactions as long as this sink's",
        "Set transaction.timeout.ms under the sink's options to at most the brokers' "
        "transaction.max.timeout.ms.",
    ),
    KafkaError._INVALID_ARG: Fault(
        "a setting of the producer is wrong: {reason}", "See the sink's options in the file."
    ),
    KafkaError._UNSUPPORTED_FEATURE: Fault(
        "the cluster does not know transactions: {reason}",
        "Use delivery: at-least-once, or a newer cluster.",
    ),
}
"""Errors that stay until somebody does something; all others may pass."""

SIZE_CODES = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


def lasting(error: KafkaError, topic: str, group: str) -> Fault | None:
    """What to tell of an error that will not pass by itself; None for one that may."""
    known = LASTING.get(error.code())
    if known is None:
        return None
    what = known.what.format(topic=topic, group=group, reason=reason_of(error))
    return Fault(what, known.advice)


def error_of(refusal: KafkaException) -> KafkaError:
    """The error inside an exception of confluent-kafka."""
    error = refusal.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def reason_of(error: KafkaError) -> str:
    """An error's own text, without librdkafka's prefixes."""
    text = (error.str() or "").removeprefix("Broker: ").removeprefix("Local: ").strip()
    return text or str(error.name())

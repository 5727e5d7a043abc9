"""Kafka's names for the files and directories of a log."""

from __future__ import annotations

from penstock.model.ids import TopicPartition

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELAYED = ".delayed"  # Penstock's own, which Kafka leaves alone
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

DELETE_DIRECTORY = "-delete"
FUTURE_DIRECTORY = "-future"
STRAY_DIRECTORY = "-stray"
DIRECTORY_NAME_MAX = 255

PARTITION_METADATA = "partition.metadata"
METADATA_TOPIC = "__cluster_metadata"


def stem(offset: int) -> str:
    """Twenty digits, so that names sort as offsets do."""
    return f"{offset:020d}"


def offset_of(name: str) -> int | None:
    """The offset that a file is named after, None if it is named after none."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def partition_of(directory: str) -> TopicPartition | None:
    """The partition whose log lives in a directory of this name, None if it is no log's."""
    topic, dash, number = directory.rpartition("-")
    if not (topic and dash and number.isascii() and number.isdigit()):
        return None
    return TopicPartition(topic, int(number))


def marked_partition_of(directory: str, mark: str) -> TopicPartition | None:
    """The partition of `topic-partition.unique-mark`: a log that is deleted, future or stray."""
    if not directory.endswith(mark):
        return None
    name, dot, _ = directory[: -len(mark)].rpartition(".")
    return partition_of(name) if dot else None


def marked_name(partition: TopicPartition, unique: str, mark: str) -> str:
    """A name for a log on its way out or in; the topic is cut where a file name would be too long.

    `unique` is 32 characters without dashes. The cut loses nothing: a log that is to be deleted is
    never looked up by its name again.
    """
    suffix = f"-{partition.partition}.{unique}{mark}"
    return partition.topic[: DIRECTORY_NAME_MAX - len(suffix)] + suffix

"""The small text files of a log directory, in Kafka's formats.

All of them are written to a second name, synced and renamed: a reader sees an old one or a new
one, never a part. A checkpoint that cannot be read is as good as none: recovery then looks at
more, and finds the same.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from penstock.model.ids import TopicPartition, Uuid, uuid_of, uuid_text
from penstock.platform.disk import Disk
from penstock.storage import names

logger = logging.getLogger(__name__)

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"

NO_BROKER_EPOCH = -1


class CorruptCheckpoint(ValueError):
    """The file is no checkpoint."""


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """A version, a count, and `topic partition offset` on each line."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return "\n".join(["0", str(len(lines)), *lines]) + "\n"


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """What `format_offsets` wrote; CorruptCheckpoint if it is anything else."""
    lines = text.splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
        offsets = {}
        for line in lines[2:]:
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
    except (IndexError, ValueError):
        raise CorruptCheckpoint("not made of topics and numbers") from None
    if version != 0 or count != len(lines) - 2:
        raise CorruptCheckpoint(f"version {version} with {len(lines) - 2} of {count} entries")
    return offsets


def read_offsets(disk: Disk, directory: str, name: str) -> dict[TopicPartition, int]:
    """The offsets of a checkpoint; none if it is missing, or if it is corrupt, which is logged."""
    path = os.path.join(directory, name)
    try:
        return parse_offsets(disk.read_bytes(path).decode())
    except FileNotFoundError:
        return {}
    except (CorruptCheckpoint, UnicodeDecodeError) as error:
        logger.warning("%s: %s; going on as if there were none", path, error)
        return {}


def write_offsets(
    disk: Disk, directory: str, name: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Blocking: the file is synced."""
    disk.write_atomic(os.path.join(directory, name), format_offsets(offsets).encode())


def format_partition_metadata(topic_id: bytes) -> str:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}\n"


def read_topic_id(disk: Disk, directory: str) -> Uuid | None:
    """The topic id in `partition.metadata`; None if a crash left none, or none that is whole."""
    path = os.path.join(directory, names.PARTITION_METADATA)
    try:
        text = disk.read_bytes(path).decode()
        fields = dict(line.split(": ", 1) for line in text.splitlines())
        if fields["version"] != "0":
            raise ValueError(f"version {fields['version']}")
        return uuid_of(fields["topic_id"])
    except FileNotFoundError:
        return None
    except (KeyError, ValueError) as error:
        logger.warning("%s does not name a topic id: %s", path, error)
        return None


def write_clean_shutdown(disk: Disk, directory: str, broker_epoch: int) -> None:
    """Say that everything in `directory` is whole and synced. The last write of all."""
    text = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
    disk.write_atomic(os.path.join(directory, CLEAN_SHUTDOWN), text.encode())


def take_clean_shutdown(disk: Disk, directory: str) -> int | None:
    """The broker epoch of a clean stop (-1 if it does not say), None if there was none.

    The marker goes before anything is loaded or written, and durably so: a crash from now on must
    not look like the clean stop before it.
    """
    path = os.path.join(directory, CLEAN_SHUTDOWN)
    if not disk.exists(path):
        return None
    text = disk.read_bytes(path).decode(errors="replace")
    disk.remove(path)
    disk.sync_directory(directory)
    return _broker_epoch_of(text)


def _broker_epoch_of(text: str) -> int:
    import json

    try:
        return int(json.loads(text)["brokerEpoch"])
    except (KeyError, TypeError, ValueError):
        return NO_BROKER_EPOCH  # an empty marker is what Kafka wrote before 3.6


def format_properties(values: Mapping[str, str]) -> str:
    """A Java properties file."""
    return "#\n" + "".join(f"{key}={_escape(value)}\n" for key, value in values.items())


def parse_properties(text: str) -> dict[str, str]:
    """What Java's Properties wrote, as far as Kafka's own small files go."""
    values = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            values[key.strip()] = _unescape(value.strip())
    return values


def _escape(value: str) -> str:
    return "".join("\\" + each if each in "\\=:#!" else each for each in value)


def _unescape(value: str) -> str:
    plain, escaped = [], False
    for each in value:
        if each == "\\" and not escaped:
            escaped = True
        else:
            plain.append(each)
            escaped = False
    return "".join(plain)

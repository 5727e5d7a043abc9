"""One log directory: its lock, its identity, and whether its disk still works."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Mapping

from penstock.model.ids import TopicPartition, Uuid, uuid_of, uuid_text
from penstock.platform.chance import Chance
from penstock.platform.directory_lock import DirectoryLock
from penstock.platform.disk import Disk
from penstock.storage.checkpoints import (
    META_PROPERTIES,
    format_properties,
    parse_properties,
    read_offsets,
    write_offsets,
)


class WrongDirectory(ValueError):
    """The directory belongs to another node or another cluster."""


class LogDirectory:
    """A directory of `log.dirs`. Offline means: its disk failed, and nothing in it is touched."""

    __slots__ = (
        "_asked",
        "_disk",
        "_lock",
        "_unwritten",
        "_writing",
        "_written",
        "error",
        "path",
        "uuid",
        "was_clean",
    )

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._lock: DirectoryLock | None = None
        self.path = path
        self.uuid = Uuid(bytes(16))
        """`directory.id`, by which the controller knows where a replica lives."""
        self.was_clean = False
        """Whether the last stop was a clean one."""
        self.error: OSError | None = None
        self._writing = threading.Lock()
        self._asked: dict[str, int] = {}  # versions of each checkpoint, counted by the event loop
        self._written: dict[str, tuple[int, Container[TopicPartition]]] = {}  # under the lock
        self._unwritten: dict[tuple[str, int], Container[TopicPartition]] = {}

    @property
    def online(self) -> bool:
        return self.error is None

    def open(self, node_id: int, cluster_id: str, chance: Chance) -> None:
        """Lock the directory and check, or write, whose it is."""
        self._make()
        self._lock = self._disk.lock(self.path)
        try:
            self._check_identity(node_id, cluster_id, chance)
        except (OSError, ValueError):
            self.unlock()
            raise

    def _make(self) -> None:
        """Durably: what is synced in a directory is lost if the directory itself has no name."""
        made, path = [], self.path
        while not self._disk.exists(path):
            made.append(path)
            path = os.path.dirname(path)
        self._disk.mkdir(self.path)
        for each in made:
            self._disk.sync_directory(os.path.dirname(each))

    def _check_identity(self, node_id: int, cluster_id: str, chance: Chance) -> None:
        path = os.path.join(self.path, META_PROPERTIES)
        found = {}
        if self._disk.exists(path):
            found = parse_properties(self._disk.read_bytes(path).decode())
            for key, wanted in (("node.id", str(node_id)), ("cluster.id", cluster_id)):
                if found.get(key, wanted) != wanted:
                    raise WrongDirectory(
                        f"{path} says {key}={found[key]}, but this node has {key}={wanted}: "
                        "give the node its own directory, or correct its configuration"
                    )
            if found.get("version", "1") != "1":
                raise WrongDirectory(
                    f"{path} has version {found['version']}, only 1 is known: "
                    "it was written for ZooKeeper, or by a newer version"
                )
        if "directory.id" in found:
            self.uuid = uuid_of(found["directory.id"])
            return
        self.uuid = chance.uuid()
        values = {
            "version": "1",
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            "directory.id": uuid_text(self.uuid),
        }
        self._disk.write_atomic(path, format_properties(values).encode())

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """What a checkpoint says, at the start."""
        offsets = read_offsets(self._disk, self.path, name)
        self._written[name] = 0, offsets
        return offsets

    def offsets_writer(
        self, name: str, offsets: Mapping[TopicPartition, int]
    ) -> Callable[[], None]:
        """Work that writes a checkpoint, on any thread, unless a newer one was written meanwhile.

        An older one must not come last: it may hold recovery points from before a truncation.
        """
        version = self._asked[name] = self._asked.get(name, 0) + 1
        self._forget_unwritten()
        self._unwritten[name, version] = offsets

        def write() -> None:
            with self._writing:
                if version > self._written.get(name, (0, ()))[0]:
                    write_offsets(self._disk, self.path, name, offsets)
                    self._written[name] = version, offsets

        return write

    def may_speak_of(self, partition: TopicPartition) -> bool:
        """Whether a checkpoint on disk, or one that is yet to be written, names the partition."""
        unwritten = list(self._unwritten.values())  # first: one may be written at this moment
        written = [offsets for _, offsets in list(self._written.values())]
        return any(partition in offsets for offsets in (*unwritten, *written))

    def _forget_unwritten(self) -> None:
        """Drop versions that were written since, or that a newer one has made superfluous."""
        for name, version in list(self._unwritten):
            if version <= self._written.get(name, (0, ()))[0]:
                del self._unwritten[name, version]

    def sync_all(self) -> bool:
        """Make everything in it durable with one call; False where that cannot be done.

        The lock's descriptor is as old as our first write here, so that a failure of any write
        since then is reported.
        """
        return self._lock is not None and self._disk.sync_filesystem(self._lock.fileno())

    def fail(self, error: OSError) -> None:
        """The disk failed. The lock stays: nobody else should try either."""
        self.error = error

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def read_meta(disk: Disk, directory: str) -> dict[str, str] | None:
    """The properties in a directory's `meta.properties`, None if it has none yet."""
    path = os.path.join(directory, META_PROPERTIES)
    if not disk.exists(path):
        return None
    return parse_properties(disk.read_bytes(path).decode())

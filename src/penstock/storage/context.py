"""What all logs of a node share: the disk, the rubbish to remove later, memory for indexes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.platform.chance import Chance, SystemChance
from penstock.platform.disk import Disk

if TYPE_CHECKING:
    from penstock.storage.log import Log
    from penstock.storage.segment import Segment

INDEX_MEMORY_MAX = 32 << 20
PRODUCER_EXPIRATION_MS = 24 * 60 * 60 * 1000


class LogContext:
    """Handed to each log when it is made."""

    __slots__ = (
        "chance",
        "disk",
        "indexes",
        "on_delay",
        "on_fault",
        "on_roll",
        "on_truncate",
        "producer_expiration_ms",
        "trash",
    )

    def __init__(
        self,
        disk: Disk,
        *,
        chance: Chance | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        index_memory_max: int = INDEX_MEMORY_MAX,
    ) -> None:
        self.disk = disk
        self.chance = chance or SystemChance()
        self.producer_expiration_ms = producer_expiration_ms
        self.trash = Trash(disk)
        self.indexes = IndexMemory(index_memory_max)
        self.on_roll: Callable[[Log], None] = _ignore
        """Called when a segment was sealed: somebody should `sync` the log in a worker soon."""
        self.on_truncate: Callable[[Log], None] = _ignore
        """Called before a log is cut below what its checkpoints say: they must be lowered first,
        durably, or a restart would trust what is written in the place of what was cut."""
        self.on_fault: Callable[[Log, OSError], None] = _ignore
        """Called when the disk failed under a log, before the error is raised."""
        self.on_delay: Callable[[Log], None] = _ignore
        """Called when a delayed record is due earlier than all others of its log."""


def _ignore(*_: object) -> None:
    pass


class Trash:
    """Files that were renamed to `.deleted` and go when nobody can be reading them any more."""

    __slots__ = ("_disk", "_due")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._due: list[tuple[int, list[str], list[Segment]]] = []

    def __len__(self) -> int:
        return len(self._due)

    def add(self, due: int, paths: list[str], segments: list[Segment]) -> None:
        """Remove `paths` (files or directories) at `due`, after closing `segments`."""
        self._due.append((due, paths, segments))

    def take_due(self, now: int) -> list[str]:
        """Paths whose time has come, closed: remove them in a worker with `remove`."""
        ready = [entry for entry in self._due if entry[0] <= now]
        if ready:
            self._due = [entry for entry in self._due if entry[0] > now]
        for _, _, segments in ready:
            for segment in segments:
                segment.close()
        return [path for _, paths, _ in ready for path in paths]

    def close(self) -> None:
        """Let go of the files. They are removed when the node starts again."""
        for _, _, segments in self._due:
            for segment in segments:
                segment.close()
        self._due.clear()

    def remove(self, paths: list[str]) -> None:
        """Blocking. What is gone already is fine: the directory may have been deleted meanwhile."""
        for path in paths:
            if path.endswith(".deleted"):
                self._disk.remove(path)
            else:
                self._disk.remove_tree(path)


class IndexMemory:
    """A bound on the memory of sealed segments' indexes: the least recently used ones go."""

    __slots__ = ("_bytes", "_bytes_max", "_held")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._held: OrderedDict[Segment, int] = OrderedDict()

    def touch(self, segment: Segment) -> None:
        """`segment`, which is sealed, is about to be looked up."""
        held = self._held
        if segment in held and segment.index_loaded:
            held.move_to_end(segment)
            return
        self._bytes -= held.pop(segment, 0)
        size = segment.index.memory
        held[segment] = size
        self._bytes += size
        while self._bytes > self._bytes_max and len(held) > 1:
            oldest, freed = held.popitem(last=False)
            self._bytes -= freed
            oldest.drop_index()

    def forget(self, segment: Segment) -> None:
        self._bytes -= self._held.pop(segment, 0)

"""Which leader epoch wrote which part of a log: the `leader-epoch-checkpoint` of a partition.

A list of (epoch, start offset), both rising. With it a follower finds where its log and its
leader's part ways, and a consumer learns that its position was truncated away.

The append path calls `assign` for each batch; it costs one comparison until the epoch changes.
Every change is handed to `save` as the file's whole text, at once: an epoch that is on disk in
batches but not here could hide a divergence after a crash.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable

from penstock.model.invariants import invariant

FILE_NAME = "leader-epoch-checkpoint"
VERSION = 0
NO_EPOCH = -1
NO_OFFSET = -1


class CorruptEpochs(ValueError):
    """The file is no leader epoch checkpoint."""


class LeaderEpochs:
    """The epochs of one partition's log. `save` writes the file atomically."""

    __slots__ = ("_epochs", "_save", "_starts", "latest")

    def __init__(self, save: Callable[[str], None], text: str | None = None) -> None:
        self._save = save
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = NO_EPOCH
        """The last epoch, -1 if there is none."""
        if text is not None:
            self.restore(parse_epochs(text))

    def restore(self, entries: Iterable[tuple[int, int]]) -> None:
        """Become these entries, which came from the file and need not be saved again."""
        self._cut(0)
        for epoch, start in entries:
            self._put(epoch, start)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    def __len__(self) -> int:
        return len(self._epochs)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records of `epoch` begin at `start_offset`, unless that is known already.

        Entries that contradict this one go: an epoch that wrote nothing, or a lost leader's.
        """
        if epoch == self.latest and start_offset >= self._starts[-1]:
            return
        invariant(epoch >= 0 and start_offset >= 0, "a leader epoch or its offset is negative")
        self._put(epoch, start_offset)
        self._write()

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch at or below `epoch`, and where it ends; (-1, -1) if unknown.

        Below the first known epoch everything has left the log: the answer is the epoch asked for
        and the start of the first, so that a follower goes on there.
        """
        if epoch == NO_EPOCH:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        above = bisect_right(self._epochs, epoch)
        if above == len(self._epochs):
            return NO_EPOCH, NO_OFFSET  # nobody here has heard of it
        found = self._epochs[above - 1] if above else epoch
        return found, self._starts[above]

    def epoch_for(self, offset: int) -> int:
        """Which epoch wrote `offset`; -1 if it lies below the first known one."""
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else NO_EPOCH

    def start_of(self, epoch: int) -> int | None:
        """Where exactly this epoch began, None if it is not known."""
        at = bisect_left(self._epochs, epoch)
        known = at < len(self._epochs) and self._epochs[at] == epoch
        return self._starts[at] if known else None

    def truncate_from_end(self, end_offset: int) -> None:
        """The log was cut: epochs that begin at or above `end_offset` are gone."""
        if self._starts and self._starts[-1] >= end_offset:
            self._cut(bisect_left(self._starts, end_offset))
            self._write()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at `start_offset`: the epoch that holds it begins there too."""
        at = bisect_right(self._starts, start_offset) - 1
        if at >= 0 and (at > 0 or self._starts[0] < start_offset):
            del self._epochs[:at]
            del self._starts[:at]
            self._starts[0] = start_offset
            self._write()

    def clear(self) -> None:
        """The log begins anew."""
        if self._epochs:
            self._cut(0)
            self._write()

    def _put(self, epoch: int, start_offset: int) -> None:
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        self._cut(keep)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch

    def _cut(self, keep: int) -> None:
        del self._epochs[keep:]
        del self._starts[keep:]
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH

    def _write(self) -> None:
        self._save(format_epochs(self.entries))


def format_epochs(entries: list[tuple[int, int]]) -> str:
    """The file: a version, a count, and a line for each entry."""
    lines = [str(VERSION), str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    return "\n".join(lines) + "\n"


def parse_epochs(text: str) -> list[tuple[int, int]]:
    """What `format_epochs` wrote; CorruptEpochs if it is anything else."""
    lines = text.splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
        entries = [(int(epoch), int(start)) for epoch, start in (ln.split() for ln in lines[2:])]
    except (IndexError, ValueError):
        raise CorruptEpochs("the leader epoch checkpoint is not made of numbers") from None
    if version != VERSION or count != len(entries):
        raise CorruptEpochs(
            f"a leader epoch checkpoint of version {version} with {len(entries)} of {count} entries"
        )
    if any(epoch < 0 or start < 0 for epoch, start in entries):
        raise CorruptEpochs("a leader epoch checkpoint with a negative number")
    return entries

"""How compaction replaces many files of a lake by one: either all of them count, or it does.

    LAKE/_penstock/compaction/ID.json    what is to replace what, written when the new file is whole
    LAKE/_penstock/compaction/ID/...     the new file, and the folder that it will be seen in

The new folder has the new file and links to those that stay. Where the file system can swap two
folders in one step, a reader that lists a folder sees the old files or the new one, never both.
Elsewhere, and in the lake's own folder, the new file gets its name and the old ones lose theirs one
after another: a reader that lists meanwhile may see rows twice. In either case the new file's name
decides after a crash: if it is in its place, the old ones go; if not, nothing has happened.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.pipeline.sinks import lake_disk as disk
from penstock.pipeline.sinks.lake_publication import HIDDEN, Step, lock_of


@dataclass(frozen=True, slots=True)
class Swap:
    """One replacement, with paths relative to the lake."""

    id: str
    folder: str
    old: tuple[str, ...]
    """The names of the files that go."""
    new: str
    """The name of the file that comes."""


def compaction_folder(lake: str) -> str:
    """Where compaction keeps its notes and its unfinished files."""
    return os.path.join(lake, HIDDEN, "compaction")


def new_swap(lake: str, folder: str, old: Sequence[str], ending: str) -> Swap:
    """A swap that is about to be prepared; its aside folder is made."""
    id = uuid.uuid4().hex[:12]
    os.makedirs(aside(lake, id))
    return Swap(id, folder, tuple(old), f"compacted-{id}{ending}")


def aside(lake: str, id: str) -> str:
    """The folder that will take the old one's place."""
    return os.path.join(compaction_folder(lake), id, "folder")


def steps(lake: str, swap: Swap, *, exchange: Callable[[str, str], bool]) -> Iterator[Step]:
    """All steps from a new file that is whole to a lake that has it."""
    made = aside(lake, swap.id)
    yield Step("sync the new file", lambda: disk.sync_file(os.path.join(made, swap.new)))
    yield Step("sync its name", lambda: disk.sync_folder(made))
    yield Step("write the note", lambda: _write(lake, swap))
    yield Step("swap", lambda: _swap(lake, swap, exchange))
    yield Step("remove the old files", lambda: _remove_old(lake, swap))


def run(lake: str, swap: Swap) -> None:
    """Replace the old files by the new one; `forget` has to follow."""
    for step in steps(lake, swap, exchange=disk.exchange):
        step.do()


def forget(lake: str, id: str) -> None:
    """Remove the note of a swap, and the folder that was swapped out."""
    disk.remove([_note(lake, id)])
    disk.remove_folder(os.path.join(compaction_folder(lake), id))


def recover_compaction(lake: str) -> None:
    """Finish or forget what an interrupted compaction left; one that is at work is left alone."""
    home = compaction_folder(lake)
    if not os.path.isdir(home):
        return
    with disk.locked(run_lock_of(lake), wait=False) as free:
        if free:
            recover_swaps(lake)


def recover_swaps(lake: str) -> None:
    """As `recover_compaction`, for who holds its lock."""
    home = compaction_folder(lake)
    names = os.listdir(home)
    for name in names:
        if name.endswith(".json"):
            found = disk.read(os.path.join(home, name))
            swap = Swap(found["id"], found["folder"], tuple(found["old"]), found["new"])
            if os.path.exists(os.path.join(lake, swap.folder, swap.new)):
                _remove_old(lake, swap)
            forget(lake, swap.id)
    for name in names:
        if os.path.isdir(os.path.join(home, name)):
            disk.remove_folder(os.path.join(home, name))


def run_lock_of(lake: str) -> str:
    """The lock that a compaction holds from its start to its end."""
    return os.path.join(compaction_folder(lake), "lock")


def _write(lake: str, swap: Swap) -> None:
    content = {"id": swap.id, "folder": swap.folder, "old": list(swap.old), "new": swap.new}
    disk.write_over(_note(lake, swap.id), content)


def _swap(lake: str, swap: Swap, exchange: Callable[[str, str], bool]) -> None:
    folder, made = os.path.join(lake, swap.folder), aside(lake, swap.id)
    with disk.locked(lock_of(lake)):
        if swap.folder and _link_rest(folder, made, swap) and exchange(made, folder):
            return
        os.link(os.path.join(made, swap.new), os.path.join(folder, swap.new))
        _remove_old(lake, swap)


def _link_rest(folder: str, made: str, swap: Swap) -> bool:
    """Give the new folder all that stays; False if it holds what cannot be linked."""
    old = set(swap.old)
    entries = [entry for entry in os.scandir(folder) if entry.name not in old]
    if any(entry.is_dir(follow_symlinks=False) for entry in entries):
        return False
    for entry in entries:
        try:
            os.link(entry.path, os.path.join(made, entry.name), follow_symlinks=False)
        except FileExistsError:
            pass  # an attempt before this one came so far
        except OSError:
            return False  # some file systems have no links, and some users may not make them
    shutil.copymode(folder, made)
    disk.sync_folder(made)
    return True


def _remove_old(lake: str, swap: Swap) -> None:
    folder = os.path.join(lake, swap.folder)
    # The new name must be on disk before the old ones go.
    disk.sync_folder(folder)
    disk.remove(os.path.join(folder, name) for name in swap.old)


def _note(lake: str, id: str) -> str:
    return os.path.join(compaction_folder(lake), f"{id}.json")

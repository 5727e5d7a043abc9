"""How a batch's files come into a lake: all of them, once, whatever dies on the way.

Files are staged where no reader looks. A manifest then says which staged file gets which name; once
it is durable the batch counts, and whoever comes next finishes what it says. Only then are files
renamed into their places. So a batch that was interrupted before its manifest never happened, and
one that was interrupted after it is finished without computing anything again.

    LAKE/_penstock/staging/WRITER/BATCH-RANDOM/...   files of one attempt
    LAKE/_penstock/writers/WRITER/BATCH.publishing   the manifest: the batch counts
    LAKE/_penstock/writers/WRITER/BATCH.done         every file is in its place

An attempt has a folder of its own, and the manifest's name can be taken only once: what a driver
that was thought dead still writes is never published.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks import lake_disk as disk

HIDDEN = "_penstock"
"""Where a lake's own notes are: readers leave out folders whose names begin like this."""

DONE_KEPT = 100
"""Manifests of so many finished batches of a writer are kept, for whoever wants to look."""

PUBLISHING, DONE = ".publishing", ".done"


class Move(NamedTuple):
    """A staged file and its place, both relative to the lake."""

    staged: str
    final: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one batch of one writer puts into the lake."""

    batch: int
    moves: tuple[Move, ...]
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do on the way; doing it again does no harm."""

    name: str
    do: Callable[[], None] = field(repr=False)


class Publication:
    """The batches of one writer on their way into one lake."""

    def __init__(self, lake: str, writer: str) -> None:
        self.lake = lake
        self.writer = file_name(writer)
        self._notes = os.path.join(lake, HIDDEN, "writers", self.writer)
        self._staging = os.path.join(lake, HIDDEN, "staging", self.writer)

    def prepare(self) -> None:
        """Make the folders, finish what was interrupted, throw away what never counted."""
        for folder in (self._notes, self._staging):
            disk.make_folder(folder)
        self.finish_all()
        for attempt in os.listdir(self._staging):
            disk.remove_folder(os.path.join(self._staging, attempt))

    def last(self) -> int:
        """The newest batch that counts; -1 before the first."""
        return max([*self._batches(DONE), *self._batches(PUBLISHING)], default=-1)

    def new_attempt(self, batch: int) -> str:
        """A folder that nobody else writes to, for the files of this batch; not made yet."""
        return os.path.join(self._staging, f"{batch}-{uuid.uuid4().hex[:8]}")

    def plan(self, batch: int, staged: Sequence[str], *, suffix: str) -> tuple[Move, ...]:
        """A place for every staged file: its folder as it was staged, a name of its own."""
        moves = []
        for number, path in enumerate(sorted(staged)):
            folders = os.path.dirname(path)
            attempt = os.path.relpath(path, self._staging).split(os.sep)[0]
            inside = os.path.relpath(folders, os.path.join(self._staging, attempt))
            name = f"part-{self.writer}-{batch:08d}-{number:04d}{suffix}"
            final = name if inside == os.curdir else os.path.join(inside, name)
            moves.append(Move(os.path.relpath(path, self.lake), final))
        return tuple(moves)

    def steps(self, manifest: Manifest) -> Iterator[Step]:
        """All steps from staged files to a batch that is done."""
        for move in manifest.moves:
            yield Step(f"sync {move.staged}", partial(disk.sync_file, self._path(move.staged)))
        yield Step("sync staged names", lambda: self._sync(move.staged for move in manifest.moves))
        yield Step("write the manifest", lambda: self._write(manifest))
        yield from self._finish_steps(manifest)

    def give_up(self, attempt: str) -> None:
        """Throw away what was staged by an attempt that has no manifest."""
        disk.remove_folder(attempt)

    def publish(self, manifest: Manifest) -> None:
        """Put a batch into the lake."""
        for step in self.steps(manifest):
            step.do()

    def finish_all(self) -> None:
        """Finish batches whose manifest was written by somebody who did not come to the end."""
        for batch in self._batches(PUBLISHING):
            for step in self._finish_steps(self._read(batch)):
                step.do()

    def unfinished(self) -> set[str]:
        """The places of files that are perhaps not there yet."""
        found: set[str] = set()
        for batch in self._batches(PUBLISHING):
            try:
                found.update(move.final for move in self._read(batch).moves)
            except FileNotFoundError:
                pass  # it was finished meanwhile
        return found

    def _finish_steps(self, manifest: Manifest) -> Iterator[Step]:
        for move in manifest.moves:
            yield Step(f"rename to {move.final}", partial(self._rename, move))
        yield Step("sync names", lambda: self._sync(move.final for move in manifest.moves))
        yield Step("mark as done", lambda: self._mark_done(manifest.batch))
        yield Step("clean up", lambda: self._clean(manifest))

    def _write(self, manifest: Manifest) -> None:
        content = {
            "rows": manifest.rows,
            "bytes": manifest.bytes,
            "moves": [list(move) for move in manifest.moves],
        }
        path = self._note(manifest.batch, PUBLISHING)
        if manifest.batch <= self.last() or not disk.write_new(path, content):
            raise Problem(
                f"batch {manifest.batch} of {self.writer} was published by somebody else",
                "The same pipeline seems to run twice: stop one of them.",
            )

    def _read(self, batch: int) -> Manifest:
        path = self._note(batch, PUBLISHING)
        try:
            found = disk.read(path)
            moves = tuple(Move(*each) for each in found["moves"])
            return Manifest(batch, moves, found["rows"], found["bytes"])
        except (ValueError, KeyError, TypeError) as damage:
            raise Problem(
                f"{path} cannot be read: {damage}",
                "It lists the files of a batch whose publication was interrupted. Restore it; "
                "without it the batch may be in the lake in part.",
            ) from damage

    def _rename(self, move: Move) -> None:
        staged, final = self._path(move.staged), self._path(move.final)
        try:
            # Compaction may be about to swap this folder for another one.
            with disk.locked(lock_of(self.lake)):
                disk.make_folder(os.path.dirname(final))
                os.rename(staged, final)
        except FileNotFoundError:
            if not os.path.exists(final):
                raise Problem(
                    f"{final} is missing, and so is {staged}, from which it was to be made",
                    "Somebody removed it while its batch was being published. Restore one of the "
                    f"two, or give its rows up: take it out of its manifest in {self._notes}.",
                ) from None

    def _sync(self, paths: Iterable[str]) -> None:
        # The folders above too: one that was interrupted may have made them and not synced them.
        folders = {os.path.join(*parts) for path in paths for parts in _folders(path)} | {""}
        for folder in sorted(folders, reverse=True):
            disk.sync_folder(self._path(folder))

    def _mark_done(self, batch: int) -> None:
        try:
            disk.move(self._note(batch, PUBLISHING), self._note(batch, DONE))
        except FileNotFoundError:
            # Somebody else came to the same end.
            if not os.path.exists(self._note(batch, DONE)):
                raise

    def _clean(self, manifest: Manifest) -> None:
        for attempt in {move.staged.split(os.sep)[3] for move in manifest.moves}:
            disk.remove_folder(os.path.join(self._staging, attempt))
        old = sorted(self._batches(DONE))[:-DONE_KEPT]
        disk.remove(self._note(batch, DONE) for batch in old)

    def _batches(self, ending: str) -> list[int]:
        try:
            names = os.listdir(self._notes)
        except FileNotFoundError:
            return []
        return [int(name.removesuffix(ending)) for name in names if name.endswith(ending)]

    def _note(self, batch: int, ending: str) -> str:
        return os.path.join(self._notes, f"{batch:08d}{ending}")

    def _path(self, inside: str) -> str:
        return os.path.join(self.lake, inside)


def publications(lake: str) -> list[Publication]:
    """Those of every writer that this lake remembers."""
    try:
        writers = os.listdir(os.path.join(lake, HIDDEN, "writers"))
    except FileNotFoundError:
        return []
    return [Publication(lake, writer) for writer in sorted(writers)]


def lock_of(lake: str) -> str:
    """The file whose lock is held by who changes the names of a lake, for no longer than that."""
    return os.path.join(lake, HIDDEN, "lock")


def _folders(path: str) -> Iterator[tuple[str, ...]]:
    parts = path.split(os.sep)[:-1]
    for end in range(1, len(parts) + 1):
        yield tuple(parts[:end])


def file_name(text: str) -> str:
    """A text as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)

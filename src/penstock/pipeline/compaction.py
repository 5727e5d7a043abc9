"""Few large files in place of many small ones, while readers and pipelines go on.

Needs no Spark: files of a folder are read and written through pyarrow, one group at a time, and
`lake_swap` puts the result in their place. Iceberg's tables are left to `compaction_iceberg`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks import lake_disk as disk
from penstock.pipeline.sinks import lake_swap
from penstock.pipeline.sinks.lake_publication import HIDDEN, publications

SUFFIX = ".parquet"
FULL_SHARE = 0.75
"""A file of at least so much of the target is large enough to be left alone."""
READ_ROWS_MAX = 64 * 1024
GROUP_BYTES = 128 << 20
"""Rows of so many bytes, unpacked, make a row group: readers skip or take one as a whole."""
LISTING_SECONDS = 2.0
"""A reader that has just opened a folder lists the one that was swapped out: it stays so long."""


@dataclass(frozen=True, slots=True)
class Small:
    """A file that might be joined with others."""

    name: str
    bytes: int
    changed: float


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one folder that become one."""

    folder: str
    """Relative to the lake; empty for the lake itself."""
    files: tuple[Small, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Gain:
    """What a compaction did, or would do."""

    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def document(self) -> dict[str, int]:
        """For programs."""
        return asdict(self)

    def __add__(self, other: Gain) -> Gain:
        return Gain(
            self.files_before + other.files_before,
            self.files_after + other.files_after,
            self.bytes_before + other.bytes_before,
            self.bytes_after + other.bytes_after,
        )


def plan_groups(
    folder: str, files: Sequence[Small], *, target: int, changed_before: float
) -> list[Group]:
    """Which files of a folder to join: old and small ones, oldest first, up to the target."""
    small = sorted(
        (f for f in files if f.bytes < target * FULL_SHARE and f.changed < changed_before),
        key=lambda file: (file.changed, file.name),
    )
    groups: list[list[Small]] = []
    room = 0
    for file in small:
        if not groups or file.bytes > room:
            groups.append([])
            room = target
        groups[-1].append(file)
        room -= file.bytes
    return [Group(folder, tuple(group)) for group in groups if len(group) > 1]


def plan_lake(lake: str, *, target: int, older_than: float) -> list[Group]:
    """All groups of a lake: files older than `older_than` seconds, whose batch is published."""
    if not os.path.isdir(os.path.join(lake, HIDDEN)):
        raise Problem(
            f"{lake} is no lake of a pipeline: it has no {HIDDEN}",
            "Compaction has to know of batches that are being published. Name the folder that "
            "the sink writes to, after it has run once.",
        )
    due = time.time() - older_than
    unfinished = {final for each in publications(lake) for final in each.unfinished()}
    groups: list[Group] = []
    for folder, files in _folders(lake):
        settled = [f for f in files if os.path.join(folder, f.name) not in unfinished]
        groups += plan_groups(folder, settled, target=target, changed_before=due)
    return groups


def compact_lake(
    lake: str,
    groups: Sequence[Group],
    *,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> Gain:
    """Join the files of each group; `progress` is told how many bytes were joined."""
    if dry_run:
        return sum((_expected(group) for group in groups), Gain())
    disk.make_folder(lake_swap.compaction_folder(lake))
    with disk.locked(lake_swap.run_lock_of(lake), wait=False) as free:
        if not free:
            raise Problem(f"{lake} is being compacted already", "Wait for the other one to end.")
        lake_swap.recover_swaps(lake)
        try:
            return _compact_all(lake, groups, progress)
        except OSError as failure:
            raise Problem(
                f"{lake} could not be compacted: {failure}",
                "What was joined so far counts, the rest is as it was. Make room, or see who may "
                "write there.",
            ) from failure


def _compact_all(lake: str, groups: Sequence[Group], progress: Callable[[int], None]) -> Gain:
    gain = Gain()
    swapped: list[tuple[float, str]] = []
    for group in groups:
        if _still_there(lake, group):
            one, id = _compact(lake, group)
            gain += one
            swapped.append((time.monotonic(), id))
        progress(group.bytes)
        _forget(lake, swapped, wait=False)
    _forget(lake, swapped, wait=True)
    return gain


def _folders(lake: str) -> Iterator[tuple[str, list[Small]]]:
    """Every folder of the lake with its files, those that are hidden left out."""
    for path, inner, names in os.walk(lake):
        inner[:] = sorted(name for name in inner if name[0] not in "_.")
        files = []
        for name in names:
            if name.endswith(SUFFIX) and name[0] not in "_.":
                found = os.stat(os.path.join(path, name))
                files.append(Small(name, found.st_size, found.st_mtime))
        folder = os.path.relpath(path, lake)
        yield "" if folder == os.curdir else folder, files


def _still_there(lake: str, group: Group) -> bool:
    """Whether nobody, such as one that ended just before us, has joined the files meanwhile."""
    return all(os.path.exists(os.path.join(lake, group.folder, f.name)) for f in group.files)


def _expected(group: Group) -> Gain:
    return Gain(len(group.files), 1, group.bytes, group.bytes)


def _forget(lake: str, swapped: list[tuple[float, str]], *, wait: bool) -> None:
    """Remove folders that were swapped out long enough ago."""
    while swapped:
        at, id = swapped[0]
        left = at + LISTING_SECONDS - time.monotonic()
        if left > 0 and not wait:
            return
        time.sleep(max(0.0, left))
        lake_swap.forget(lake, id)
        del swapped[0]


def _compact(lake: str, group: Group) -> tuple[Gain, str]:
    names = [file.name for file in group.files]
    ending = _ending(names[0])
    swap = lake_swap.new_swap(lake, group.folder, names, ending)
    made = os.path.join(lake_swap.aside(lake, swap.id), swap.new)
    _join([os.path.join(lake, group.folder, name) for name in names], made)
    size = os.path.getsize(made)
    lake_swap.run(lake, swap)
    return Gain(len(names), 1, group.bytes, size), swap.id


def _ending(name: str) -> str:
    """How a file is packed stands in its name, for people."""
    packed = name.removesuffix(SUFFIX).rpartition(".")[2]
    return f".{packed}{SUFFIX}" if packed in _CODECS else SUFFIX


_CODECS = ("none", "snappy", "zstd", "lz4", "gzip")


def _join(paths: Sequence[str], made: str) -> None:
    """Write the rows of several files to one: a column that some lack is null there."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    files = [pq.ParquetFile(path) for path in paths]
    try:
        schema = _united([file.schema_arrow for file in files])
        first = files[0].metadata
        packed = first.row_group(0).column(0).compression if first.num_row_groups else "ZSTD"
        with pq.ParquetWriter(
            made,
            schema,
            compression="none" if packed == "UNCOMPRESSED" else packed,
            store_decimal_as_integer=True,
        ) as writer:
            for part in _parts(files, schema):
                writer.write_table(part, row_group_size=part.num_rows)
    finally:
        for file in files:
            file.close()
    wanted = sum(file.metadata.num_rows for file in files)
    found = pq.read_metadata(made).num_rows
    if found != wanted:
        raise Problem(
            f"{made} has {found} rows instead of {wanted}", "Nothing was changed; see the disk."
        )


def _parts(files: Sequence[Any], schema: Any) -> Iterator[Any]:
    """The rows of all files in pieces that are large enough for a row group each."""
    import pyarrow as pa

    held: list[Any] = []
    for file in files:
        for batch in file.iter_batches(READ_ROWS_MAX):
            held.append(_fitted(pa.Table.from_batches([batch]), schema))
            if sum(table.nbytes for table in held) >= GROUP_BYTES:
                yield pa.concat_tables(held)
                held = []
    if held:
        yield pa.concat_tables(held)


def _united(schemas: Sequence[Any]) -> Any:
    import pyarrow as pa

    try:
        united = pa.unify_schemas(schemas)
    except pa.ArrowInvalid as differing:
        raise Problem(
            f"files of one folder do not fit together: {differing}",
            "They were written with another type for a column; move them apart.",
        ) from differing
    # Spark keeps its own description of the columns: the widest one describes all.
    widest = max(schemas, key=len)
    return united.with_metadata(widest.metadata)


def _fitted(table: Any, schema: Any) -> Any:
    import pyarrow as pa

    columns = [
        table.column(field.name)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)

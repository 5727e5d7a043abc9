"""All logs of a node, in all its directories.

`open` takes the directories and loads what is in them; `create`, `get` and `delete` follow the
metadata; passes that the server drives keep checkpoints and retention going; `close` leaves a
marker that spares the next start the recovery. One failing directory takes its own logs with it
and no others.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator, Sequence

from penstock.model.ids import ZERO_UUID, TopicPartition
from penstock.model.invariants import invariant
from penstock.platform.chance import Chance, SystemChance
from penstock.platform.clock import Clock, SystemClock
from penstock.platform.disk import Disk, File
from penstock.storage import checkpoints, names
from penstock.storage.context import PRODUCER_EXPIRATION_MS, LogContext
from penstock.storage.loading import ConfigOf, load_directory
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import LogDirectory
from penstock.storage.log_sync import mark_synced
from penstock.storage.moves import LogMove, first_offset
from penstock.storage.retention import retain
from penstock.storage.segment import CorruptSegment, Segment

logger = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT)
SYNC_ALL_FROM = 64  # logs: fewer are synced one by one, which leaves other people's files alone
RECOVERY_THREADS = 2  # Kafka's num.recovery.threads.per.data.dir


class NoDirectory(OSError):
    """No log directory is online, or not the one that was asked for."""


class LogStore:
    """The logs of one node. Used on the event loop's thread, except where a method says so."""

    def __init__(
        self,
        directories: Sequence[str],
        *,
        node_id: int,
        cluster_id: str,
        disk: Disk | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        recovery_threads: int = RECOVERY_THREADS,
    ) -> None:
        self.disk = disk or Disk()
        self.clock = clock or SystemClock()
        self.chance = chance or SystemChance()
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.context = LogContext(
            self.disk, chance=self.chance, producer_expiration_ms=producer_expiration_ms
        )
        self.context.on_fault = self._on_fault
        self.context.on_truncate = self._on_truncate
        paths = dict.fromkeys(os.path.abspath(path) for path in directories)
        self.directories = [LogDirectory(self.disk, path) for path in paths]
        self.logs: dict[TopicPartition, Log] = {}
        self.moves: dict[TopicPartition, LogMove] = {}
        """Logs on their way to another directory; after a start, those that were under way."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As the checkpoints said at the start, for partitions that are about to begin."""
        self.clean_broker_epoch: int | None = None
        """The broker epoch of the last stop if all directories were closed cleanly, else None."""
        self.on_offline: Callable[[LogDirectory, list[TopicPartition]], None] = lambda *_: None
        """Called when a directory failed, with the partitions that are gone with it."""
        self.gives_way: Callable[[LogDirectory], bool] = lambda _: False
        """Asked when a directory is full: whether other nodes can take over what lies in it."""
        self._recovery_threads = recovery_threads
        self._grown: dict[File, int] = {}
        """Files with blocks set aside, and their sizes when they were last looked at."""

    # ── starting ────────────────────────────────────────────────────────────────────────────────

    def open(self, config_of: ConfigOf | None = None) -> None:
        """Take the directories and load all logs. `config_of` answers a topic's configuration."""
        self.take()
        self.load(config_of)

    def take(self) -> None:
        """Lock the directories, check whose they are, and note how the last stop went.

        DirectoryInUse and WrongDirectory are for the operator to solve; a directory whose disk
        fails goes offline, as long as another one works.
        """
        self.disk.adopt()  # whoever takes the directories is the one to use the files
        epochs = []
        taken: list[LogDirectory] = []
        for directory in self.directories:
            try:
                directory.open(self.node_id, self.cluster_id, self.chance)
                taken.append(directory)
                epoch = checkpoints.take_clean_shutdown(self.disk, directory.path)
            except (OSError, ValueError) as error:
                if not isinstance(error, OSError) or error.errno == errno.EBUSY:
                    for each in taken:
                        each.unlock()
                    raise
                self._fail(directory, error)
                continue
            directory.was_clean = epoch is not None
            epochs.append(epoch)
        if not epochs:
            first = self.directories[0]
            raise NoDirectory(errno.EIO, f"no log directory works: {first.error}", first.path)
        clean = [epoch for epoch in epochs if epoch is not None]
        self.clean_broker_epoch = clean[0] if len(clean) == len(epochs) else None

    def load(self, config_of: ConfigOf | None = None) -> None:
        """Load every log there is. Blocks until all are recovered."""
        default = LogConfig()
        configs = config_of or (lambda _: default)
        copies: list[tuple[LogDirectory, Log]] = []
        for directory in self.directories:
            if not directory.online:
                continue
            try:
                loaded = load_directory(
                    self.context, directory, configs, self._recovery_threads, self.clock.now()
                )
                self.high_watermarks.update(loaded.high_watermarks)
                for log in loaded.logs:
                    if log.directory.endswith(names.FUTURE_DIRECTORY):
                        copies.append((directory, log))
                    else:
                        self._keep(log)
            except OSError as error:
                self._fail(directory, error)
        for directory, copy in copies:
            self._resume_move(directory, copy)

    def _keep(self, log: Log) -> None:
        """Take a loaded log. Of two, left by a crash in the middle of a move, the longer one."""
        other = self.logs.get(log.topic_partition)
        if other is not None:
            shorter, log = sorted((log, other), key=lambda each: each.end)
            logger.warning("two logs of %s: setting %s aside", log, shorter.directory)
            self._set_aside(shorter)
        self.logs[log.topic_partition] = log

    # ── moves ───────────────────────────────────────────────────────────────────────────────────

    def begin_move(self, partition: TopicPartition, target: LogDirectory) -> LogMove:
        """Start copying a log to another directory; see `moves.carry_out`."""
        source = self.logs[partition]
        invariant(partition not in self.moves, f"{partition} is being moved already")
        invariant(self.directory_of(source) is not target, f"{partition} is there already")
        name = names.marked_name(partition, self.chance.uuid().hex(), names.FUTURE_DIRECTORY)
        copy = self._make_log(
            target, name, partition, source.topic_id, source.config, start=first_offset(source)
        )
        move = self.moves[partition] = LogMove(self, source, copy, target)
        return move

    def _resume_move(self, target: LogDirectory, copy: Log) -> None:
        source = self.logs.get(copy.topic_partition)
        if source is not None and self.directory_of(source) is not target:
            self.moves[copy.topic_partition] = LogMove(self, source, copy, target)
        elif all(each.online for each in self.directories):  # else it may only be away
            logger.warning("%s is the copy of a log that is gone: deleting it", copy.directory)
            self._delete(copy)

    def replace(self, source: Log, copy: Log) -> None:
        """`copy` has the final name: use it from now on."""
        del self.moves[source.topic_partition]
        self.logs[source.topic_partition] = copy
        source.abandon()

    def retire(self, source: Log) -> None:
        """The log that took the place of `source` has a durable name: delete the old one."""
        self._delete(source)

    def discard_copy(self, move: LogMove) -> None:
        """A move was given up."""
        if self.moves.pop(move.source.topic_partition, None) is move and move.target.online:
            try:
                self._delete(move.copy)
            except OSError as error:  # the next start finds it; whoever gives up has other worries
                logger.error("%s stays: %s", move.copy.directory, error)

    # ── logs come and go ────────────────────────────────────────────────────────────────────────

    def get(self, topic: str, partition: int) -> Log | None:
        return self.logs.get(TopicPartition(topic, partition))

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        directory_id: bytes | None = None,
    ) -> Log:
        """An empty log, in the directory with the fewest logs unless one is named.

        Its names become durable with the first `sync`: before that nothing was promised.
        """
        key = TopicPartition(topic, partition)
        invariant(key not in self.logs, f"the log of {key} exists already")
        directory = self._directory_for(directory_id)
        self.forget_namesake(directory, key)
        log = self.logs[key] = self._make_log(directory, str(key), key, topic_id, config, start=0)
        return log

    def _make_log(
        self,
        directory: LogDirectory,
        name: str,
        partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        *,
        start: int,
    ) -> Log:
        path = f"{directory.path}/{name}"
        if self.disk.exists(path):  # a namesake that could not be renamed: not ours to write over
            raise FileExistsError(errno.EEXIST, "another log has this name still", path)
        try:
            self.disk.mkdir(path)
            segment = Segment.create(self.disk, path, start, self.clock.now())
            metadata = checkpoints.format_partition_metadata(topic_id)
            self.disk.write_at(f"{path}/{names.PARTITION_METADATA}", metadata.encode(), 0)
        except OSError as error:
            self.disk.remove_tree(path)
            self._report(directory, error)
            raise
        return Log(
            self.context,
            partition,
            topic_id,
            path,
            config,
            [segment],
            start=start,
            end=start,
            recovery_point=start,
        )

    def _directory_for(self, directory_id: bytes | None) -> LogDirectory:
        online = [each for each in self.directories if each.online]
        if directory_id is not None and directory_id != ZERO_UUID:
            online = [each for each in online if each.uuid == directory_id]
        if not online:
            raise NoDirectory(errno.EIO, "no such log directory is online")
        if len(online) == 1:
            return online[0]
        counts = dict.fromkeys((each.path for each in online), 0)
        for log in self.logs.values():
            where = os.path.dirname(log.directory)
            if where in counts:
                counts[where] += 1
        return min(online, key=lambda each: counts[each.path])

    def directory_of(self, log: Log) -> LogDirectory:
        """Where one of the store's logs lives."""
        path = os.path.dirname(log.directory)
        return next(each for each in self.directories if each.path == path)

    def delete(self, partition: TopicPartition) -> None:
        """Drop a log: renamed at once, so that it never comes back; its files go after a delay."""
        self._cancel_move(partition)
        self._delete(self.logs.pop(partition))

    def _cancel_move(self, partition: TopicPartition) -> None:
        move = self.moves.get(partition)
        if move is not None:
            move.cancel()

    def _delete(self, log: Log) -> None:
        """Readers that hold a slice may finish until the delay is over."""
        for segment in log.segments:
            self.context.indexes.forget(segment)
        self._rename_away(log, names.DELETE_DIRECTORY)
        due = self.clock.now() + log.config.file_delete_delay_ms
        self.context.trash.add(due, [log.directory], list(log.segments))

    def set_aside(self, partition: TopicPartition) -> None:
        """Rename a log that the metadata does not know to `-stray`: neither served nor deleted."""
        self._cancel_move(partition)
        self._set_aside(self.logs.pop(partition))

    def _set_aside(self, log: Log) -> None:
        log.abandon()
        self._rename_away(log, names.STRAY_DIRECTORY)

    def _rename_away(self, log: Log, mark: str) -> None:
        name = names.marked_name(log.topic_partition, self.chance.uuid().hex(), mark)
        directory = self.directory_of(log)
        try:
            log.rename_directory(f"{directory.path}/{name}")
        except OSError as error:
            log.abandon()
            self._report(directory, error)
            raise

    # ── passes ──────────────────────────────────────────────────────────────────────────────────

    def retention_pass(self, now: int) -> Iterator[int]:
        """Apply retention log by log, yielding how many segments went: pause between the steps."""
        for log in list(self.logs.values()):
            try:
                yield retain(log, now)
            except CorruptSegment as error:
                logger.error("retention skips %s: %s", log, error)
            except OSError as error:
                self._on_fault(log, error)

    def flush_due(self, now: int) -> list[Log]:
        """Logs whose flush.ms has passed with something unsynced: hand them to a `GroupCommit`."""
        due = []
        for log in self.logs.values():
            if log.end > log.recovery_point and now - log.last_flush >= log.config.flush_ms:
                log.last_flush = now
                due.append(log)
        return due

    def trim_quiet(self) -> None:
        """Give the blocks back that logs have set aside without using any since the last call."""
        before, self._grown = self._grown, {}
        for log in list(self.logs.values()):
            file = log.active.file
            if not file.has_spare:
                continue
            if before.get(file) != file.size:
                self._grown[file] = file.size
                continue
            try:
                file.trim()
            except OSError as problem:
                self.context.on_fault(log, problem)

    def take_trash(self, now: int) -> Callable[[], None] | None:
        """Work for a worker: remove files whose delay is over. None if there are none."""
        paths = self.context.trash.take_due(now)
        return (lambda: self.context.trash.remove(paths)) if paths else None

    def expire_producers(self, now: int) -> int:
        """Forget idempotent producers that were silent for producer.id.expiration.ms."""
        limit = self.context.producer_expiration_ms
        return sum(
            log.producers.expire(now, limit) for log in self.logs.values() if len(log.producers)
        )

    def checkpoint_work(self) -> list[tuple[LogDirectory, Callable[[], None]]]:
        """Work for workers: write recovery points and log starts of each directory.

        Offsets are taken now, on the event loop. If one raises OSError, call `checkpoint_failed`.
        """
        return [
            *self._offset_work(checkpoints.RECOVERY_POINTS, _point_to_keep),
            *self._offset_work(checkpoints.LOG_STARTS, _start_to_keep),
        ]

    def high_watermark_work(self) -> list[tuple[LogDirectory, Callable[[], None]]]:
        """Work for workers: write the high watermarks of each directory."""
        return self._offset_work(checkpoints.HIGH_WATERMARKS, lambda log: log.high_watermark)

    def _on_truncate(self, log: Log) -> None:
        """Lower the checkpoints of the log's directory, here and now: see `LogContext`."""
        if self._owns(log):
            self._checkpoint_now(self.directory_of(log), self.checkpoint_work())

    def forget_namesake(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """A log is about to get a name in `directory`: let no checkpoint there speak of another.

        A log start or a recovery point of a log that was deleted, or moved away, would be taken
        for the new one's after a crash, and cost it all that lies below.
        """
        if directory.may_speak_of(partition):
            work = [*self.checkpoint_work(), *self.high_watermark_work()]
            self._checkpoint_now(directory, work)

    def _checkpoint_now(
        self, here: LogDirectory, work: list[tuple[LogDirectory, Callable[[], None]]]
    ) -> None:
        try:
            for directory, write in work:
                if directory is here:
                    write()
        except OSError as error:
            self._report(here, error)
            raise

    def _offset_work(
        self, name: str, offset_of: Callable[[Log], int | None]
    ) -> list[tuple[LogDirectory, Callable[[], None]]]:
        offsets: dict[str, dict[TopicPartition, int]] = {}
        for partition, log in self.logs.items():
            offset = offset_of(log)
            if offset is not None:
                offsets.setdefault(os.path.dirname(log.directory), {})[partition] = offset
        return [
            (directory, directory.offsets_writer(name, offsets.get(directory.path, {})))
            for directory in self.directories
            if directory.online
        ]

    def checkpoint_pass(self) -> None:
        """Write all checkpoints here and now. Blocking: for the end, and for tests."""
        for directory, write in [*self.checkpoint_work(), *self.high_watermark_work()]:
            try:
                write()
            except OSError as error:
                self.fail_directory(directory, error)

    # ── failing ─────────────────────────────────────────────────────────────────────────────────

    def _on_fault(self, log: Log, error: OSError) -> None:
        if self._owns(log):
            self._report(self.directory_of(log), error)

    def _owns(self, log: Log) -> bool:
        """Whether it is in use: neither deleted meanwhile, nor the metadata quorum's."""
        key = log.topic_partition
        return self.logs.get(key) is log or (key in self.moves and self.moves[key].copy is log)

    def _report(self, directory: LogDirectory, error: OSError) -> None:
        """A full disk may have room again, and is waited for where nobody else could take over; any
        other failure takes the directory down."""
        if error.errno in FULL and not self.gives_way(directory):
            logger.error("%s is full: %s", directory.path, error)
        else:
            self.fail_directory(directory, error)

    def sync_failed(self, log: Log, error: OSError) -> None:
        """For `GroupCommit`: after a failed fsync nobody knows what is durable, so all of it goes.

        Whatever the error, ENOSPC included: the kernel may have dropped the pages.
        """
        if self._owns(log):
            self.fail_directory(self.directory_of(log), error)

    def checkpoint_failed(self, directory: LogDirectory, error: OSError) -> None:
        """For whoever does checkpoint work. The old checkpoint is whole: a full disk may wait."""
        self._report(directory, error)

    def fail_directory(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline, with all its logs. It stays so until the node restarts."""
        if not directory.online:
            return
        self._fail(directory, error)
        prefix = directory.path + "/"
        for move in list(self.moves.values()):
            if move.target is directory or move.source.directory.startswith(prefix):
                move.cancel()
        gone = [key for key, log in self.logs.items() if log.directory.startswith(prefix)]
        for key in gone:
            self.logs.pop(key).abandon()
        self.on_offline(directory, gone)

    def _fail(self, directory: LogDirectory, error: OSError) -> None:
        logger.error("log directory %s goes offline: %s", directory.path, error)
        directory.fail(error)

    # ── stopping ────────────────────────────────────────────────────────────────────────────────

    def close(self, clean: bool = True, broker_epoch: int = checkpoints.NO_BROKER_EPOCH) -> None:
        """Close all logs. Clean: everything is written and synced, and then said to be so.

        The marker comes last, after every file it vouches for is durable.
        """
        if clean:
            self._settle_all()
            self.checkpoint_pass()
        for log in [*self.logs.values(), *(move.copy for move in self.moves.values())]:
            log.abandon()
        self.context.trash.close()
        for directory in self.directories:
            if clean and directory.online:
                try:
                    checkpoints.write_clean_shutdown(self.disk, directory.path, broker_epoch)
                except OSError as error:
                    self._fail(directory, error)
            directory.unlock()
        self.logs.clear()
        self.moves.clear()

    def _settle_all(self) -> None:
        """Write and sync every log."""
        logs = list(self.logs.values())
        for log in logs:
            if not self._owns(log):
                continue  # it went with its directory
            try:
                log.settle()
            except OSError as error:  # a full disk too: what is missing must not be vouched for
                self.fail_directory(self.directory_of(log), error)
        for directory in self.directories:
            if directory.online:
                here = [log for log in logs if self.directory_of(log) is directory]
                self._sync_closing(directory, [log for log in here if not log.is_synced])

    def _sync_closing(self, directory: LogDirectory, logs: list[Log]) -> None:
        """Sync a few logs one by one, and many with one call for the whole file system."""
        try:
            if len(logs) > SYNC_ALL_FROM and directory.sync_all():
                for log in logs:
                    mark_synced(log)
            for log in logs:
                if not log.is_synced:
                    log.sync(closing=True)
        except OSError as error:
            self.fail_directory(directory, error)


def _point_to_keep(log: Log) -> int:
    log.point_kept = log.recovery_point
    return log.recovery_point


def _start_to_keep(log: Log) -> int | None:
    """A log that begins where its first segment does needs no checkpoint of its start."""
    return log.start if log.start > log.segments[0].base else None

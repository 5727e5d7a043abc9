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
from concurrent.futures import ThreadPoolExecutor

from penstock.model.ids import ZERO_UUID, TopicPartition
from penstock.model.invariants import invariant
from penstock.platform.chance import Chance, SystemChance
from penstock.platform.clock import Clock, SystemClock
from penstock.platform.disk import Disk
from penstock.storage import checkpoints, names
from penstock.storage.context import PRODUCER_EXPIRATION_MS, LogContext
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import LogDirectory
from penstock.storage.log_sync import mark_synced
from penstock.storage.recovery import load_log
from penstock.storage.retention import retain
from penstock.storage.segment import CorruptSegment, Segment

logger = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT)
SYNC_ALL_FROM = 64  # logs: fewer are synced one by one, which leaves other people's files alone
RECOVERY_THREADS = 2  # Kafka's num.recovery.threads.per.data.dir

ConfigOf = Callable[[str], LogConfig]


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
        paths = dict.fromkeys(os.path.abspath(path) for path in directories)
        self.directories = [LogDirectory(self.disk, path) for path in paths]
        self.logs: dict[TopicPartition, Log] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As the checkpoints said at the start, for partitions that are about to begin."""
        self.clean_broker_epoch: int | None = None
        """The broker epoch of the last stop if all directories were closed cleanly, else None."""
        self.on_offline: Callable[[LogDirectory, list[TopicPartition]], None] = lambda *_: None
        """Called when a directory failed, with the partitions that are gone with it."""
        self._recovery_threads = recovery_threads

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
        for directory in self.directories:
            if not directory.online:
                continue
            try:
                for log in self._load_directory(directory, configs):
                    self.logs[log.topic_partition] = log
            except OSError as error:
                self._fail(directory, error)

    def _load_directory(self, directory: LogDirectory, config_of: ConfigOf) -> list[Log]:
        path = directory.path
        points = checkpoints.read_offsets(self.disk, path, checkpoints.RECOVERY_POINTS)
        starts = checkpoints.read_offsets(self.disk, path, checkpoints.LOG_STARTS)
        watermarks = checkpoints.read_offsets(self.disk, path, checkpoints.HIGH_WATERMARKS)
        self.high_watermarks.update(watermarks)
        now = self.clock.now()

        def load(partition: TopicPartition) -> Log:
            where = f"{path}/{partition}"
            log = load_log(
                self.context,
                partition,
                checkpoints.read_topic_id(self.disk, where) or ZERO_UUID,
                where,
                config_of(partition.topic),
                clean=directory.was_clean,
                recovery_point=points.get(partition, 0),
                start=starts.get(partition, 0),
                now=now,
            )
            watermark = watermarks.get(partition, log.start)
            log.high_watermark = min(max(watermark, log.start), log.end)
            return log

        partitions = self._partitions_in(path)
        if len(partitions) < 64 or self._recovery_threads < 2:
            return [load(partition) for partition in partitions]
        with ThreadPoolExecutor(self._recovery_threads) as threads:
            return list(threads.map(load, partitions))

    def _partitions_in(self, path: str) -> list[TopicPartition]:
        """The partitions whose logs live here. Logs that were on their way out are removed."""
        found = []
        for name in self.disk.list_directories(path):
            partition = names.partition_of(name)
            if partition is not None and partition.topic != names.METADATA_TOPIC:
                if partition in self.logs:
                    raise NoDirectory(errno.EEXIST, f"a second log of {partition}", path)
                found.append(partition)
            elif name.endswith(names.DELETE_DIRECTORY):
                self.context.trash.add(0, [os.path.join(path, name)], [])
        return found

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
        path = f"{directory.path}/{key}"
        now = self.clock.now()
        try:
            self.disk.mkdir(path)
            segment = Segment.create(self.disk, path, 0, now)
            metadata = checkpoints.format_partition_metadata(topic_id)
            self.disk.write_at(f"{path}/{names.PARTITION_METADATA}", metadata.encode(), 0)
        except OSError as error:
            self.disk.remove_tree(path)
            self._report(directory, error)
            raise
        log = Log(
            self.context, key, topic_id, path, config, [segment], start=0, end=0, recovery_point=0
        )
        self.logs[key] = log
        return log

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
        log = self._rename_away(partition, names.DELETE_DIRECTORY)
        due = self.clock.now() + log.config.file_delete_delay_ms
        self.context.trash.add(due, [log.directory], [])

    def set_aside(self, partition: TopicPartition) -> None:
        """Rename a log that the metadata does not know to `-stray`: neither served nor deleted."""
        self._rename_away(partition, names.STRAY_DIRECTORY)

    def _rename_away(self, partition: TopicPartition, mark: str) -> Log:
        log = self.logs[partition]
        log.abandon()
        name = names.marked_name(partition, self.chance.uuid().hex(), mark)
        path = f"{os.path.dirname(log.directory)}/{name}"
        try:
            self.disk.rename(log.directory, path)
        except OSError as error:
            self._on_fault(log, error)
            raise
        del self.logs[partition]
        log.directory = path
        return log

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

        Offsets are taken now, on the event loop. If one raises OSError, call `fail_directory`.
        """
        return [
            *self._offset_work(checkpoints.RECOVERY_POINTS, lambda log: log.recovery_point),
            *self._offset_work(checkpoints.LOG_STARTS, _start_to_keep),
        ]

    def high_watermark_work(self) -> list[tuple[LogDirectory, Callable[[], None]]]:
        """Work for workers: write the high watermarks of each directory."""
        return self._offset_work(checkpoints.HIGH_WATERMARKS, lambda log: log.high_watermark)

    def _offset_work(
        self, name: str, offset_of: Callable[[Log], int | None]
    ) -> list[tuple[LogDirectory, Callable[[], None]]]:
        offsets: dict[str, dict[TopicPartition, int]] = {}
        for partition, log in self.logs.items():
            offset = offset_of(log)
            if offset is not None:
                offsets.setdefault(os.path.dirname(log.directory), {})[partition] = offset
        return [
            (directory, _writer(self.disk, directory.path, name, offsets.get(directory.path, {})))
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
        if self.logs.get(log.topic_partition) is log:  # else it was deleted, or is the quorum's
            self._report(self.directory_of(log), error)

    def _report(self, directory: LogDirectory, error: OSError) -> None:
        """A full disk may have room again; any other failure takes the directory down."""
        if error.errno in FULL:
            logger.error("%s is full: %s", directory.path, error)
        else:
            self.fail_directory(directory, error)

    def sync_failed(self, log: Log, error: OSError) -> None:
        """For `GroupCommit`: after a failed fsync nobody knows what is durable, so all of it goes.

        Whatever the error, ENOSPC included: the kernel may have dropped the pages.
        """
        if self.logs.get(log.topic_partition) is log:
            self.fail_directory(self.directory_of(log), error)

    def fail_directory(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline, with all its logs. It stays so until the node restarts."""
        if not directory.online:
            return
        self._fail(directory, error)
        prefix = directory.path + "/"
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
        for log in self.logs.values():
            log.abandon()
        for directory in self.directories:
            if clean and directory.online:
                try:
                    checkpoints.write_clean_shutdown(self.disk, directory.path, broker_epoch)
                except OSError as error:
                    self._fail(directory, error)
            directory.unlock()
        self.logs.clear()

    def _settle_all(self) -> None:
        """Write and sync every log."""
        logs = list(self.logs.values())
        for log in logs:
            try:
                log.settle()
            except OSError as error:
                self._on_fault(log, error)
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


def _start_to_keep(log: Log) -> int | None:
    """A log that begins where its first segment does needs no checkpoint of its start."""
    return log.start if log.start > log.segments[0].base else None


def _writer(
    disk: Disk, path: str, name: str, offsets: dict[TopicPartition, int]
) -> Callable[[], None]:
    return lambda: checkpoints.write_offsets(disk, path, name, offsets)

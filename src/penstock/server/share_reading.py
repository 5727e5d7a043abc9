"""What a share fetch finds when it looks at its partitions, and what its member gets of it.

Looking and taking are two steps: a fetch that finds fewer bytes than it asked for takes nothing and
waits. Nothing happens between them. What is sent are slices of files, as in a plain fetch; which of
their records count is said beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.share_fetch import AcquiredRecords, PartitionData
from penstock.server.rights import may_topic
from penstock.server.share_expiry import expired_in
from penstock.server.share_spans import batches_in, cut
from penstock.storage.txn_index import CorruptTxnIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.delivery.effects import Span
    from penstock.protocol.generated.share_fetch import ShareFetchRequest
    from penstock.replica.outcomes import Readable
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.share_partition import SharePartition
    from penstock.server.share_sessions import Key, ShareSession
    from penstock.storage.log_slice import LogSlice

ROUNDS_MAX = 16
"""How often one partition is read for one answer: again, where all that was read is hidden."""

RECORD_LIMIT = 1
"""The mode in which no more records are acquired than were asked for."""


class _Found(NamedTuple):
    """What a partition has for whoever comes."""

    key: Key
    driver: SharePartition
    offset: int
    read: Readable
    data: LogSlice


class ShareReading:
    """One share fetch."""

    __slots__ = (
        "_asker",
        "_batch_size",
        "_committed_only",
        "_drivers",
        "_found",
        "_records_max",
        "_sent",
        "_session",
        "_size_max",
        "_strict",
        "answers",
        "broker",
        "call",
        "errors",
        "hasty",
        "lock_ms",
        "size",
        "size_min",
        "wait_ms",
    )

    def __init__(
        self, broker: Broker, call: Call, request: ShareFetchRequest, session: ShareSession
    ) -> None:
        self.broker = broker
        self.call = call
        self._session = session
        self._asker = session.member
        settings = broker.shares.settings(session.member.group_id)
        self._committed_only = settings.committed_only
        self.lock_ms = settings.delivery.lock_ms
        self._size_max = min(request.max_bytes, broker.limits.fetch_bytes_max)
        if call.account is not None:
            self._size_max = min(self._size_max, call.account.fetch_bytes_max(call))
        self._records_max = request.max_records
        self._batch_size = request.batch_size
        self._strict = request.share_acquire_mode == RECORD_LIMIT
        self._drivers: dict[Key, SharePartition] = {}
        self._found: list[_Found] = []
        self._sent = 0
        self.size = 0
        """Bytes that there are to read."""
        self.size_min = min(request.min_bytes, self._size_max)
        """With fewer, it waits."""
        self.errors: dict[Key, ErrorCode] = {}
        self.answers: dict[Key, PartitionData] = {}
        self.wait_ms = 0
        """How long a quota has the member wait."""
        self.hasty = False
        """Whether there may be more right behind what was looked at."""

    @property
    def has_news(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.answers or self.errors or self.wait_ms)

    # -- looking --------------------------------------------------------------------------------

    def look(self) -> None:
        """See what each partition has, and take nothing."""
        self.size = 0
        self.errors = {}
        self._found = []
        for key in self._session.partitions:
            driver = self._driver(key)
            if isinstance(driver, ErrorCode):
                self.errors[key] = driver
            else:
                self._look(key, driver)
                if self.size >= self._size_max:
                    break  # those behind come first next time

    @property
    def partitions(self) -> Iterable[SharePartition]:
        """Those that may have something."""
        return self._drivers.values()

    def _driver(self, key: Key) -> SharePartition | ErrorCode:
        topic = self.broker.image.topics.by_id.get(key[0])
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        # Whenever it looks: rights that are withdrawn while a fetch is parked are gone then.
        if self.broker.authorizer is not None and not self._may_read(topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        driver = self._drivers.get(key)
        if driver is None:
            made = self.broker.shares.partitions.find_or_make(self._asker.group_id, key)
            if isinstance(made, ErrorCode):
                return made
            driver = self._drivers[key] = made
        return driver.error or driver

    def _may_read(self, topic: str) -> bool:
        return may_topic(self.broker, self.call, Operation.READ, topic)

    def _look(self, key: Key, driver: SharePartition) -> None:
        offset = driver.next_offset()
        if offset is None:
            return
        read = self._read(driver.partition, offset)
        if isinstance(read, ErrorCode):
            self.errors[key] = read
        elif read is not None and read.data is not None:
            self.size += read.data.size
            self._found.append(_Found(key, driver, offset, read, read.data))

    def _read(self, partition: Partition, offset: int) -> Readable | ErrorCode | None:
        size_max = self._size_max - self.size
        read = partition.read(offset, size_max, self.size == 0, self._committed_only)
        if read is ErrorCode.OFFSET_OUT_OF_RANGE:
            # Its beginning was heeded before: the log was cut off at its end, and grows again.
            return None
        return read

    # -- taking ---------------------------------------------------------------------------------

    def take(self) -> None:
        """Acquire what was found, as far as the member's limits go."""
        self.answers = {}
        self.hasty = False
        self._sent = 0
        left = self._records_max
        for found in self._found:
            if left <= 0 or self.wait_ms:
                break
            left -= self._take(found, left)

    def _take(self, found: _Found, records_max: int) -> int:
        """How many records of a partition were acquired."""
        for _ in range(ROUNDS_MAX):
            count = self._take_once(found, records_max)
            if count or self.wait_ms or found.key in self.errors:
                return count
            again = self._find_again(found)
            if again is None:
                return 0
            found = again
        self.hasty = True
        return 0

    def _find_again(self, found: _Found) -> _Found | None:
        """What comes after batches of which nothing could be had."""
        offset = found.driver.next_offset()
        if offset is None or offset == found.offset:
            return None
        left = self._size_max - self._sent
        read = found.driver.partition.read(offset, left, not self._sent, self._committed_only)
        if isinstance(read, ErrorCode) or read.data is None:
            return None
        return _Found(found.key, found.driver, offset, read, read.data)

    def _take_once(self, found: _Found, records_max: int) -> int:
        key, driver, offset, read, data = found
        delivery = driver.delivery
        if delivery is None:
            return 0
        count_max = min(records_max, delivery.settings.in_flight_max)
        try:
            aborted = driver.partition.aborted(offset, read) if self._committed_only else ()
            batches = batches_in(data, offset, count_max, aborted)
            expired: list[Span] = []
            if driver.partition.log.config.ttl_enable:
                expired = expired_in(data, batches, self.broker.clock.now())
        except (OSError, CorruptTxnIndex):
            self.errors[key] = ErrorCode.KAFKA_STORAGE_ERROR
            return 0
        if not batches.spans:
            return 0
        account = self.call.account
        if account is not None:
            self.wait_ms = account.hold_back(self.call, 0)
            if self.wait_ms:
                return 0
        acquired = driver.acquire(
            self._asker.member_id,
            offset,
            batches.spans,
            records_max,
            self._batch_size,
            self._strict,
            batches.hidden,
            expired,
        )
        if not acquired:
            return 0
        self._session.send_to_back(key)
        records = cut(data, batches, acquired[0].first, acquired[-1].last)
        self._sent += records.size
        if account is not None:
            account.hold_back(self.call, records.size)  # granted before, whatever it would be
        self.answers[key] = PartitionData(
            partition_index=key[1],
            records=records,
            acquired_records=[
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in acquired
            ],
        )
        return sum(last - first + 1 for first, last, _ in acquired)

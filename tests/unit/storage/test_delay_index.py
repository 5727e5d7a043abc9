"""What an index makes of a log's batches: told batch by batch, as a table of conversations."""

from __future__ import annotations

import pytest

from penstock.records.batch import HEAD, patch_base
from penstock.records.builder import control_batch, end_txn_batch
from penstock.records.control import LEADER_CHANGE
from penstock.records.varint import InvalidRecord
from penstock.storage.delay_batches import (
    CANCELLED,
    DELIVERED,
    MOVED,
    PARKED,
    Row,
    build,
    kind_of,
    read_notice,
    read_rows,
)
from penstock.storage.delay_index import DelayIndex
from penstock.storage.delay_rows import NEVER
from penstock.storage.delay_snapshots import CorruptSnapshot, decode, encode
from tests.unit.storage.logs import NOW, batch

CRC_AT = 17


class Told:
    """An index, and a log's end."""

    def __init__(self) -> None:
        self.index = DelayIndex()
        self.end = 0

    def append(self, data: bytes | bytearray) -> int:
        """The offset at which the batch stands."""
        data = bytearray(data)
        base = self.end
        patch_base(data, 0, base, 0)
        head = HEAD.unpack_from(data)
        self.index.note(head, base, data)
        self.end = base + head[6] + 1
        return base

    def park(self, *dues: int, follows: bool = True, producer_id: int = -1) -> int:
        """Park records with a batch of theirs; the first one's id."""
        rest = batch(
            len(dues),
            value=str(self.end).encode(),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            sequence=0 if producer_id >= 0 else -1,
            transactional=producer_id >= 0,
        )
        target = self.end + 1
        rows = [Row(due, target + n, self.end, 4) for n, due in enumerate(dues)]
        self.append(build(PARKED, rows, [b"body"] * len(rows), NOW, target=target, crc=crc(rest)))
        if follows:
            assert self.append(rest) == target
        return target

    def deliver(self, *rows: Row, follows: bool = True) -> None:
        data = batch(len(rows), value=b"delivered")
        target = self.end + 1
        self.append(build(DELIVERED, rows, (), NOW, target=target, crc=crc(data)))
        if follows:
            self.append(data)

    def end_txn(self, producer_id: int, *, is_commit: bool) -> None:
        self.append(
            end_txn_batch(
                is_commit=is_commit,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=NOW,
            )
        )

    @property
    def waiting(self) -> list[tuple[int, int]]:
        return [(row.due, row.id) for row in self.index.waiting.rows_from(-1)]

    @property
    def rows(self) -> list[Row]:
        return list(self.index.waiting.rows_from(-1))


def crc(data: bytes | bytearray) -> int:
    return int.from_bytes(data[CRC_AT : CRC_AT + 4], "big")


@pytest.fixture
def told() -> Told:
    return Told()


def test_what_is_parked_waits_under_the_offsets_that_its_producer_was_told(told: Told) -> None:
    assert told.park(30, 10, 20) == 1
    assert told.waiting == [(10, 2), (20, 3), (30, 1)]
    assert {row.place for row in told.rows} == {0}
    assert (len(told.index), told.index.earliest) == (3, 10)


def test_parked_records_without_their_batch_do_not_count(told: Told) -> None:
    told.park(10, follows=False)
    told.append(batch())
    assert len(told.index) == 0


def test_who_tries_again_after_a_torn_write_is_not_doubled(told: Told) -> None:
    told.park(10, follows=False)
    again = told.park(10)
    assert told.waiting == [(10, again)]


def test_several_parking_batches_belong_to_one_batch(told: Told) -> None:
    rest = batch(2)
    for number in range(2):
        rows = [Row(50 - number, 2 + number, number, 1)]
        told.append(build(PARKED, rows, [b"x"], NOW, target=2, crc=crc(rest)))
    told.append(rest)
    assert told.waiting == [(49, 3), (50, 2)]
    assert [row.place for row in told.rows] == [1, 0]


def test_what_is_delivered_waits_no_longer(told: Told) -> None:
    told.park(10, 20)
    told.deliver(told.rows[0])
    assert told.waiting == [(20, 2)]


def test_a_delivery_whose_batch_is_not_there_did_not_happen(told: Told) -> None:
    told.park(10)
    told.deliver(told.rows[0], follows=False)
    told.append(batch(value=b"another"))
    assert told.waiting == [(10, 1)]
    told.deliver(told.rows[0])
    assert told.waiting == []


def test_what_is_cancelled_is_gone_and_what_is_unknown_harms_nobody(told: Told) -> None:
    told.park(10, 20)
    told.append(build(CANCELLED, [told.rows[1], Row(99, 99, 99)], (), NOW))
    assert told.waiting == [(10, 1)]


def test_what_is_moved_keeps_its_name_and_its_time_and_has_another_place(told: Told) -> None:
    told.park(10, 20)
    moved = [row._replace(size=4) for row in told.rows]
    place = told.append(build(MOVED, moved, [b"body", b"body"], NOW))
    assert told.rows == [Row(10, 1, place), Row(20, 2, place)]


def test_what_a_log_no_longer_has_can_be_moved_in(told: Told) -> None:
    place = told.append(build(MOVED, [Row(10, 7, 3, 4)], [b"body"], NOW))
    assert told.rows == [Row(10, 7, place)]


def test_a_move_keeps_the_old_place_until_it_is_committed(told: Told) -> None:
    told.append(batch(5))
    told.park(10)
    old = told.rows[0].place
    new = told.append(build(MOVED, told.rows, [b""], NOW))
    assert told.index.floor(high_watermark=new) == old
    assert told.index.floor(high_watermark=new + 1) == new


def test_records_of_a_transaction_wait_for_its_commit(told: Told) -> None:
    told.park(10, producer_id=5)
    told.park(20, producer_id=6)
    assert (told.waiting, len(told.index)) == ([], 2)
    assert told.index.floor(told.end) == 0
    told.end_txn(5, is_commit=True)
    assert told.waiting == [(10, 1)]
    told.end_txn(6, is_commit=False)
    assert len(told.index) == 1
    told.end_txn(6, is_commit=True)  # of its next transaction
    assert told.waiting == [(10, 1)]


def test_what_lies_below_the_logs_start_is_deleted(told: Told) -> None:
    told.park(10)
    told.park(20, producer_id=5)
    kept = told.park(30)
    told.index.drop_below(kept - 1)
    assert told.waiting == [(30, kept)]
    assert told.index.undecided == {}


def test_other_control_batches_are_none_of_its_business(told: Told) -> None:
    data = control_batch([(LEADER_CHANGE, b"xx")], NOW)
    assert kind_of(data) is None
    told.append(data)
    assert len(told.index) == 0
    assert told.index.settled_to is None


def test_a_claim_is_not_settled_before_its_batch(told: Told) -> None:
    told.park(10)
    assert told.index.settled_to is None
    told.park(20, follows=False)
    assert told.index.settled_to == 2
    told.index.forget_claims(2)
    assert told.index.settled_to is None


def test_batches_of_no_or_of_a_later_version_are_left_alone() -> None:
    with pytest.raises(InvalidRecord):
        read_notice(batch())
    data = build(PARKED, [Row(1, 2, 3, 4)], [b"four"], NOW)
    notice = read_notice(data)
    assert read_rows(data, notice) == [Row(1, 2, 3, 4)]
    assert bytes(data[notice.bodies_at :]).startswith(b"four")
    for cut in range(notice.bodies_at):
        with pytest.raises(InvalidRecord):
            read_rows(data[:cut], read_notice(data[:cut]))


def test_a_snapshot_holds_all_of_it(told: Told) -> None:
    told.park(30, 10, 20)
    told.park(15, producer_id=5)
    found = decode(encode(told.index))
    assert list(found.waiting.rows_from(-1)) == told.rows
    assert found.undecided == {5: [Row(15, 5, 4)]}
    empty = decode(encode(DelayIndex()))
    assert (len(empty), empty.earliest) == (0, NEVER)


def test_a_snapshot_that_was_torn_or_changed_is_known_for_it(told: Told) -> None:
    told.park(30, 10, 20)
    data = encode(told.index)
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode(data[:size])
    for at in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])

"""How far growing files have been read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.pipeline.sources import lines, tails
from penstock.pipeline.sources.tails import Lost, Tail


class Follower:
    """A reader that takes batch after batch, its position kept as a checkpoint would keep it."""

    def __init__(self, pattern: Path, bytes_max: int | None = None) -> None:
        self.pattern = str(pattern)
        self.bytes_max = bytes_max
        self.position = json.dumps(tails.dump({}))

    def take(self) -> list[tuple[str, int, bytes]]:
        before = tails.load(json.loads(self.position))
        after = tails.advance(self.pattern, before, self.bytes_max)
        self.position = json.dumps(tails.dump(after))
        return list(read(before, after))

    def texts(self) -> list[bytes]:
        return [text for _, _, text in self.take()]


def read(before: Mapping[str, Tail], after: Mapping[str, Tail]) -> Iterator[tuple[str, int, bytes]]:
    for pieces in tails.pack(tails.ranges(before, after)):
        for piece in pieces:
            with tails.open_tail(piece.tail) as file:
                file.seek(piece.start)
                for batch in lines.read_lines(file, piece.tail.path, piece.first_line, piece.bytes):
                    columns = batch.to_pydict()
                    for name, line, text in zip(
                        columns["_file"], columns["_line"], columns["value"], strict=True
                    ):
                        yield os.path.basename(name), line, text


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def test_each_line_is_taken_once_with_its_file_and_number(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    follower = Follower(tmp_path / "*.log")
    assert follower.take() == []
    append(log, b"one\ntwo\n")
    assert follower.take() == [("a.log", 1, b"one"), ("a.log", 2, b"two")]
    append(log, b"three\n")
    assert follower.take() == [("a.log", 3, b"three")]
    assert follower.take() == []


def test_a_line_is_taken_only_when_its_newline_is_there(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    follower = Follower(log)
    append(log, b"one\nhal")
    assert follower.texts() == [b"one"]
    append(log, b"f\n")
    assert follower.take() == [("a.log", 2, b"half")]


def test_a_renamed_file_is_read_to_its_end_and_the_new_one_from_its_beginning(
    tmp_path: Path,
) -> None:
    log = tmp_path / "a.log"
    follower = Follower(log)
    append(log, b"one\n")
    assert follower.texts() == [b"one"]
    append(log, b"two\n")
    os.rename(log, tmp_path / "a.log.1")
    append(tmp_path / "a.log.1", b"three\n")  # the writer has not noticed yet
    append(log, b"four\n")
    assert sorted(follower.take()) == [
        ("a.log", 1, b"four"),
        ("a.log.1", 2, b"two"),
        ("a.log.1", 3, b"three"),
    ]
    append(tmp_path / "a.log.1", b"five\n")
    assert follower.take() == [("a.log.1", 4, b"five")]


def test_a_renamed_file_that_matches_again_is_not_read_twice(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "a.log*")
    append(tmp_path / "a.log", b"one\n")
    assert follower.texts() == [b"one"]
    os.rename(tmp_path / "a.log", tmp_path / "a.log.1")
    append(tmp_path / "a.log", b"two\n")
    assert follower.texts() == [b"two"]


def test_packed_files_are_left_alone(tmp_path: Path) -> None:
    append(tmp_path / "a.log.2.gz", b"\x1f\x8bnot lines\n")
    assert Follower(tmp_path).take() == []


@pytest.mark.parametrize("again", [b"new\n", b"a much longer beginning than there was before\n"])
def test_a_file_that_was_cut_is_read_from_its_new_beginning(tmp_path: Path, again: bytes) -> None:
    log = tmp_path / "a.log"
    follower = Follower(log)
    append(log, b"one\ntwo\n")
    assert follower.texts() == [b"one", b"two"]
    log.write_bytes(again)
    assert follower.take() == [("a.log", 1, again.strip())]
    append(log, b"next\n")
    assert follower.take() == [("a.log", 2, b"next")]


def test_a_batch_is_bounded_and_the_next_ones_take_the_rest(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        append(tmp_path / name, b"".join(b"%06d\n" % n for n in range(100)))
    follower = Follower(tmp_path / "*.log", bytes_max=250)
    batches = [follower.texts() for _ in range(8)]
    assert all(sum(len(each) + 1 for each in batch) <= 250 for batch in batches)
    assert sum(map(len, batches)) == 200


def test_a_line_longer_than_a_batch_is_a_batch_of_its_own(tmp_path: Path) -> None:
    append(tmp_path / "a.log", b"x" * 1000 + b"\nshort\n")
    follower = Follower(tmp_path / "*.log", bytes_max=100)
    assert [len(follower.take()), len(follower.take())] == [1, 1]


def test_a_file_without_newlines_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "LINE_BYTES_MAX", 1000)
    append(tmp_path / "a.log", b"x" * 2000)
    with pytest.raises(lines.LineTooLong, match=r"line 1 of .*a\.log"):
        Follower(tmp_path / "*.log").take()


def test_a_large_piece_is_divided_at_newlines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "SPLIT_BYTES", 100)
    append(tmp_path / "a.log", b"".join(b"%07d\n" % n for n in range(1000)))
    after = tails.advance(str(tmp_path), {}, None)
    pieces = list(tails.ranges({}, after))
    assert len(pieces) == 84
    assert [int(text) + 1 for _, line, text in read({}, after)] == list(range(1, 1001))
    assert [line for _, line, _ in read({}, after)] == list(range(1, 1001))


def test_small_files_share_a_task(tmp_path: Path) -> None:
    for n in range(50):
        append(tmp_path / f"{n}.log", b"one\n")
    after = tails.advance(str(tmp_path), {}, None)
    assert len(tails.pack(tails.ranges({}, after))) == 1


def test_a_batch_can_be_read_again_after_a_rename(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, b"one\ntwo\n")
    after = tails.advance(str(log), {}, None)
    os.rename(log, tmp_path / "elsewhere")
    append(log, b"other\n")
    assert [text for _, _, text in read({}, after)] == [b"one", b"two"]


def test_lines_that_are_gone_before_they_were_delivered_are_missed_aloud(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, b"one\ntwo\n")
    after = tails.advance(str(log), {}, None)
    log.write_bytes(b"")
    with pytest.raises(Lost, match=r"a\.log was removed, or cut"):
        list(read({}, after))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(max_size=40)),
        st.tuples(st.just("rotate"), st.just(b"")),
        st.tuples(st.just("take"), st.just(b"")),
    ),
    max_size=30,
)


@settings(max_examples=150)
@given(steps, st.sampled_from([None, 1, 7, 64]))
def test_whatever_is_written_and_rotated_each_whole_line_comes_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    moves: list[tuple[str, bytes]],
    bytes_max: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    log, rotated = folder / "a.log", 0
    log.touch()
    follower = Follower(folder / "a.log", bytes_max)
    written: dict[int, bytes] = {0: b""}
    taken: dict[int, list[bytes]] = {}
    inodes = {os.stat(log).st_ino: 0}

    def take() -> bool:
        before = tails.load(json.loads(follower.position))
        after = tails.advance(follower.pattern, before, bytes_max)
        follower.position = json.dumps(tails.dump(after))
        for piece in tails.ranges(before, after):
            with tails.open_tail(piece.tail) as file:
                file.seek(piece.start)
                for batch in lines.read_lines(file, "", piece.first_line, piece.bytes):
                    which = taken.setdefault(inodes[piece.tail.inode], [])
                    assert batch.column(2)[0].as_py() == len(which) + 1
                    which.extend(batch.column(0).to_pylist())
        return after != before

    for move, data in moves:
        if move == "append":
            append(log, data)
            written[rotated] += data
        elif move == "rotate":
            take()
            rotated += 1
            os.rename(log, folder / f"a.log.{rotated}")
            log.touch()
            inodes[os.stat(log).st_ino] = rotated
            written[rotated] = b""
        else:
            take()
    while take():
        pass
    for number, data in written.items():
        whole = data[: data.rfind(b"\n") + 1].replace(b"\r\n", b"\n")
        assert taken.get(number, []) == whole.split(b"\n")[:-1]

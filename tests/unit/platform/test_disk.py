"""Files that hand their descriptors back, and names that change atomically."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import threading
from pathlib import Path

import pytest

from penstock.platform import blocks
from penstock.platform import disk as disk_module
from penstock.platform.disk import AHEAD_FROM, Disk


def make_files(disk: Disk, directory: Path, count: int) -> list[disk_module.File]:
    files = [disk.open(str(directory / f"{number}"), create=True) for number in range(count)]
    for number, file in enumerate(files):
        file.append(b"%d" % number)
    return files


def test_appends_go_to_the_end_and_answer_where(tmp_path: Path) -> None:
    file = Disk().open(str(tmp_path / "file"), create=True)
    assert [file.append(b"one"), file.append(memoryview(b"two")), file.size] == [0, 3, 6]
    assert file.pread(6, 0) == b"onetwo"


def test_a_file_that_exists_keeps_its_content_and_is_appended_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    file = Disk().open(str(tmp_path / "file"))
    file.append(b"new")
    assert (tmp_path / "file").read_bytes() == b"oldnew"


def test_a_file_that_must_be_there_is_missed_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Disk().open(str(tmp_path / "nothing"))


def blocks_of(path: Path) -> int:
    return os.stat(path).st_blocks * 512


@pytest.fixture
def on_ext4(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file system were one that profits, and had room."""
    monkeypatch.setattr(blocks, "_is_ext4", lambda *_: True)
    monkeypatch.setattr(blocks, "_FREE_MIN", 0)


@pytest.mark.usefixtures("on_ext4")
def test_a_file_that_grows_has_blocks_set_aside_and_is_no_longer_for_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = Disk().open(str(path), create=True)
    file.append(bytes(AHEAD_FROM))
    file.sync()  # a file's blocks are counted once it has them, and not when it is written
    assert blocks_of(path) <= AHEAD_FROM + 4096
    file.append(b"more")
    file.sync()
    assert blocks_of(path) >= AHEAD_FROM + AHEAD_FROM // 4
    assert path.stat().st_size == file.size == AHEAD_FROM + 4
    for read in (file.pread, file.pread_waiting, file.pread_cached):
        assert read(9, AHEAD_FROM - 4) == bytes(4) + b"more"
        assert read(9, AHEAD_FROM + 9) == b""

    assert file.has_spare
    file.trim()
    assert not file.has_spare
    assert blocks_of(path) <= AHEAD_FROM + 2 * 4096
    assert file.append_all([memoryview(b"on"), memoryview(b"e")]) == AHEAD_FROM + 4
    assert blocks_of(path) >= AHEAD_FROM + AHEAD_FROM // 4
    assert path.read_bytes()[AHEAD_FROM:] == b"moreone"


def test_a_file_with_nothing_behind_its_content_is_not_touched_by_a_trim(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(2 * AHEAD_FROM))
    os.utime(path, (1, 1))
    Disk().open(str(path)).trim()  # it might have had blocks since a crash
    assert path.stat().st_mtime == 1


def test_a_trim_keeps_to_the_bound_on_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "AHEAD_FROM", 8)
    disk = Disk(open_files_max=3)
    for number in range(10):
        (tmp_path / f"{number}").write_bytes(b"more than eight")
        disk.open(str(tmp_path / f"{number}")).trim()
        assert disk.open_files <= 3


def spoil(monkeypatch: pytest.MonkeyPatch, name: str, room: int) -> None:
    """A disk that takes `room` bytes more and then no others, nor anything back."""
    left = room

    def write(fd: int, data: bytes, position: int) -> int:
        nonlocal left
        data, left = data[:left], max(left - len(data), 0)
        if not data:
            raise OSError(errno.ENOSPC, "no space left on device")
        return os.pwrite(fd, data, position)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(disk_module, name, write)
    monkeypatch.setattr(os, "ftruncate", fail)


@pytest.mark.parametrize("kind", list(blocks.Blocks))
@pytest.mark.parametrize("before", [4, AHEAD_FROM + 4])
def test_what_a_failed_append_left_behind_is_cut_off_before_a_file_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: blocks.Blocks, before: int
) -> None:
    monkeypatch.setattr(disk_module, "set_aside", lambda *_: kind)
    path = tmp_path / "file"
    file = Disk().open(str(path), create=True)
    file.append(bytes(before))
    with monkeypatch.context() as patch:
        spoil(patch, "_pwrite", 3)
        with pytest.raises(OSError, match="no space left"):
            file.append(b"torn")
        assert path.stat().st_size == before + 3
        with pytest.raises(OSError, match="the disk is gone"):
            file.trim()
    file.append(b"!")
    assert path.read_bytes()[before:] == b"!or"
    file.trim()
    assert path.read_bytes()[before:] == b"!"


@pytest.mark.usefixtures("on_ext4")
@pytest.mark.parametrize(
    ("problem", "answer"),
    [(errno.EDQUOT, blocks.Blocks.NOT_NOW), (errno.EOPNOTSUPP, blocks.Blocks.NEVER)],
)
def test_blocks_of_a_call_that_failed_half_way_are_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: int, answer: blocks.Blocks
) -> None:
    real = blocks._libc()
    assert real is not None

    class Half:
        """What a quota does: it gives what it has left, and then says no."""

        @staticmethod
        def fallocate(fd: int, mode: int, begin: int, size: int) -> int:
            assert real is not None
            assert real.fallocate(fd, mode, begin, size // 2) == 0
            ctypes.set_errno(problem)
            return -1

    path = tmp_path / "file"
    path.write_bytes(bytes(AHEAD_FROM))
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        before = blocks_of(path)
        monkeypatch.setattr(blocks, "_libc", lambda: Half)
        assert blocks.set_aside(fd, AHEAD_FROM, 3 * AHEAD_FROM) is answer
        assert blocks_of(path) <= before and path.stat().st_size == AHEAD_FROM
    finally:
        os.close(fd)


def test_ext4_is_known_when_it_is_met(tmp_path: Path) -> None:
    libc = blocks._libc()
    assert libc is not None
    for directory in (tmp_path, Path("/dev/shm"), Path("/proc")):
        told = subprocess.run(["stat", "-f", "-c", "%t", directory], capture_output=True, text=True)
        fd = os.open(directory, os.O_RDONLY)
        assert blocks._is_ext4(libc, fd) == (told.stdout.strip() == "ef53"), directory
        os.close(fd)


@pytest.mark.usefixtures("on_ext4")
def test_blocks_that_a_crash_left_behind_are_given_back(tmp_path: Path) -> None:
    crashed = Disk().open(str(tmp_path / "file"), create=True)
    crashed.append(bytes(2 * AHEAD_FROM))
    crashed.append(b"more")
    file = Disk().open(str(tmp_path / "file"))
    file.sync()
    assert blocks_of(tmp_path / "file") >= 2 * AHEAD_FROM + AHEAD_FROM // 2
    file.trim()
    assert blocks_of(tmp_path / "file") <= 2 * AHEAD_FROM + 2 * 4096
    assert file.size == os.stat(tmp_path / "file").st_size == 2 * AHEAD_FROM + 4


def test_more_pieces_than_one_write_takes_are_one_append(tmp_path: Path) -> None:
    file = Disk().open(str(tmp_path / "file"), create=True)
    pieces = [memoryview(b"%04d" % number) for number in range(3000)]
    assert file.append_all(pieces) == 0
    assert file.append_all(pieces[:2]) == 12_000
    assert (tmp_path / "file").read_bytes() == b"".join(pieces) + b"00000001"


def test_no_blocks_are_set_aside_where_room_is_short_and_it_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_is_ext4", lambda *_: True)
    monkeypatch.setattr(blocks, "_FREE_MIN", 2)
    file = Disk().open(str(tmp_path / "file"), create=True)
    file.append(bytes(AHEAD_FROM + 1))
    file.sync()
    assert blocks_of(tmp_path / "file") <= AHEAD_FROM + 2 * 4096
    assert (tmp_path / "file").stat().st_size == file.size
    monkeypatch.setattr(blocks, "_FREE_MIN", 0)
    file.append(bytes(AHEAD_FROM))
    assert blocks_of(tmp_path / "file") >= 2 * AHEAD_FROM + AHEAD_FROM // 4


@pytest.mark.usefixtures("on_ext4")
def test_a_file_system_that_sets_nothing_aside_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(fd: int, begin: int, end: int) -> blocks.Blocks:
        asked.append((begin, end))
        return blocks.Blocks.NEVER

    monkeypatch.setattr(disk_module, "set_aside", refuse)
    file = Disk().open(str(tmp_path / "file"), create=True)
    for _ in range(4):
        file.append(bytes(AHEAD_FROM))
    file.trim()
    file.append(b"on")
    assert asked == [(AHEAD_FROM, 2 * AHEAD_FROM + AHEAD_FROM // 2)]
    assert file.size == (tmp_path / "file").stat().st_size == 4 * AHEAD_FROM + 2


def test_a_failed_append_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Disk().open(str(tmp_path / "file"), create=True)
    file.append(b"good")

    def write_a_part_then_fail(fd: int, data: bytes, position: int) -> int:
        if len(data) > 2:
            return os.pwrite(fd, bytes(data[:2]), position)
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk_module, "_pwrite", write_a_part_then_fail)
        with pytest.raises(OSError, match="no space left"):
            file.append(b"torn")
    assert (tmp_path / "file").read_bytes() == b"good"
    file.append(b"more")
    assert (tmp_path / "file").read_bytes() == b"goodmore"


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Disk().open(str(tmp_path / "file"), create=True)
    monkeypatch.setattr(
        disk_module, "_pwrite", lambda fd, data, at: os.pwrite(fd, bytes(data[:3]), at)
    )
    file.append(b"a longer text")
    assert (tmp_path / "file").read_bytes() == b"a longer text"


def test_descriptors_stay_within_the_bound_and_files_stay_usable(tmp_path: Path) -> None:
    disk = Disk(open_files_max=5)
    files = make_files(disk, tmp_path, 20)
    assert disk.open_files <= 5
    for number, file in enumerate(files):
        assert file.pread(9, 0) == b"%d" % number
        file.append(b"!")
        assert disk.open_files <= 5
    assert [file.size for file in files] == [len(str(n)) + 1 for n in range(20)]


def test_a_file_in_use_outlives_those_that_are_not(tmp_path: Path) -> None:
    disk = Disk(open_files_max=4)
    busy = disk.open(str(tmp_path / "busy"), create=True)
    fd = busy.fileno()
    for number in range(20):
        disk.open(str(tmp_path / f"{number}"), create=True)
        assert busy.fileno() == fd


def test_a_pinned_file_is_never_taken_away(tmp_path: Path) -> None:
    disk = Disk(open_files_max=2)
    file = disk.open(str(tmp_path / "pinned"), create=True)
    file.append(b"mine")
    with file.pinned() as fd:
        make_files(disk, tmp_path, 10)
        assert os.pread(fd, 4, 0) == b"mine"
    make_files(disk, tmp_path, 10)
    assert disk.open_files <= 2


def test_other_threads_open_files_but_never_take_descriptors_back(tmp_path: Path) -> None:
    disk = Disk(open_files_max=2)
    file = disk.open(str(tmp_path / "file"), create=True)
    fd = file.fileno()
    thread = threading.Thread(target=make_files, args=(disk, tmp_path, 6))
    thread.start()
    thread.join()
    assert os.fstat(fd).st_ino == os.stat(tmp_path / "file").st_ino
    make_files(disk, tmp_path, 3)
    assert disk.open_files <= 2


def test_a_closed_file_is_an_error_to_use(tmp_path: Path) -> None:
    file = Disk().open(str(tmp_path / "file"), create=True)
    file.close()
    with pytest.raises(OSError, match="closed for good"):
        file.append(b"late")


def test_a_file_closed_under_a_pin_stays_open_until_the_pin_is_gone(tmp_path: Path) -> None:
    disk = Disk()
    file = disk.open(str(tmp_path / "file"), create=True)
    file.append(b"text")
    with file.pinned() as fd:
        file.close()
        assert os.pread(fd, 4, 0) == b"text"
    assert disk.open_files == 0


def test_a_renamed_file_is_found_again_after_its_descriptor_was_handed_back(tmp_path: Path) -> None:
    file = Disk().open(str(tmp_path / "old"), create=True)
    file.append(b"text")
    file.rename(str(tmp_path / "new"))
    file.release()
    assert file.pread(4, 0) == b"text"


def test_cached_bytes_are_read_without_waiting(tmp_path: Path) -> None:
    file = Disk().open(str(tmp_path / "file"), create=True)
    file.append(b"x" * 10_000)
    assert file.pread_cached(5000, 100) == b"x" * 5000
    assert file.pread_cached(5000, 9000) == b"x" * 1000


def test_where_the_file_system_cannot_tell_nothing_is_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Disk().open(str(tmp_path / "file"), create=True)
    file.append(b"text")

    def unsupported(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "preadv", unsupported)
    assert file.pread_cached(4, 0) == b"text"


def test_cold_bytes_are_said_to_be_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Disk().open(str(tmp_path / "file"), create=True)
    file.append(b"text")

    def would_block(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "try again")

    monkeypatch.setattr(os, "preadv", would_block)
    assert file.pread_cached(4, 0) is None


def test_an_atomic_write_syncs_the_bytes_before_the_name_and_the_name_last(tmp_path: Path) -> None:
    steps = []

    class Watched(Disk):
        def sync_fd(self, fd: int) -> None:
            steps.append(f"sync {os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))}")

        def sync_directory(self, path: str) -> None:
            steps.append(f"sync directory with {sorted(os.listdir(path))}")

    Watched().write_atomic(str(tmp_path / "file"), b"new")
    assert steps == ["sync file.tmp", "sync directory with ['file']"]
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_failed_atomic_write_leaves_the_old_content(tmp_path: Path) -> None:
    class Full(Disk):
        def sync_fd(self, fd: int) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match="no space"):
        Full().write_atomic(str(tmp_path / "file"), b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_writing_at_a_position_cuts_what_was_behind(tmp_path: Path) -> None:
    disk, path = Disk(), str(tmp_path / "file")
    disk.write_at(path, b"a long content", 0)
    disk.write_at(path, b"NEW", 2)
    assert disk.read_bytes(path) == b"a NEW"
    disk.write_at(path, b"", 1)
    assert disk.read_bytes(path) == b"a"


def test_the_whole_file_system_can_be_synced_with_one_call(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as file:
        assert Disk().sync_filesystem(file.fileno())
    with pytest.raises(OSError, match="syncfs"):
        Disk().sync_filesystem(-1)


def test_a_closed_file_is_of_no_use_even_while_a_thread_still_holds_it(tmp_path: Path) -> None:
    disk = Disk()
    file = disk.open(str(tmp_path / "file"), create=True)
    file.append(b"content")
    with file.pinned() as fd:
        file.close()
        for use in (file.fileno, file.sync, lambda: file.pread(7, 0), lambda: file.append(b"x")):
            with pytest.raises(OSError, match="closed for good"):
                use()
        assert os.pread(fd, 7, 0) == b"content"
        assert disk.open_files == 1
    assert disk.open_files == 0
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(fd)


def test_a_descriptor_is_not_taken_back_from_who_just_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(open_files_max=1)
    mine, theirs, other = make_files(disk, tmp_path, 3)
    evict = disk._evict

    def evict_late(*arguments: disk_module.File) -> None:
        disk.pin(theirs)  # another thread comes between the opening and the bound
        disk.pin(other)
        evict(*arguments)

    for file in (mine, theirs, other):
        file.release()
    monkeypatch.setattr(disk, "_evict", evict_late)
    mine.append(b"mine")
    assert (tmp_path / "0").read_bytes() == b"0mine"


def test_the_descriptor_of_a_file_stays_while_the_file_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(open_files_max=1)
    mine, other = make_files(disk, tmp_path, 2)
    cut = os.ftruncate

    def cut_late(fd: int, size: int) -> None:
        mine.release()  # the event loop's thread wants it back, and opens another
        other.append(b"!")
        cut(fd, size)

    monkeypatch.setattr(os, "ftruncate", cut_late)
    mine.truncate(0)
    assert ((tmp_path / "0").read_bytes(), (tmp_path / "1").read_bytes()) == (b"", b"1!")

"""Files are whole or absent, lines too, and what a run writes is its owner's."""

import errno
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragassay.core.errors import BadData, DiskFull
from ragassay.core.files import LineLog, read_lines, write_whole


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "lines.jsonl"


@pytest.fixture
def log(path):
    log = LineLog(path)
    yield log
    log.close()


def fill_disk_after(monkeypatch, count):
    """From now on the disk takes so many bytes more."""
    room, write = [count], os.write

    def write_what_fits(file, content):
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(file, bytes(content)[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr("os.write", write_what_fits)


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.EIO, OSError), (errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EFBIG, DiskFull)],
)
def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch, number, error):
    path = tmp_path / "report.json"
    write_whole(path, b"old")
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError(number, os.strerror(number))))
    with pytest.raises(error) as failed:
        write_whole(path, b"new")
    assert error is OSError or failed.value.where == str(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("room", [0, 1, 7])
def test_a_line_for_which_there_is_no_room_leaves_nothing_behind(log, path, monkeypatch, room):
    log.append({"n": 1})
    with monkeypatch.context() as full:
        fill_disk_after(full, room)
        with pytest.raises(DiskFull):
            log.append({"n": 2})
    assert path.read_bytes() == b'{"n":1}\n'
    log.append({"n": 3})  # there is room again
    assert list(read_lines(path)) == [{"n": 1}, {"n": 3}]


def test_what_a_kill_left_of_a_line_is_cut_off(log, path, caplog):
    log.append({"n": 1})
    with path.open("ab") as file:
        file.write(b'{"n": 2, "te')
    assert list(log.rows()) == [{"n": 1}]
    log.append({"n": 3})
    assert list(log.rows()) == [{"n": 1}, {"n": 3}]
    assert len(caplog.records) == 1


def test_a_line_that_was_damaged_by_hand_is_an_error_that_names_it(log, path):
    path.write_text('{"n": 1}\n{"n": \n{"n": 3}\n')
    with pytest.raises(BadData) as damaged:
        list(log.rows())
    assert f"{path}:2" in str(damaged.value)


def test_lines_and_private_files_are_readable_by_their_owner_alone(log, path, tmp_path):
    before = os.umask(0)
    try:
        write_whole(tmp_path / "private.json", b"{}", private=True)
        write_whole(tmp_path / "public.json", b"{}")
    finally:
        os.umask(before)
    assert [permissions(p) for p in (path, tmp_path / "private.json")] == [0o600, 0o600]
    assert permissions(tmp_path / "public.json") == 0o666


def test_write_whole_lets_threads_write_the_same_file(tmp_path):
    path = tmp_path / "index.npz"
    both = threading.Barrier(2)

    def content(text):
        both.wait(60)
        yield text
        both.wait(60)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda text: write_whole(path, content(text)), (b"one", b"two")))
    assert path.read_bytes() in (b"one", b"two")
    assert list(tmp_path.iterdir()) == [path]

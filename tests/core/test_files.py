"""Files are whole or absent, and a folder has one owner."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from manyheads.core import files
from manyheads.core.files import clear_parts, lock_folder, read_file, reason_of, write_whole

HOLDER = """
import sys, pathlib
from manyheads.core.files import lock_folder
with lock_folder(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_whole(path, b"first")
    write_whole(path, b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_failure_leaves_the_earlier_file_and_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    write_whole(path, b"first")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(path, b"second")
    assert reason_of(caught.value) == "No space left on device"
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_plain_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        write_whole(path, b"x")
    assert path.exists()


def test_parts_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".a.txt.1.part").write_bytes(b"half")
    (tmp_path / "a.txt").write_bytes(b"whole")
    clear_parts(tmp_path)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_is_held_by_one_process_and_freed_when_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError, match=str(other.pid)), lock_folder(tmp_path, 0.0):
            raise AssertionError("two processes hold one folder")
        other.kill()
    with lock_folder(tmp_path):
        pass


@pytest.mark.parametrize(("size", "is_more"), [(9, False), (10, False), (11, True)])
def test_a_file_is_read_up_to_one_byte_more_than_its_limit(
    size: int, is_more: bool, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x" * size)
    assert (len(read_file(tmp_path / "file", 10)) > 10) == is_more


@pytest.mark.parametrize("limit", [None, 100_000, 300_000])
def test_a_pipe_with_a_writer_is_read_like_a_file(limit: int | None, tmp_path: Path) -> None:
    pipe, data = tmp_path / "pipe", bytes(200_000)
    os.mkfifo(pipe)
    writer = Thread(target=_written, args=(pipe, data), daemon=True)
    writer.start()
    read = read_file(pipe, limit, patience=30.0)
    writer.join(timeout=30)
    assert len(read) == min(len(data), len(data) if limit is None else limit + 1)


def _written(pipe: Path, data: bytes) -> None:
    with suppress(BrokenPipeError):
        pipe.write_bytes(data)


def test_a_pipe_without_a_writer_and_a_device_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="nothing was written to this pipe"):
        read_file(tmp_path / "pipe", 10, patience=0.0)
    with pytest.raises(OSError, match="is a device"):
        read_file(Path("/dev/zero"), 10)
    with pytest.raises(OSError, match="is a folder"):
        read_file(tmp_path, 10)

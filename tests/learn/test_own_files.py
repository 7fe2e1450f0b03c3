"""The learner's files: added to, never lost, readable after a crash."""

import os
from pathlib import Path

import pytest

from manyheads.core.errors import LearnError
from manyheads.learn.own_files import add_record, data_folder, read_records


def test_records_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    assert read_records(path).records == ()
    for number in range(3):
        add_record(path, {"number": number, "word": "Größe"})
    assert [r["number"] for r in read_records(path).records] == [0, 1, 2]


def test_half_a_line_is_moved_aside_and_nothing_before_it_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    add_record(path, {"number": 1})
    with path.open("ab") as stream:
        stream.write(b'{"numb')
    assert read_records(path) == (({"number": 1},), '{"numb')
    add_record(path, {"number": 2})
    assert read_records(path) == (({"number": 1}, {"number": 2}), "")
    assert (tmp_path / "reviews.jsonl.torn").read_bytes() == b'{"numb\n'


@pytest.mark.parametrize("damage", [b"nonsense\n", b"[1]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n"])
def test_a_damaged_line_is_named_and_the_file_stays_as_it_is(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "reviews.jsonl"
    content = b'{"number": 1}\n' + damage + b'{"number": 2}\n'
    path.write_bytes(content)
    with pytest.raises(LearnError, match=r"is damaged in line 2 .*nothing was changed"):
        read_records(path)
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LearnError, match=r"--data \(.*file.*\) cannot be a folder"):
        data_folder(tmp_path / "file" / "inner")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "reviews.jsonl").mkdir()
    with pytest.raises(LearnError, match=r"reviews.jsonl\) cannot be written"):
        add_record(tmp_path / "reviews.jsonl", {})


def test_the_usual_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if os.name == "posix":
        assert data_folder() == tmp_path / "manyheads"
        assert (tmp_path / "manyheads").is_dir()

"""The learner's files: added to, never lost, readable after a crash."""

import os
from pathlib import Path

import pytest

from manyheads.core.errors import LearnError
from manyheads.learn.own_files import (
    add_record,
    check_can_be_written,
    data_folder,
    merge_records,
    read_records,
)


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


DAMAGES = [
    *(b"nonsense\n", b"[1]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n"),
    *(b'{"x": NaN}\n', b'{"x": -Infinity}\n', b'{"x": 1e999}\n'),  # no JSON: could not be written
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_line_is_named_and_the_file_stays_as_it_is(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "reviews.jsonl"
    content = b'{"number": 1}\n' + damage + b'{"number": 2}\n'
    path.write_bytes(content)
    with pytest.raises(LearnError, match=r"is damaged in line 2 .*nothing was changed"):
        read_records(path)
    assert path.read_bytes() == content


def test_half_a_surrogate_pair_is_written_as_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    path.write_bytes(b'{"word": "\\ud83d"}\n')
    merge_records(path, lambda records: [*records, {"number": 2}])
    assert read_records(path).records == ({"word": "\ud83d"}, {"number": 2})


def test_a_torn_line_is_moved_aside_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    path.write_bytes(b'{"number": 1}\n{"word": "Gr\xc3')
    merge_records(path, lambda records: [*records, {"number": 2}])
    assert (tmp_path / "reviews.jsonl.torn").read_bytes() == b'{"word": "Gr\xc3\n'


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


def test_records_are_put_among_others_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    add_record(path, {"number": 1})
    add_record(path, {"number": 3})
    with path.open("ab") as stream:
        stream.write(b'{"numb')
    merge_records(path, lambda records: [records[0], {"number": 2}, records[1]])
    assert [r["number"] for r in read_records(path).records] == [1, 2, 3]
    assert (tmp_path / "reviews.jsonl.torn").read_bytes() == b'{"numb\n'
    content = path.read_bytes()
    path.write_bytes(content + b"nonsense\n")
    with pytest.raises(LearnError, match="is damaged in line 4"):
        merge_records(path, lambda records: [*records, {}])
    assert path.read_bytes() == content + b"nonsense\n"


def test_a_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, path = tmp_path / "elsewhere" / "mine.jsonl", tmp_path / "reviews.jsonl"
    path.symlink_to(target)
    merge_records(path, lambda records: [{"number": 1}])
    assert path.is_symlink()
    assert read_records(target).records == ({"number": 1},)


def test_whether_records_can_be_added_is_found_out_before(tmp_path: Path) -> None:
    check_can_be_written(tmp_path / "reviews.jsonl")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LearnError, match=r"folder\) cannot be written"):
        check_can_be_written(tmp_path / "folder")


def test_a_pipe_is_refused_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        LearnError, match=r"pipe\) cannot be read \(nothing was written to this pipe\)"
    ):
        read_records(tmp_path / "pipe")
    (tmp_path / "gaps").write_text('{"a": 1}\n\n  \n{"a": 2}\n')
    assert [record["a"] for record in read_records(tmp_path / "gaps").records] == [1, 2]

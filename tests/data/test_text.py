"""Files of stories: every form is read, and every damage is named in one line."""

import hashlib
import json
from pathlib import Path

import pytest

from manyheads.core.errors import DataError
from manyheads.data.text import file_sha256, read_stories

STORIES = ["Tom ran.\n\nHe fell.", "Mia saw \u201ca caf\u00e9\u201d.", "The end."]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def json_lines(stories: list[str]) -> str:
    return "".join(json.dumps({"text": story, "id": 1}) + "\n" for story in stories)


def parquet_file(path: Path, columns: dict[str, list[object]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra `data` is not installed")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    return path


def test_marked_text_is_cut_at_its_marks_and_keeps_paragraphs(tmp_path: Path) -> None:
    text = "\n<|endoftext|>\n".join(STORIES) + "<|endoftext|>\n"
    assert read_stories(written(tmp_path / "a.txt", text)) == STORIES


def test_two_marks_in_a_line_end_two_stories(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "one<|endoftext|>two<|endoftext|>three\nmore")
    assert read_stories(path) == ["one", "two", "three\nmore"]


def test_text_with_wide_gaps_is_cut_there_and_keeps_paragraphs(tmp_path: Path) -> None:
    text = "\n\n\n".join(STORIES) + "\n\n\n\n"
    assert read_stories(written(tmp_path / "a.txt", text)) == STORIES


def test_text_with_blank_lines_only_is_cut_at_each(tmp_path: Path) -> None:
    text = "One day\nTom ran.\n \nThe end.\n\n"
    assert read_stories(written(tmp_path / "a.txt", text)) == ["One day\nTom ran.", "The end."]


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    for name, text in (("a.txt", "\n<|endoftext|>\n".join(STORIES)), ("b.txt", "a\n\n\nb")):
        plain = read_stories(written(tmp_path / f"plain-{name}", text))
        foreign = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
        assert read_stories(written(tmp_path / name, foreign)) == plain


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "A.JSONL"])
def test_json_lines_are_read_and_blank_ones_passed_over(tmp_path: Path, name: str) -> None:
    text = json_lines(STORIES[:1]) + "\n  \n" + json_lines([*STORIES[1:], "  "])
    assert read_stories(written(tmp_path / name, text)) == STORIES
    assert read_stories(str(tmp_path / name)) == STORIES


def test_parquet_is_read_row_by_row(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "a.parquet", {"id": [1, 2, 3], "text": [*STORIES]})
    assert read_stories(path) == STORIES


def test_a_parquet_file_whose_texts_are_no_utf8_is_refused(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "a.parquet", {"text": ["caf\u00e9 caf\u00e9"]})
    damaged = path.read_bytes().replace("\u00e9".encode(), b"\xe9\xe9")
    with pytest.raises(DataError, match="not a complete Parquet file"):
        read_stories(written(path, damaged))


def test_a_limit_reads_so_many_and_does_not_look_at_the_rest(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", json_lines(STORIES) + "{broken\n")
    assert read_stories(path, limit=3) == STORIES
    with pytest.raises(DataError, match="line 4"):
        read_stories(path)
    with pytest.raises(DataError, match=r"limit \(0\)"):
        read_stories(path, limit=0)


def test_the_sample_is_read_whole(shared: Path) -> None:
    path = shared / "data" / "tinystories-sample.jsonl"
    assert len(read_stories(path)) == 1926
    expected = "fba52bf7bc1c163331765c81d491ba9597ed6c9ee2a368572a0a2232cca846bb"
    assert file_sha256(path) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "has no story: give a file with at least one"),
        ("a.txt", " \n\n<|endoftext|>\n", "has no story: give a file with at least one"),
        ("a.jsonl", "\n\n", "has no story: give a file with at least one"),
        ("a.jsonl", '{"text": ""}\n', "has no story: give a file with at least one"),
        ("a.csv", "text\n", r"\.jsonl, \.json or \.parquet"),
        ("stories", "text\n", r"\.jsonl, \.json or \.parquet"),
        ("a.txt", b"fine\n\x89PNG\0\n", "line 2 has a zero byte"),
        ("a.txt", "fine".encode("utf-16"), "saved as UTF-8"),
        ("a.txt", "fine\ncaf\u00e9\n".encode("latin-1"), r"line 2 is not \(byte 0xe9\)"),
        ("a.jsonl", b'{"text": "caf\xe9"}', r"line 1 is not \(byte 0xe9\)"),
        ("a.jsonl", '{"text": "a"}\n{"text": "b"\n', "line 2 is not JSON .Expecting"),
        ("a.jsonl", "[" * 200_000, "line 1 is not JSON"),
        ("a.json", '[\n{"text": "a"}\n]', "line 1 is not JSON"),
        ("a.jsonl", '{"text": "a"}\n\n{"story": "b"}\n', 'under "text".*line 3 has none'),
        ("a.jsonl", '{"text": 7}\n', 'under "text".*line 1 has none'),
        ("a.jsonl", '["text"]\n', 'under "text".*line 1 has none'),
        ("a.jsonl", '{"text": "\\ud83d"}\n', "line 1 has one"),
        ("a.parquet", "no parquet at all", "not a complete Parquet file"),
        ("a.parquet", b"PAR1" + b"\0" * 40 + b"PAR1", "not a complete Parquet file"),
    ],
)
def test_damage_is_named_in_one_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="the extra `data` is not installed")
    path = written(tmp_path / name, content)
    with pytest.raises(DataError, match=message) as caught:
        read_stories(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_shortened_parquet_file_is_refused(tmp_path: Path) -> None:
    whole = parquet_file(tmp_path / "a.parquet", {"text": [*STORIES]}).read_bytes()
    path = written(tmp_path / "b.parquet", whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not a complete Parquet file"):
        read_stories(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"story": ["a"]}, 'column "text" of texts, but has story'),
        ({"text": [1, 2]}, 'column "text" of texts'),
        ({"text": [["a"], ["b"]]}, 'column "text" of texts'),
        ({"text": ["a", "b", None]}, "row 3 has none"),
    ],
)
def test_a_parquet_file_without_texts_is_refused(
    tmp_path: Path, columns: dict[str, list[object]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_stories(parquet_file(tmp_path / "a.parquet", columns))


@pytest.mark.parametrize("read", [read_stories, file_sha256])
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, read: object) -> None:
    assert callable(read)
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(DataError, match=r"none\.txt\) does not exist"):
        read(tmp_path / "none.txt")
    with pytest.raises(DataError, match=r"folder\.txt\) must be a regular file"):
        read(tmp_path / "folder.txt")
    with pytest.raises(DataError, match=r"cannot be read \(File name too long"):
        read(tmp_path / ("a" * 300 + ".txt"))


def test_the_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.bin", b"\0\xff")
    assert file_sha256(path) == hashlib.sha256(b"\0\xff").hexdigest()

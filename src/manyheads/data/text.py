"""Stories from files (text, JSON lines, Parquet), and TinyStories from the Hugging Face hub.

The hub client keeps its file in the user's cache (`HF_HOME` moves it) and resumes a broken
download. A cached file needs no network.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from manyheads.core.errors import DataError
from manyheads.core.extras import require

STORY_END = "<|endoftext|>"
"""The separator of stories in a plain text file.

Source: the files of the data set roneneldan/TinyStories.
"""

_FORMATS = ".txt, .jsonl, .json or .parquet"
_FIELD = "text"
_STRING_TYPES = ("string", "large_string", "dictionary<values=string")  # as pyarrow writes them


def read_stories(path: Path | str, *, limit: int | None = None) -> list[str]:
    r"""Read a file of stories, in the file's order; the ending of its name gives the format.

    - `.txt`: stories end with `<|endoftext|>`. In a file without that mark, two or more blank lines
      separate stories; in a file without those, each blank line does.
    - `.jsonl`, `.json`: one JSON object per line, with the story under "text".
    - `.parquet`: a column "text" (needs the extra `data`).

    Whitespace around a story and empty stories are removed.

    Args:
        path: the file, in UTF-8 where it is text.
        limit: maximum number of stories; all if None. The rest of the file is not read.

    Raises:
        DataError: the file is missing, damaged, of another format, or has no story.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise DataError(f"limit ({limit}) must be at least 1: leave it out to read all stories")
    _require_file(path)
    readers = {
        ".txt": _text_stories,
        ".jsonl": _json_stories,
        ".json": _json_stories,
        ".parquet": _parquet_stories,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"data ({path}) must have the ending {_FORMATS}: convert or rename it")
    try:
        stripped = (story.strip() for story in reader(path))
        stories = list(islice((story for story in stripped if story), limit))
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stories:
        raise DataError(f"data ({path}) has no story: give a file with at least one")
    return stories


def file_sha256(path: Path | str) -> str:
    """Hash of a file's bytes, in hexadecimal digits.

    Raises:
        DataError: the file cannot be read.
    """
    _require_file(Path(path))
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path | str, error: OSError) -> DataError:
    reason = error.strerror or error
    return DataError(f"data ({path}) cannot be read ({reason}): check the path and its permissions")


def _require_file(path: Path) -> None:
    try:
        is_file, is_there = path.is_file(), path.exists()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not is_there:
        raise DataError(f"data ({path}) does not exist: check the path")
    if not is_file:
        raise DataError(f"data ({path}) must be a regular file, not a folder: give a file")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line of a text file with its number, counted from 1."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # the byte-order mark of some editors
            if b"\0" in line:
                raise DataError(
                    f"data ({path}) must be text in UTF-8, but line {number} has a zero byte: "
                    "give a text file, saved as UTF-8"
                )
            try:
                yield number, line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"data ({path}) must be text in UTF-8, but line {number} is not "
                    f"(byte {error.object[error.start]:#04x}): save it as UTF-8"
                ) from error


def _text_stories(path: Path) -> Iterator[str]:
    if any(STORY_END in line for _, line in _lines(path)):
        return _marked_stories(path)
    text = "".join(line for _, line in _lines(path)).replace("\r\n", "\n")
    wide_gap, gap = r"\n[^\S\n]*\n[^\S\n]*\n\s*", r"\n[^\S\n]*\n\s*"
    return iter(re.split(wide_gap if re.search(wide_gap, text.strip()) else gap, text.strip()))


def _marked_stories(path: Path) -> Iterator[str]:
    parts: list[str] = []
    for _, line in _lines(path):
        before, *rest = line.split(STORY_END)
        parts.append(before.replace("\r\n", "\n"))
        for piece in rest:
            yield "".join(parts)
            parts = [piece.replace("\r\n", "\n")]
    yield "".join(parts)


def _json_stories(path: Path) -> Iterator[str]:
    for number, line in _lines(path):
        if line.strip():
            yield _story_of(path, number, _json_of(path, number, line))


def _json_of(path: Path, number: int, line: str) -> Any:  # noqa: ANN401 - free JSON
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"data ({path}) must have one JSON object per line, but line {number} is not JSON "
            f"({str(error).split(': line')[0]}): fix or remove that line"
        ) from error


def _story_of(path: Path, number: int, row: Any) -> str:  # noqa: ANN401 - free JSON
    story = row.get(_FIELD) if isinstance(row, dict) else None
    if not isinstance(story, str):
        raise DataError(
            f'data ({path}) must have a text under "{_FIELD}" in each line, but line {number} has '
            'none: write {"text": "..."}'
        )
    if any("\ud800" <= character <= "\udfff" for character in story):
        raise DataError(
            f"data ({path}) must not have half of a character, but line {number} has one "
            "(a lone surrogate): fix or remove that line"
        )
    return story


def _parquet_stories(path: Path) -> Iterator[str]:
    require("data", "pyarrow", purpose=f"the Parquet file {path}")
    import pyarrow
    from pyarrow import parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            _require_text_column(path, file.schema_arrow)
            for batch in file.iter_batches(columns=[_FIELD]):
                for story in batch.column(0).to_pylist():
                    number += 1
                    if story is None:
                        raise DataError(
                            f"data ({path}) must have a text in each row, but row {number} has "
                            "none: remove that row"
                        )
                    yield story
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"data ({path}) is not a complete Parquet file ({str(error).splitlines()[0]}): "
            "download or write it again"
        ) from error


def _require_text_column(path: Path, schema: Any) -> None:  # noqa: ANN401 - untyped library
    names = schema.names
    if _FIELD not in names or not str(schema.field(_FIELD).type).startswith(_STRING_TYPES):
        raise DataError(
            f'data ({path}) must have a column "{_FIELD}" of texts, but has '
            f"{', '.join(names) or 'no column'}: rename the column of stories"
        )


REPOSITORY = "roneneldan/TinyStories"
REVISION = "f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
LICENCE = "CDLA-Sharing-1.0"
NOTICE = (
    f"TinyStories by Ronen Eldan and Yuanzhi Li (arXiv:2305.07759), data set {REPOSITORY}, "
    f"licence {LICENCE}: redistribution needs the same licence"
)

_WITHOUT = "give a file with --data FILE, or run the plan smoke, which generates stories"


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """One file of the data set, with its size and hash."""

    name: str
    """Path in the data set."""
    num_bytes: int
    """Size, in bytes."""
    sha256: str
    """Hash of its bytes, in hexadecimal digits.

    Source: the data set's own listing of its large files at `REVISION`."""


FILES = {
    "train": HubFile(
        name="TinyStories-train.txt",
        num_bytes=1_924_281_556,
        sha256="c5cf5e22ff13614e830afbe61a99fbcbe8bcb7dd72252b989fa1117a368d401f",
    ),
    "validation": HubFile(
        name="TinyStories-valid.txt",
        num_bytes=19_447_282,
        sha256="94e431816c4cce81ff71e4408ff8d3bda9a42e8d2663986697c3954288cb38b4",
    ),
}
"""The two files of the data set; the second, of 19 MB, has more stories than a study here needs."""


def download_tinystories(
    part: str = "validation", *, tell: Callable[[str], object] = lambda line: None
) -> Path:
    """Download a file of TinyStories, or find it in the user's cache, and check it.

    Args:
        part: "validation" (19 MB, about 22,000 stories) or "train" (1.9 GB, about 2.1 million).
        tell: called with the source and its licence.

    Returns:
        path of the file in the cache, for `read_stories`.

    Raises:
        DataError: the part is not known; the client is not installed; there is no network and no
            cached file; or the file has another hash.
    """
    if part not in FILES:
        raise DataError(f"part ({part}) must be one of {', '.join(sorted(FILES))}: choose one")
    return fetch(FILES[part], tell=tell)


def fetch(file: HubFile, *, tell: Callable[[str], object]) -> Path:
    """Download one file of the data set, or find it in the user's cache, and check it.

    Args:
        file: the file to download.
        tell: called with the source and the licence.

    Raises:
        DataError: as for `download_tinystories`.
    """
    require("data", "huggingface-hub", purpose="TinyStories")
    tell(NOTICE)
    path = Path(_fetched(file))
    found = file_sha256(path)
    if found != file.sha256:
        raise DataError(
            f"{path} has sha256 {found}, expected {file.sha256}: the file is damaged or was "
            "changed, delete it and try again"
        )
    return path


def _fetched(file: HubFile) -> str:
    from huggingface_hub import hf_hub_download

    try:
        return hf_hub_download(REPOSITORY, file.name, repo_type="dataset", revision=REVISION)
    except Exception as error:  # the client passes on the errors of several network libraries
        megabytes = file.num_bytes / 1e6
        raise DataError(
            f"data (TinyStories, {file.name}, {megabytes:,.0f} MB) could not be fetched "
            f"({_one_line(error)}): check the network, {_WITHOUT}"
        ) from error


def _one_line(error: Exception) -> str:
    """The kind of an error and the first line of its text."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])

"""Fetches TinyStories through the hub's own client, at one revision, and checks its hash.

The client keeps the file in the user's cache (`HF_HOME` moves it), shows its own progress bar on
standard error, and goes on where a broken download stopped. A cached file needs no network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import DataError
from manyheads.core.extras import require
from manyheads.data.text import file_sha256

REPOSITORY = "roneneldan/TinyStories"
REVISION = "f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
LICENCE = "CDLA-Sharing-1.0"
NOTICE = (
    f"TinyStories by Ronen Eldan and Yuanzhi Li (arXiv:2305.07759), data set {REPOSITORY}, "
    f"licence {LICENCE}: whoever passes the data on does so under the same licence"
)

_WITHOUT = "give a file with --data FILE, or run the plan smoke, which makes its own stories"


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """One file of the data set, and how to know that it is the right one."""

    name: str
    """Its path in the data set."""
    num_bytes: int
    """Its size, in bytes."""
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
"""The publisher's two files; the second, of 19 MB, has more stories than a study here needs."""


def download_tinystories(
    part: str = "validation", *, tell: Callable[[str], object] = lambda line: None
) -> Path:
    """Fetch a file of TinyStories, or find it in the user's cache, and check it.

    Args:
        part: "validation" (19 MB, about 22,000 stories) or "train" (1.9 GB, about 2.1 million).
        tell: is given the lines that a user should read: the source and its licence.

    Returns:
        the file's place in the cache, for `read_stories`.

    Raises:
        DataError: no such part; the client is not installed; no network and no cached file; or the
            file has another hash.
    """
    if part not in FILES:
        raise DataError(f"part ({part}) must be one of {', '.join(sorted(FILES))}: choose one")
    return fetch(FILES[part], tell=tell)


def fetch(file: HubFile, *, tell: Callable[[str], object]) -> Path:
    """Fetch one file of the data set, or find it in the user's cache, and check it.

    Args:
        file: which one.
        tell: is given the source and the licence.

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

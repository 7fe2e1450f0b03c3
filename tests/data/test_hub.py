"""TinyStories from the hub, with a stand-in for the client: nothing here reaches a network."""

import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from manyheads.core.errors import DataError
from manyheads.data.text import (
    FILES,
    NOTICE,
    REVISION,
    HubFile,
    download_tinystories,
    fetch,
    read_stories,
)

CONTENT = b"Tom ran.\n<|endoftext|>\nMia fell.\n"
SMALL = HubFile(
    name="small.txt", num_bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest()
)


class Client(ModuleType):
    """Stands in for huggingface_hub: writes the given bytes, or raises the given error."""

    def __init__(self, folder: Path, content: bytes | Exception) -> None:
        super().__init__("huggingface_hub")
        self.folder = folder
        self.content = content
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def hf_hub_download(self, *args: Any, **kwargs: Any) -> str:
        self.calls.append((args, kwargs))
        if isinstance(self.content, Exception):
            raise self.content
        path = self.folder / "cached.txt"
        path.write_bytes(self.content)
        return str(path)


def client(monkeypatch: pytest.MonkeyPatch, folder: Path, content: bytes | Exception) -> Client:
    made = Client(folder, content)
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)
    return made


def test_a_file_is_asked_for_by_its_revision_and_its_licence_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = client(monkeypatch, tmp_path, CONTENT)
    told: list[str] = []
    path = fetch(SMALL, tell=told.append)
    assert read_stories(path) == ["Tom ran.", "Mia fell."]
    assert hub.calls == [
        (
            ("roneneldan/TinyStories", "small.txt"),
            {"repo_type": "dataset", "revision": REVISION},
        )
    ]
    assert told == [NOTICE]
    assert "CDLA-Sharing-1.0" in NOTICE


def test_a_file_with_another_hash_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client(monkeypatch, tmp_path, CONTENT + b" ")
    found = hashlib.sha256(CONTENT + b" ").hexdigest()
    with pytest.raises(DataError, match=f"sha256 {found}, expected {SMALL.sha256}.*delete it"):
        fetch(SMALL, tell=print)


@pytest.mark.parametrize("part", ["validation", "train"])
def test_the_pinned_hashes_refuse_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    hub = client(monkeypatch, tmp_path, CONTENT)
    with pytest.raises(DataError, match=FILES[part].sha256):
        download_tinystories(part)
    assert hub.calls[0][0][1] == FILES[part].name


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("no route to host\nand more"),
        FileNotFoundError("not in the cache, and the network is off"),
        TimeoutError(),
        RuntimeError("some other library's error"),
    ],
)
def test_without_a_network_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    client(monkeypatch, tmp_path, error)
    with pytest.raises(DataError, match="--data FILE.*smoke") as caught:
        download_tinystories()
    assert type(error).__name__ in str(caught.value)
    assert "19 MB" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(DataError, match=r"part \(test\) must be one of train, validation"):
        download_tinystories("test")


def test_pins_are_whole_hashes() -> None:
    assert len(REVISION) == 40 and int(REVISION, 16)
    assert all(len(file.sha256) == 64 and int(file.sha256, 16) for file in FILES.values())


def test_the_real_client_offline_gives_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "the extra `data` is not installed"
    constants = pytest.importorskip("huggingface_hub.constants", reason=reason)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(DataError, match="could not be fetched .*--data FILE"):
        download_tinystories()

"""The page as a folder: whole, repeatable, and never at the cost of other files."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.web import site
from manyheads.web.site import MANIFEST, read_bundle, write_site


@pytest.fixture
def static(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(b"<!doctype html>")
    (folder / "assets" / "page.js").write_bytes(b"one")
    return folder


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """A folder of models that only look like some: bytes of every value, and two words."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    weights, words = bytes(range(256)) * 3000, b'{"model": {"vocab": {"b": 1, "a": 0}}}'
    (folder / "mlp.safetensors").write_bytes(weights)
    (folder / "tokenizer.json").write_bytes(words)
    entry = {"file": "mlp.safetensors", "sha256": hashlib.sha256(weights).hexdigest()}
    tokenizer = {"file": "tokenizer.json", "sha256": hashlib.sha256(words).hexdigest()}
    index = {"study": {}, "tokenizer": tokenizer, "models": {"mlp": entry}}
    (folder / "models.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


@pytest.fixture
def none(tmp_path: Path) -> Path:
    """A folder without a model."""
    (tmp_path / "none").mkdir()
    return tmp_path / "none"


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_site_is_the_static_folder_and_its_manifest(
    static: Path, none: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "site"
    assert write_site(out, static, none) == ["assets/page.js", "index.html"]
    written = contents(out)
    assert written.pop(MANIFEST)
    assert written == contents(static) == read_bundle(static, none)
    assert out.stat().st_mode & 0o555 == 0o555
    assert [path.name for path in out.parent.iterdir()] == ["site"]


def test_an_earlier_site_is_replaced_whole(static: Path, none: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    write_site(out, static, none)
    (static / "assets" / "page.js").write_bytes(b"two")
    (static / "assets" / "new.js").write_bytes(b"new")
    (static / "icon.svg").write_bytes(b"<svg/>")
    write_site(out, static, none)
    (static / "icon.svg").unlink()
    write_site(out, static, none)
    written = contents(out)
    assert written.pop(MANIFEST)
    assert written == contents(static)


def test_an_empty_folder_is_filled_and_stays_the_same_folder(
    static: Path, none: Path, tmp_path: Path
) -> None:
    out = tmp_path / "site"
    out.mkdir()
    inode = out.stat().st_ino
    write_site(out, static, none)
    assert out.stat().st_ino == inode
    assert (out / "index.html").is_file()


@pytest.mark.parametrize("name", ["notes.txt", "assets/notes.txt", "index.html", MANIFEST])
def test_other_files_are_never_lost(static: Path, none: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "site"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("mine")
    with pytest.raises(ConfigError, match=rf"OUT \({out}\) contains {name}.*choose a new folder"):
        write_site(out, static, none)
    assert contents(out) == {name: b"mine"}


def test_a_file_added_to_or_changed_in_a_site_is_never_lost(
    static: Path, none: Path, tmp_path: Path
) -> None:
    out = tmp_path / "site"
    write_site(out, static, none)
    (out / "CNAME").write_text("mine")
    with pytest.raises(ConfigError, match="contains CNAME"):
        write_site(out, static, none)
    (out / "CNAME").unlink()
    (out / "index.html").write_text("edited")
    before = contents(out)
    with pytest.raises(ConfigError, match=r"contains index\.html"):
        write_site(out, static, none)
    assert contents(out) == before


def test_a_link_out_of_the_folder_is_refused(static: Path, none: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    out.mkdir()
    (out / "index.html").symlink_to(static / "index.html")
    with pytest.raises(ConfigError, match=r"contains index\.html"):
        write_site(out, static, none)


def test_a_failure_while_moving_puts_everything_back(
    static: Path, none: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "site"
    write_site(out, static, none)
    before = contents(out)
    (static / "assets" / "page.js").write_bytes(b"two")
    rename = site.os.rename
    calls: list[object] = []

    def failing(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 5:
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(site.os, "rename", failing)
    with pytest.raises(ConfigError, match="No space left on device"):
        write_site(out, static, none)
    assert contents(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["none", "site", "static"]


@pytest.mark.parametrize("under", ["file", "file/site"])
def test_a_file_in_the_way_is_named(static: Path, none: Path, tmp_path: Path, under: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=rf"OUT \({tmp_path / under}\) .*choose a folder"):
        write_site(tmp_path / under, static, none)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_path_that_cannot_be_is_refused(static: Path, none: Path) -> None:
    with pytest.raises(ConfigError, match="OUT .* is not a valid path"):
        write_site(Path("a\x00b"), static, none)


def test_a_page_that_is_not_built_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not built yet: run `make page`"):
        write_site(tmp_path / "out", tmp_path / "static")
    assert list(tmp_path.iterdir()) == []


def handed_over(script: bytes) -> tuple[str, bytes]:
    """The path and the bytes that a script hands to the page."""
    found = re.fullmatch(rb"manyheadsFile\((.*)\);\n", script, re.DOTALL)
    assert found
    path, *pieces = json.loads(b"[" + found[1] + b"]")
    return path, b"".join(base64.b64decode(piece, validate=True) for piece in pieces)


def test_a_site_carries_the_models_also_for_a_page_from_disk(
    static: Path, shipped: Path, tmp_path: Path
) -> None:
    out = tmp_path / "site"
    names = write_site(out, static, shipped)
    written = contents(out)
    weights = (shipped / "mlp.safetensors").read_bytes()
    assert written["models/mlp.safetensors"] == weights
    assert json.loads(written["models/words.json"]) == ["a", "b"]
    assert handed_over(written["models/mlp.js"]) == ("models/mlp.safetensors", weights)
    assert handed_over(written["models/words.js"])[1] == written["models/words.json"]
    assert {*names, MANIFEST} == set(written)
    assert json.loads(written[MANIFEST])["files"].keys() == set(names)


def test_a_served_page_has_the_models_once(static: Path, shipped: Path) -> None:
    bundle = read_bundle(static, shipped)
    assert [name for name in bundle if name.startswith("models/")] == [
        "models/words.json",
        "models/mlp.safetensors",
    ]


def test_a_changed_model_is_neither_served_nor_written(
    static: Path, shipped: Path, tmp_path: Path
) -> None:
    (shipped / "mlp.safetensors").write_bytes(b"other")
    with pytest.raises(CheckpointError, match=r"mlp\.safetensors\) was changed or damaged"):
        write_site(tmp_path / "site", static, shipped)
    assert not (tmp_path / "site").exists()

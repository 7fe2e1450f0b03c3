"""The page as a folder: whole, repeatable, and never at the cost of other files."""

from pathlib import Path

import pytest

from manyheads.core.errors import ConfigError
from manyheads.web import site
from manyheads.web.site import MANIFEST, read_bundle, write_site


@pytest.fixture
def static(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(b"<!doctype html>")
    (folder / "assets" / "page.js").write_bytes(b"one")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_site_is_the_static_folder_and_its_manifest(static: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "site"
    assert write_site(out, static) == ["assets/page.js", "index.html"]
    written = contents(out)
    assert written.pop(MANIFEST)
    assert written == contents(static) == read_bundle(static)
    assert out.stat().st_mode & 0o555 == 0o555
    assert [path.name for path in out.parent.iterdir()] == ["site"]


def test_an_earlier_site_is_replaced_whole(static: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    write_site(out, static)
    (static / "assets" / "page.js").write_bytes(b"two")
    (static / "assets" / "new.js").write_bytes(b"new")
    (static / "icon.svg").write_bytes(b"<svg/>")
    write_site(out, static)
    (static / "icon.svg").unlink()
    write_site(out, static)
    written = contents(out)
    assert written.pop(MANIFEST)
    assert written == contents(static)


def test_an_empty_folder_is_filled_and_stays_the_same_folder(static: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    out.mkdir()
    inode = out.stat().st_ino
    write_site(out, static)
    assert out.stat().st_ino == inode
    assert (out / "index.html").is_file()


@pytest.mark.parametrize("name", ["notes.txt", "assets/notes.txt", "index.html", MANIFEST])
def test_other_files_are_never_lost(static: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "site"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("mine")
    with pytest.raises(ConfigError, match=rf"OUT \({out}\) holds {name}.*choose a new folder"):
        write_site(out, static)
    assert contents(out) == {name: b"mine"}


def test_a_file_added_to_or_changed_in_a_site_is_never_lost(static: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    write_site(out, static)
    (out / "CNAME").write_text("mine")
    with pytest.raises(ConfigError, match="holds CNAME"):
        write_site(out, static)
    (out / "CNAME").unlink()
    (out / "index.html").write_text("edited")
    before = contents(out)
    with pytest.raises(ConfigError, match=r"holds index\.html"):
        write_site(out, static)
    assert contents(out) == before


def test_a_link_out_of_the_folder_is_refused(static: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    out.mkdir()
    (out / "index.html").symlink_to(static / "index.html")
    with pytest.raises(ConfigError, match=r"holds index\.html"):
        write_site(out, static)


def test_a_failure_while_moving_puts_everything_back(
    static: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "site"
    write_site(out, static)
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
        write_site(out, static)
    assert contents(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "static"]


@pytest.mark.parametrize("under", ["file", "file/site"])
def test_a_file_in_the_way_is_named(static: Path, tmp_path: Path, under: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=rf"OUT \({tmp_path / under}\) .*choose a folder"):
        write_site(tmp_path / under, static)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_path_that_cannot_be_is_refused(static: Path) -> None:
    with pytest.raises(ConfigError, match="OUT .* is no path"):
        write_site(Path("a\x00b"), static)


def test_a_page_that_is_not_built_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not built yet: run `make page`"):
        write_site(tmp_path / "out", tmp_path / "static")
    assert list(tmp_path.iterdir()) == []

"""The documentation builds into a site that needs no network and lists every public name."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.public_names import public_names
from tests.house.sources import ROOT

LOADED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a link to a page or heading that does not exist stops the build."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist" / "docs"


def test_every_page_is_in_the_site_with_its_search(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    missing = [page for page in pages if not (site / page.with_suffix(".html")).is_file()]
    assert not missing
    index = (site / "search.json").read_text(encoding="utf-8")
    assert "reference.html" in index and "worksheets.html" in index


def test_reference_lists_every_public_name(site: Path) -> None:
    reference = (site / "reference.html").read_text(encoding="utf-8")
    found = {name.rsplit(".", 1)[-1] for name in re.findall(r'id="(manyheads[\w.]*)"', reference)}
    wanted = {name.rsplit(".", 1)[-1] for name in public_names()} - {"__version__"}
    assert wanted - found == set()


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    offenders = {
        page.name: LOADED.findall(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")
    }
    assert {page: found for page, found in offenders.items() if found} == {}
    assert LOADED.search('<script src="https://unpkg.com/iframe-worker/shim" type="x">')

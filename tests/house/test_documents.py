"""The code in the README and in the docs runs and prints what the page says."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.factories import annotations_unchecked
from tests.house.documents import run_page
from tests.house.sources import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_of_the_page_runs(path: Path, tmp_path: Path) -> None:
    with annotations_unchecked():  # as for a reader; checks of checked code take most of the time
        run_page(path.read_text(encoding="utf-8"), path.name, tmp_path)


def broken_links(page: Path) -> list[str]:
    """The links of a page to files that do not exist; headings are checked with the site."""
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", re.sub(r"`[^`]*`", "", text))
    paths = (target for target in targets if "://" not in target)
    return [f"{page.name}: {path}" for path in paths if not (page.parent / path).exists()]


def test_links_to_files_exist() -> None:
    pages = [*PAGES, *ROOT.glob("*.md"), *(ROOT / "changelog.d").glob("*.md")]
    assert [link for page in pages for link in broken_links(page)] == []


def test_a_link_to_a_missing_file_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](page.md#top), [b](gone.md), [c](https://x.org), `[d](e)`", "utf-8")
    assert broken_links(page) == ["page.md: gone.md"]


def test_installation_page_lists_every_extra_for_users() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", text, re.M))
    ours = {"bench", "dev", "docs", "libraries"}  # for work on the package itself
    assert listed == set(project["optional-dependencies"]) - ours


def test_readme_has_code_that_runs(tmp_path: Path) -> None:
    assert "```python" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_sound_page_runs(tmp_path: Path) -> None:
    page = (
        "```python\nx = 3\n```\n\ntext\n\n```python\nprint(x, 1.25)\n```\n```text\n3 1...\n```\n"
        "```console\n$ make run\n...\n$ python -c 'print(4)'\n4\n```\n"
        "```sh\n# set up\ngit clone somewhere\npython -c ''\n```\n"
        "<!-- not run: it never ends -->\n```python\nwhile True: pass\n```\n```json\n{\n```\n"
    )
    assert run_page(page, "page.md", tmp_path) == 4


def test_a_saved_block_is_a_file_for_the_commands_below(tmp_path: Path) -> None:
    page = (
        "<!-- file: three.py -->\n```python\nx = 3\nprint(x)\n```\n```text\n3\n```\n"
        "```console\n$ python -c 'import three'\n3\n"
        "$ python -c 'raise SystemExit(2)'   # exit status 2\n```\n"
    )
    assert run_page(page, "page.md", tmp_path) == 3
    assert (tmp_path / "three.py").read_text(encoding="utf-8") == "x = 3\nprint(x)\n"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "page.md:4 prints"),
        ("```python\nprint(12)\n```\n\n```text\n1\n```\n", "page.md:5 prints"),
        ("```console\n$ python -c 'print(4)'\n5\n```\n", "page.md:1 prints"),
        ("```console\n$ python -c 'raise SystemExit(2)'\n```\n", "ended with 2"),
        ("```console\n$ python -c 'pass'  # exit status 1\n```\n", "ended with 0"),
        ("```sh\nrm -r everything\n```\n", "a page may not show rm"),
        ("```console\nloose\n```\n", "no `\\$ ` command"),
    ],
)
def test_a_page_that_says_something_else_is_found(page: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        run_page(page, "page.md", tmp_path)


def test_an_error_in_a_block_is_shown_at_its_line_of_the_page(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("one\n```python\n\n1 / 0\n```\n", "page.md", tmp_path)
    assert caught.traceback[-1].lineno == 3

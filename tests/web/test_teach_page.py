"""The teacher's page: its links lead somewhere, its files are there, and anybody can read it."""

import io
import sys
from pathlib import Path

import pypdf
import pytest

from manyheads.web.site import read_bundle
from manyheads.worksheets.library import worksheet_names
from tests.web.browsing import Visit
from tests.web.serving import ask, serving
from tools.page.paper import write_papers

LINKS = "nodes => nodes.map(node => node.getAttribute('href'))"


@pytest.fixture
def teach(visit: Visit) -> Visit:
    return visit.open("#teach")


def paper_links(visit: Visit) -> list[str]:
    found: list[str] = visit.page.eval_on_selector_all(".papers a", LINKS)
    return found


def test_every_shipped_worksheet_has_a_sheet_and_a_key(teach: Visit, site: Path) -> None:
    links = paper_links(teach)
    wanted = [
        f"paper/{name}-{kind}-{size}.pdf"
        for name in worksheet_names()
        for kind in ("blank", "key")
        for size in ("a4", "letter")
    ]
    assert links == wanted
    for link in links:
        text = pypdf.PdfReader(site / link).pages[0].extract_text()
        assert ("KEY" in text) == ("-key-" in link)


def test_a_server_sends_the_files_as_pdf(static_page: Path) -> None:
    bundle = read_bundle(static_page)
    with serving(bundle) as port:
        answer = ask(port, "/paper/two-routes-key-a4.pdf")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/pdf")
    assert "key" in str(pypdf.PdfReader(io.BytesIO(answer.content)).metadata)


def test_a_click_saves_a_file_of_the_served_page(served_visit: Visit) -> None:
    served_visit.open("#teach")
    with served_visit.page.expect_download() as download:
        served_visit.page.click('.papers a[href="paper/two-routes-blank-a4.pdf"]')
    assert download.value.suggested_filename == "two-routes-blank-a4.pdf"
    assert download.value.path().read_bytes().startswith(b"%PDF-")


def test_links_lead_into_the_page(teach: Visit) -> None:
    links = teach.page.eval_on_selector_all(".teach section a[href^='#']", LINKS)
    assert len(links) > 30
    seen = set()
    for link in dict.fromkeys(links):
        teach.go(link)
        view = link[1:].split("/")[0]
        assert teach.view() == view, link
        seen.add(view)
        if view == "story":
            assert teach.page.evaluate("location.hash") == link
    assert seen >= {"story", "worksheet", "models", "study", "learn"}


def test_the_list_of_sections_leads_to_each(teach: Visit) -> None:
    for link in teach.page.query_selector_all(".teach nav a"):
        link.click()
        focused = "document.activeElement.textContent"
        assert teach.page.evaluate(focused) == link.text_content()
        assert teach.page.evaluate("location.hash") == "#teach"


def test_its_text_is_that_of_the_documentation(teach: Visit, root: Path) -> None:
    source = (root / "docs" / "teach.md").read_text(encoding="utf-8")
    titles = [line[3:] for line in source.splitlines() if line.startswith("## ")]
    assert teach.page.locator(".teach h3").all_text_contents() == titles
    assert teach.page.text_content(".teach h2") == source.splitlines()[0][2:]


def test_numbers_without_a_name_stand_in_code_only(teach: Visit) -> None:
    assert teach.shown(["#teach"]) == set()


def test_without_typst_the_list_is_empty_and_old_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "old.pdf").write_bytes(b"old")
    monkeypatch.setitem(sys.modules, "typst", None)
    assert write_papers(tmp_path) == {"format": 1, "papers": []}
    assert "needs typst" in capsys.readouterr().err
    assert list((tmp_path / "paper").iterdir()) == []
